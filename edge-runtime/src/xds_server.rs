//! The xDS server: delta ADS over gRPC with TLS, for proxies that prove whose they are.
//!
//! The protocol is `edge-xds`'s state machine; here are the sockets around it. Each stream is one object that is
//! driven by whoever reads its responses ([`stream`]), so a slow proxy holds up nobody and nothing queues for it.
//! Streams are refused until there is something to serve: a proxy that is told of nothing would drop what it has.

use crate::{
    certs::ServerTls,
    metrics::Metrics,
    state::{Deliveries, Published, Rejections},
    task::Stop,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
    aggregated_discovery_service_server::{AggregatedDiscoveryService, AggregatedDiscoveryServiceServer},
};
use futures_util::stream::BoxStream;
use identity::Peer;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
};
use tonic::{Request, Response, Status, Streaming};

mod accounts;
mod delivered;
mod identity;
mod incoming;
mod introduction;
mod kept_back;
pub mod limits;
mod stream;
#[cfg(test)]
mod tests;
mod tokens;

pub use identity::{AccountAuthorizer, Authorizer, ClientCertificates};
use kept_back::KeptBack;

/// Life of a connection when the file names none.
const DEFAULT_AGE: Duration = Duration::from_secs(10 * 3600);
/// Streams at a time. One proxy has one, and for a moment two when it comes back.
const MAX_STREAMS: usize = 4096;
/// Streams of one connection.
const MAX_STREAMS_OF_CONNECTION: u32 = 16;

/// Bounds of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Life of a connection; unset: 10 hours. No new stream is opened on it then, and the one that is there ends by
    /// itself, up to a fifth later, so that proxies that came together don't come back together.
    pub connection_age: Option<Duration>,
    /// Time to finish an exchange that is under way then.
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
    /// What connected proxies serve.
    pub deliveries: Arc<watch::Sender<Deliveries>>,
    /// Whom a fleet's configuration is given to.
    pub authorizer: Authorizer,
    /// Measurements.
    pub metrics: Arc<Metrics>,
}

/// Serves until asked to stop.
pub async fn serve(listener: TcpListener, tls: ServerTls, limits: Limits, shared: Shared, stop: Stop) {
    let kept_back = KeptBack::new(Arc::clone(&shared.rejections));
    let published = shared.published.clone();
    let lifetime = stream::Lifetime {
        age: limits.connection_age.unwrap_or(DEFAULT_AGE),
        grace: limits.connection_grace,
    };
    let service = AggregatedDiscoveryServiceServer::new(Discovery {
        shared,
        lifetime,
        places: Arc::new(Semaphore::new(MAX_STREAMS)),
        kept_back: kept_back.clone(),
        stop: stop.clone(),
        streams: Arc::new(AtomicU64::new(0)),
    })
    .max_decoding_message_size(limits.message_size)
    .max_encoding_message_size(usize::MAX);
    let mut signal = stop.clone();
    let served = incoming::server(MAX_STREAMS_OF_CONNECTION)
        // Without a grace period: with one the connection would be cut instead of told to end (tonic 0.14).
        .max_connection_age(lifetime.age)
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

struct Discovery {
    shared: Shared,
    kept_back: KeptBack,
    lifetime: stream::Lifetime,
    places: Arc<Semaphore>,
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
        let peer = Peer::of(&request);
        if self.shared.published.borrow().is_none() {
            return Err(Status::unavailable("the first translation isn't done yet; try again"));
        }
        let number = self.streams.fetch_add(1, Ordering::Relaxed);
        let context = stream::Context {
            number,
            shared: self.shared.clone(),
            kept_back: self.kept_back.clone(),
            lifetime: self.lifetime,
            stop: self.stop.clone(),
            places: Arc::clone(&self.places),
        };
        let responses = stream::open(context, peer, request.into_inner()).await?;
        Ok(Response::new(responses))
    }
}
