//! The xDS server: delta ADS over gRPC with mutual TLS.
//!
//! The protocol is `edge-xds`'s state machine; here are the sockets around it. Each stream is one object that is
//! driven by whoever reads its responses ([`stream`]), so a slow proxy holds up nobody and nothing queues for it.
//! Streams are refused until there is something to serve: a proxy that is told of nothing would drop what it has.

use crate::{
    certs::ServerTls,
    metrics::Metrics,
    state::{Published, Rejections},
    task::Stop,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
    aggregated_discovery_service_server::{AggregatedDiscoveryService, AggregatedDiscoveryServiceServer},
};
use futures_util::stream::BoxStream;
use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpListener, sync::watch};
use tonic::{Request, Response, Status, Streaming, transport::Server};

mod identity;
mod incoming;
mod kept_back;
mod stream;
#[cfg(test)]
mod tests;

use kept_back::KeptBack;

/// Bounds of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Life of a connection; unset: somewhere between 10 and 12 hours.
    pub connection_age: Option<Duration>,
    /// Time to finish after it.
    pub connection_grace: Duration,
    /// Largest message that is taken, in bytes.
    pub message_size: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // A proxy that comes back names every version it has: far more than the 4 MiB that gRPC allows by default.
        Self {
            connection_age: None,
            connection_grace: Duration::from_secs(120),
            message_size: 32 << 20,
        }
    }
}

/// What all streams share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The latest state.
    pub published: watch::Receiver<Option<Arc<Published>>>,
    /// What was rejected.
    pub rejections: Arc<watch::Sender<Rejections>>,
    /// Namespace of the controller: part of the name in a proxy's certificate.
    pub namespace: Arc<str>,
    /// Measurements.
    pub metrics: Arc<Metrics>,
}

/// Serves until asked to stop.
pub async fn serve(listener: TcpListener, tls: ServerTls, limits: Limits, shared: Shared, stop: Stop) {
    let kept_back = KeptBack::new(Arc::clone(&shared.rejections));
    let published = shared.published.clone();
    let service = AggregatedDiscoveryServiceServer::new(Discovery {
        shared,
        kept_back: kept_back.clone(),
        stop: stop.clone(),
        streams: Arc::new(AtomicU64::new(0)),
    })
    .max_decoding_message_size(limits.message_size)
    .max_encoding_message_size(usize::MAX);
    let age = limits
        .connection_age
        .unwrap_or_else(|| default_connection_age(RandomState::new().hash_one(0)));
    let mut signal = stop.clone();
    let served = Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(30)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .max_connection_age(age)
        .max_connection_age_grace(limits.connection_grace)
        .add_service(service)
        .serve_with_incoming_shutdown(
            incoming::connections(listener, tls),
            async move { signal.requested().await },
        );
    tokio::select! {
        served = served => {
            if let Err(error) = served {
                tracing::error!(%error, "the xDS server has failed");
            }
        }
        // Nobody publishes any more: the controller ends.
        () = kept_back.follow(published) => {}
    }
}

/// A connection's life when the file names none: between 10 and 12 hours, so that not all come back at once.
fn default_connection_age(seed: u64) -> Duration {
    Duration::from_secs(10 * 3600 + seed % (2 * 3600))
}

struct Discovery {
    shared: Shared,
    kept_back: KeptBack,
    stop: Stop,
    streams: Arc<AtomicU64>,
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for Discovery {
    type StreamAggregatedResourcesStream = BoxStream<'static, Result<DiscoveryResponse, Status>>;
    type DeltaAggregatedResourcesStream = BoxStream<'static, Result<DeltaDiscoveryResponse, Status>>;

    async fn stream_aggregated_resources(
        &self,
        _: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        Err(Status::unimplemented(
            "only the incremental variant is served: use api_type DELTA_GRPC",
        ))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        identity::check(
            request.peer_certs().as_deref().map(Vec::as_slice),
            &self.shared.namespace,
        )?;
        if self.shared.published.borrow().is_none() {
            return Err(Status::unavailable("the first translation isn't done yet; try again"));
        }
        let number = self.streams.fetch_add(1, Ordering::Relaxed);
        let context = stream::Context {
            number,
            shared: self.shared.clone(),
            kept_back: self.kept_back.clone(),
            stop: self.stop.clone(),
        };
        let responses = stream::open(context, request.into_inner()).await?;
        Ok(Response::new(responses))
    }
}
