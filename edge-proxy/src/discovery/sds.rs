//! Servers of secrets beside the proxy (Envoy's SDS): one stream to each whose secrets are wanted, opened again for
//! ever.
//!
//! They are asked in the form of the protocol that all of them know: the state of the world, in which each request
//! names all that is wanted and each answer is acknowledged by its version. While a server is away, what it said last
//! stays in use; what it hasn't said yet keeps those closed who need it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::Secret;
use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use envoy_types::pb::envoy::service::secret::v3::secret_discovery_service_client::SecretDiscoveryServiceClient;
use envoy_types::pb::google::rpc::Status;
use prost::Message as _;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use crate::control::{Control, OfServers};
use crate::discovery::Backoff;
use crate::discovery::connect::{connect, with_causes};
use crate::xds::Kind;

/// Requests that wait to be written.
const QUEUE: usize = 8;

/// `INVALID_ARGUMENT` of gRPC: what a NACK says.
const INVALID: i32 = 3;

/// Asks every server whose secrets are wanted, for as long as they are.
pub(crate) async fn follow(control: Rc<Control>, node: Node) {
    let mut wanted = control.wanted_of_servers();
    let mut asked: BTreeMap<String, AbortHandle> = BTreeMap::new();
    loop {
        let servers: BTreeSet<String> = wanted.borrow_and_update().keys().cloned().collect();
        asked.retain(|server, asking| {
            let is_wanted = servers.contains(server);
            if !is_wanted {
                asking.abort();
            }
            is_wanted
        });
        for server in servers {
            asked.entry(server).or_insert_with_key(|server| {
                let asking = ask(control.clone(), node.clone(), server.clone());
                tokio::task::spawn_local(asking).abort_handle()
            });
        }
        if wanted.changed().await.is_err() {
            return;
        }
    }
}

/// Asks one server.
async fn ask(control: Rc<Control>, node: Node, server: String) {
    let mut backoff = Backoff::new();
    let mut turn = 0;
    let mut snapshots = control.shared.snapshot.clone();
    loop {
        let known = snapshots
            .wait_for(|snapshot| snapshot.cluster_by_name(&server).is_some())
            .await;
        let Some(entry) = known
            .ok()
            .and_then(|snapshot| snapshot.cluster_by_name(&server).cloned())
        else {
            return;
        };
        let ended = match connect(entry, turn).await {
            Ok(channel) => {
                let stream = Stream {
                    control: &control,
                    server: &server,
                    node: &node,
                    wanted: control.wanted_of_servers(),
                };
                stream
                    .run(SecretDiscoveryServiceClient::new(channel), &mut backoff)
                    .await
            }
            Err(error) => Err(error),
        };
        control.server_failed(&server);
        turn = turn.wrapping_add(1);
        let pause = backoff.pause(RandomState::new().hash_one(turn));
        match ended {
            Ok(()) => tracing::info!(server, ?pause, "a server of secrets ended its stream"),
            Err(error) => tracing::warn!(server, error, ?pause, "a server of secrets can't be asked"),
        }
        tokio::time::sleep(pause).await;
    }
}

type Client = SecretDiscoveryServiceClient<tonic::transport::Channel>;

/// One stream to a server.
struct Stream<'a> {
    control: &'a Rc<Control>,
    server: &'a str,
    node: &'a Node,
    wanted: watch::Receiver<OfServers>,
}

impl Stream<'_> {
    async fn run(mut self, mut client: Client, backoff: &mut Backoff) -> Result<(), String> {
        let (requests, receiver) = mpsc::channel(QUEUE);
        let closed = |_| "the stream is closed".to_owned();
        let mut request = DiscoveryRequest {
            node: Some(self.node.clone()),
            resource_names: self.names(),
            type_url: Kind::Secret.type_url().to_owned(),
            ..Default::default()
        };
        // Queued before the call: a server may answer only when it has read something.
        requests.send(request.clone()).await.map_err(closed)?;
        request.node = None;
        let response = client.stream_secrets(ReceiverStream::new(receiver)).await;
        let mut responses = response.map_err(|error| with_causes(&error))?.into_inner();
        tracing::info!(server = self.server, "connected to a server of secrets");
        loop {
            tokio::select! {
                message = responses.next() => match message {
                    Some(Ok(response)) => {
                        backoff.reset();
                        self.receive(response, &mut request);
                    }
                    Some(Err(error)) => return Err(with_causes(&error)),
                    None => return Ok(()),
                },
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let names = self.names();
                    if names == request.resource_names {
                        continue;
                    }
                    request.resource_names = names;
                    request.error_detail = None;
                }
            }
            requests.send(request.clone()).await.map_err(closed)?;
        }
    }

    /// What is wanted now, sorted.
    fn names(&mut self) -> Vec<String> {
        let wanted = self.wanted.borrow_and_update();
        wanted.get(self.server).into_iter().flatten().cloned().collect()
    }

    /// Takes what was sent and says in the request what became of it: the version, or what is wrong with which secret.
    fn receive(&self, response: DiscoveryResponse, request: &mut DiscoveryRequest) {
        let taken = response.resources.iter().map(|resource| {
            let secret =
                Secret::decode(&*resource.value).map_err(|error| format!("a secret can't be decoded: {error}"))?;
            // A server may send all that it has.
            if !request.resource_names.contains(&secret.name) {
                return Ok(());
            }
            let put = self
                .control
                .put_secret_of_server(self.server, &secret, &response.version_info);
            put.map_err(|error| format!("{}: {error}", secret.name))
        });
        let wrong: Vec<String> = taken.filter_map(Result::err).collect();
        self.control.settle();
        request.response_nonce = response.nonce;
        request.error_detail = None;
        if wrong.is_empty() {
            request.version_info = response.version_info;
            return;
        }
        let message = wrong.join("\n");
        tracing::error!(server = self.server, reason = message, "secrets rejected");
        request.error_detail = Some(Status {
            code: INVALID,
            message,
            ..Default::default()
        });
    }
}
