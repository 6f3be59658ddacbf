//! The stream to the configuration server: the shell around [`DeltaClient`](crate::xds::delta::DeltaClient), one stream
//! at a time, opened again for ever.
//!
//! While the server is away everything goes on with the last good configuration.

mod withheld;

use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

use crate::config::cluster::Credential;
use crate::control::{Awaited, Control, Progress};
use crate::discovery::Backoff;
use crate::discovery::ads::withheld::Withheld;
use crate::discovery::connect::{connect, with_causes};
use crate::due;
use crate::xds::Kind;
use crate::xds::assembly::{Assembly, Origin};
use crate::xds::delta::{DeltaClient, Unusable};

/// Largest message that is taken: a fleet of tens of thousands of routes in one response.
const MAX_MESSAGE: usize = 256 << 20;

/// Requests that wait to be written. When it is full the stream is not read on until the server takes some.
const QUEUE: usize = 32;

/// So long what the server sends may refer to what it doesn't: Envoy's default for `initial_fetch_timeout`.
const INITIAL_FETCH: Duration = Duration::from_secs(15);

/// Types of which what others refer to is asked for. Only clusters and listeners refer to anything.
const BY_REFERENCE: &[Kind] = &[Kind::Assignment, Kind::Routes, Kind::Secret];

/// Follows the configuration server until the process ends.
pub(crate) async fn follow(control: Rc<Control>, node: Node, cluster: String) {
    let mut delta = DeltaClient::new(node);
    let mut backoff = Backoff::new();
    let mut turn = 0;
    control.awaited.set(Awaited {
        clusters: true,
        listeners: true,
    });
    loop {
        // Certificates and tokens may have been rotated since the last stream.
        control.reload_files();
        control.settle();
        let entry = loop {
            if let Some(entry) = control.read(|assembly| assembly.snapshot().cluster_by_name(&cluster).cloned()) {
                break entry;
            }
            control.progressed.notified().await;
        };
        let credential = entry.cluster.credential.clone();
        let ended = match connect(entry, turn).await {
            Ok(channel) => {
                let client = AggregatedDiscoveryServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
                open(&control, &mut delta, client, credential.as_deref(), &mut backoff).await
            }
            Err(error) => Err(error),
        };
        control.shared.stats.control().control_plane_connected.set(0);
        turn = turn.wrapping_add(1);
        let pause = backoff.pause(RandomState::new().hash_one(turn));
        match ended {
            Ok(()) => tracing::info!(cluster, ?pause, "the configuration stream ended"),
            Err(error) => tracing::warn!(cluster, error, ?pause, "no configuration stream"),
        }
        tokio::time::sleep(pause).await;
    }
}

type Client = AggregatedDiscoveryServiceClient<tonic::transport::Channel>;

/// Opens a stream, and follows it until it ends.
async fn open(
    control: &Rc<Control>,
    delta: &mut DeltaClient,
    mut client: Client,
    credential: Option<&Credential>,
    backoff: &mut Backoff,
) -> Result<(), String> {
    let (requests, receiver) = mpsc::channel(QUEUE);
    // Queued before the call: a server may answer only when it has read something.
    let mut session = Session::begin(control, delta, requests).await?;
    let mut request = Request::new(ReceiverStream::new(receiver));
    if let Some(Credential { header, value }) = credential {
        let mut headers = std::mem::take(request.metadata_mut()).into_headers();
        headers.insert(header, value.clone());
        *request.metadata_mut() = MetadataMap::from_headers(headers);
    }
    let response = client.delta_aggregated_resources(request).await;
    let responses = response.map_err(|error| with_causes(&error))?.into_inner();
    tracing::info!("connected to the configuration server");
    control.shared.stats.control().control_plane_connected.set(1);
    session.converse(responses, backoff, INITIAL_FETCH).await
}

/// One stream, as its requests see it.
struct Session<'a> {
    control: &'a Rc<Control>,
    delta: &'a mut DeltaClient,
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    withheld: Withheld,
}

impl<'a> Session<'a> {
    /// A new stream, on which is said what is wanted.
    async fn begin(
        control: &'a Rc<Control>,
        delta: &'a mut DeltaClient,
        requests: mpsc::Sender<DeltaDiscoveryRequest>,
    ) -> Result<Self, String> {
        delta.reset();
        let mut session = Self {
            control,
            delta,
            requests,
            withheld: Withheld::default(),
        };
        session.subscribe(BY_REFERENCE).await?;
        Ok(session)
    }

