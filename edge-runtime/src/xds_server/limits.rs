//! Tells the service of global rate limits what to count: all domains at once, and again whenever one changes (the
//! state of the world, as that service knows no other variant), over gRPC with TLS.
//!
//! At most one response is under way; what changes meanwhile is in the next. What the service refuses is logged and not
//! sent again: it goes on with what it took last.

use super::{
    identity::{Peer, demand_service},
    incoming,
};
use crate::{certs::ServerTls, state::Published, task::Stop};
use edge_xds::limits::{Resources, type_url};
use envoy_types::pb::{
    envoy::service::discovery::v3::{
        DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
        aggregated_discovery_service_server::{AggregatedDiscoveryService, AggregatedDiscoveryServiceServer},
    },
    google::protobuf::Any,
};
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use std::sync::Arc;
use tokio::{net::TcpListener, sync::watch};
use tonic::{Request, Response, Status, Streaming};

/// Streams of one connection.
const MAX_STREAMS_OF_CONNECTION: u32 = 4;

/// What the server works from.
#[derive(Clone, Debug)]
pub struct Domains {
    /// The latest state.
    pub published: watch::Receiver<Option<Arc<Published>>>,
    /// The controller's namespace, which the service's certificate must name.
    pub namespace: Arc<str>,
}

/// Serves until asked to stop.
pub async fn serve(listener: TcpListener, tls: ServerTls, domains: Domains, stop: Stop) {
    let mut signal = stop.clone();
    let service = AggregatedDiscoveryServiceServer::new(Discovery { domains, stop });
    let served = incoming::server(MAX_STREAMS_OF_CONNECTION)
        .add_service(service.max_encoding_message_size(usize::MAX))
        .serve_with_incoming_shutdown(incoming::connections(listener, tls), async move {
            signal.requested().await;
        });
    if let Err(error) = served.await {
        tracing::error!(%error, "the server of rate limits has failed");
    }
}

struct Discovery {
    domains: Domains,
    stop: Stop,
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for Discovery {
    type StreamAggregatedResourcesStream = BoxStream<'static, Result<DiscoveryResponse, Status>>;
    type DeltaAggregatedResourcesStream = BoxStream<'static, Result<DeltaDiscoveryResponse, Status>>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        let peer = Peer::of(&request);
        demand_service(&peer, &self.domains.namespace)?;
        peer.let_in();
        let session = Session {
            requests: request.into_inner(),
            published: self.domains.published.clone(),
            stop: self.stop.clone(),
            told: None,
            nonce: 0,
            turn: Turn::Theirs,
        };
        let next = |session: Option<Session>| async {
            let mut session = session?;
            match session.next().await {
                Ok(response) => Some((Ok(response?), Some(session))),
                Err(status) => Some((Err(status), None)),
            }
        };
        Ok(Response::new(stream::unfold(Some(session), next).boxed()))
    }

    async fn delta_aggregated_resources(
        &self,
        _: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        Err(Status::unimplemented(
            "rate limits are served as the state of the world: use StreamAggregatedResources",
        ))
    }
}

/// A stream to the service.
struct Session {
    requests: Streaming<DiscoveryRequest>,
    published: watch::Receiver<Option<Arc<Published>>>,
    stop: Stop,
    /// What the service was told last.
    told: Option<Arc<Resources>>,
    nonce: u64,
    turn: Turn,
}

/// Who has to say something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The service: it has asked for nothing yet, or not answered what it was told.
    Theirs,
    /// We, as soon as there is something else to tell.
    Ours,
}

impl Session {
    /// The next response. `None`: the service has left, or the controller stops.
    async fn next(&mut self) -> Result<Option<DiscoveryResponse>, Status> {
        loop {
            if self.turn == Turn::Ours
                && let Some(response) = self.response()
            {
                self.turn = Turn::Theirs;
                return Ok(Some(response));
            }
            tokio::select! {
                () = self.stop.requested() => return Ok(None),
                request = self.requests.message() => match request? {
                    Some(request) => self.take(&request)?,
                    None => return Ok(None),
                },
                changed = self.published.changed() => if changed.is_err() {
                    return Ok(None);
                },
            }
        }
    }

    fn take(&mut self, request: &DiscoveryRequest) -> Result<(), Status> {
        if request.type_url != type_url() {
            let known = type_url();
            return Err(Status::invalid_argument(format!("nothing is served here but {known}")));
        }
        if let Some(error) = &request.error_detail {
            tracing::warn!(error = error.message, "the rate limit service refuses what it is told");
        }
        // An answer to an older response doesn't answer the latest.
        if request.response_nonce.is_empty() || request.response_nonce == self.nonce.to_string() {
            self.turn = Turn::Ours;
        }
        Ok(())
    }

    /// What the service doesn't know yet; nothing before the first translation.
    fn response(&mut self) -> Option<DiscoveryResponse> {
        let limits = Arc::clone(&self.published.borrow_and_update().as_ref()?.limits);
        if self.told.as_ref().is_some_and(|told| *told == limits) {
            return None;
        }
        self.nonce += 1;
        let resource = |body: &bytes::Bytes| Any {
            type_url: type_url(),
            value: body.to_vec(),
        };
        let response = DiscoveryResponse {
            version_info: self.nonce.to_string(),
            nonce: self.nonce.to_string(),
            type_url: type_url(),
            resources: limits.values().map(resource).collect(),
            ..Default::default()
        };
        self.told = Some(limits);
        Some(response)
    }
}