    /// Takes what the server sends and answers, until it ends the stream. What it has sent may refer for so long as
    /// `patience` to what it hasn't; the time begins anew with its first answer about listeners.
    async fn converse(
        &mut self,
        mut responses: impl Stream<Item = Result<DeltaDiscoveryResponse, Status>> + Unpin,
        backoff: &mut Backoff,
        patience: Duration,
    ) -> Result<(), String> {
        let control = self.control;
        let mut limit = pin!(tokio::time::sleep(patience));
        loop {
            let awaited = control.awaited.get();
            let mut referred: &[Kind] = &[];
            tokio::select! {
                message = responses.next() => match message {
                    Some(Ok(response)) => {
                        backoff.reset();
                        referred = self.receive(response).await?;
                    }
                    None => return Ok(()),
                    Some(Err(error)) => return Err(with_causes(&error)),
                },
                () = control.progressed.notified() => {}
                () = due::at(self.withheld.due()) => {}
                () = &mut limit, if control.progress() != Progress::Live => {
                    control.stop_waiting();
                    limit.as_mut().reset(Instant::now() + patience);
                }
            }
            if control.awaited.get() != awaited {
                control.wait_again();
                limit.as_mut().reset(Instant::now() + patience);
            }
            while let Some(answer) = self.withheld.next(control) {
                self.send(answer).await?;
            }
            self.subscribe(referred).await?;
        }
    }

    /// Takes a response and answers it. Gives the types of which something else may be referred to by now.
    async fn receive(&mut self, response: DeltaDiscoveryResponse) -> Result<&'static [Kind], String> {
        let control = self.control;
        let update = match self.delta.receive(response) {
            Ok(update) => update,
            Err(Unusable::Type(nack)) => return self.send(*nack).await.map(|()| &[][..]),
            Err(Unusable::Base(name)) => {
                return Err(format!(
                    "{name:?} is told by what differs from a version that isn't here; asking anew"
                ));
            }
        };
        let rejected = control.apply(update.kind, Origin::Dynamic, &update.added, &update.removed);
        let answer = self.delta.answer(&update, &rejected);
        match &answer.error_detail {
            Some(status) => tracing::error!(kind = ?update.kind, reason = status.message, "resources rejected"),
            None => tracing::debug!(
                kind = ?update.kind,
                added = update.added.len(),
                removed = update.removed.len(),
                "resources accepted"
            ),
        }
        let mut awaited = control.awaited.get();
        match update.kind {
            Kind::Cluster => awaited.clusters = false,
            Kind::Listener => awaited.listeners = false,
            Kind::Assignment | Kind::Routes | Kind::Secret => {}
        }
        control.awaited.set(awaited);
        let referred = match update.kind {
            Kind::Cluster | Kind::Listener => BY_REFERENCE,
            Kind::Assignment | Kind::Routes | Kind::Secret => &[],
        };
        if !referred.is_empty() {
            control.forget_unwanted();
        }
        control.settle();
        let is_taken = answer.error_detail.is_none();
        let answer = match update.kind {
            Kind::Cluster if is_taken => {
                let clusters = update.added.into_iter().map(|cluster| cluster.name).collect();
                self.withheld.keep(control, answer, clusters)
            }
            _ => Some(answer),
        };
        if let Some(answer) = answer {
            self.send(answer).await?;
        }
        Ok(referred)
    }

    /// Says what is wanted now of these types. Listeners are asked for when all clusters can be used, so that the first
    /// listener never meets a cluster that isn't there yet.
    async fn subscribe(&mut self, referred: &[Kind]) -> Result<(), String> {
        let control = self.control;
        let awaited = control.awaited.get();
        let returned = control.take_returned();
        let has_left = control.read(Assembly::has_left_tables);
        if has_left {
            control.forget_unwanted();
            control.settle();
        }
        // A listener that was taken after all refers to something as well.
        let referred = match returned.is_empty() && !has_left {
            true => referred,
            false => BY_REFERENCE,
        };
        let ready = !awaited.clusters && (!awaited.listeners || control.clusters_ready());
        for kind in Kind::ALL {
            if kind == Kind::Listener && !ready {
                continue;
            }
            if let Some(request) = self.delta.start(kind) {
                self.send(request).await?;
            }
            if referred.contains(&kind) {
                let wanted = control.read(|assembly| assembly.wanted(kind));
                if let Some(request) = self.delta.subscribe(kind, &wanted) {
                    self.send(request).await?;
                }
            }
        }
        match self.delta.ask_again(Kind::Listener, returned) {
            Some(request) => self.send(request).await,
            None => Ok(()),
        }
    }

    async fn send(&self, request: DeltaDiscoveryRequest) -> Result<(), String> {
        let sent = self.requests.send(request).await;
        sent.map_err(|_| "the stream is closed".to_owned())
    }
}

#[cfg(test)]
mod tests;
