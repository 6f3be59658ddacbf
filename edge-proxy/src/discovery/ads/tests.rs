//! One stream, with the test for a server.

use std::pin::pin;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::service::discovery::v3::Resource;
use envoy_types::pb::google::protobuf::Any;
use prost::{Message, Name};
use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::compile::files::Disk;
use crate::compile::{Context, prefixed_headers};
use crate::control::Binding;
use crate::shared::share;
use crate::xds::assembly::Assembly;

#[test]
fn pauses_grow_to_fifteen_seconds_and_start_again_after_a_message() {
    let mut backoff = Backoff::new();
    assert_eq!(backoff.pause(0), Duration::from_millis(5));
    assert!(backoff.pause(999) < Duration::from_millis(20));
    for _ in 0..20 {
        backoff.pause(0);
    }
    assert_eq!(backoff.pause(0), Duration::from_millis(7500));
    backoff.reset();
    assert_eq!(backoff.pause(0), Duration::from_millis(5));
}

const CLUSTER: &str = "{name: a, type: EDS, eds_cluster_config: {eds_config: {ads: {}}}}";
const ENDPOINTS: &str = "{cluster_name: a, endpoints: []}";
const ROUTES: &str = "{name: r, virtual_hosts: []}";

fn listener() -> String {
    let filter = "type.googleapis.com/envoy.extensions.filters";
    format!(
        "{{name: l, address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}, filter_chains: [{{filters: \
         [{{name: hcm, typed_config: {{\"@type\": \
         {filter}.network.http_connection_manager.v3.HttpConnectionManager, stat_prefix: s, rds: {{config_source: \
         {{ads: {{}}}}, route_config_name: r}}, http_filters: [{{name: router, typed_config: {{\"@type\": \
         {filter}.http.router.v3.Router}}}}]}}}}]}}]}}"
    )
}

/// A server's end of a stream, and the proxy whose it is.
struct Server {
    control: Rc<Control>,
    responses: mpsc::Sender<Result<DeltaDiscoveryResponse, Status>>,
    requests: mpsc::Receiver<DeltaDiscoveryRequest>,
}

impl Server {
    /// The next request that isn't the answer to a response.
    async fn asked(&mut self) -> (Kind, Vec<String>) {
        loop {
            let request = self.requests.recv().await.unwrap();
            assert_eq!(request.error_detail, None);
            if request.response_nonce.is_empty() {
                let kind = Kind::of_url(&request.type_url).unwrap();
                return (kind, request.resource_names_subscribe);
            }
        }
    }

    /// The next answer to a response of a type. There is none to another before.
    async fn answered(&mut self, kind: Kind) {
        loop {
            let request = self.requests.recv().await.unwrap();
            assert_eq!(request.error_detail, None);
            if !request.response_nonce.is_empty() {
                assert_eq!(Kind::of_url(&request.type_url), Some(kind));
                return;
            }
        }
    }

    /// Whether there is an answer that was not taken yet.
    fn has_answered(&mut self) -> bool {
        std::iter::from_fn(|| self.requests.try_recv().ok()).any(|request| !request.response_nonce.is_empty())
    }

    async fn send<M: Message + Name + Default>(&self, kind: Kind, name: &str, yaml: &str) {
        let message: M = edge_xds::json::from_json(serde_yaml::from_str(yaml).unwrap()).unwrap();
        let type_url = kind.type_url().to_owned();
        let resource = Resource {
            name: name.to_owned(),
            version: "1".to_owned(),
            resource: Some(Any {
                type_url: type_url.clone(),
                value: message.encode_to_vec(),
            }),
            ..Resource::default()
        };
        let response = DeltaDiscoveryResponse {
            type_url,
            nonce: name.to_owned(),
            resources: vec![resource],
            ..DeltaDiscoveryResponse::default()
        };
        self.responses.send(Ok(response)).await.unwrap();
    }

    /// Waits until the proxy serves.
    async fn until_live(&self) {
        while self.control.progress() != Progress::Live {
            tokio::task::yield_now().await;
        }
    }
}

/// Runs a stream with a test at the other end.
fn with_server(patience: Duration, test: impl AsyncFnOnce(&mut Server)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let (shared, publishers) = share(1, None);
        let context = Context::new(Box::new(Disk), prefixed_headers("x-edge").unwrap(), 1);
        let control = Control::new(Assembly::new(context), shared, publishers, Binding::Skipped);
        control.awaited.set(Awaited {
            clusters: true,
            listeners: true,
        });
        let (requests, sent) = mpsc::channel(QUEUE);
        let (responses, received) = mpsc::channel(1);
        let mut delta = DeltaClient::new(Node::default());
        let mut backoff = Backoff::new();
        let mut session = Session::begin(&control, &mut delta, requests).await.unwrap();
        let received = ReceiverStream::new(received);
        let stream = session.converse(received, &mut backoff, patience);
        let mut server = Server {
            control: Rc::clone(&control),
            responses,
            requests: sent,
        };
        let test = async {
            let asking = tokio::time::timeout(Duration::from_secs(60), test(&mut server));
            asking.await.expect("the proxy asks for nothing more");
        };
        let (stream, test) = (pin!(stream), pin!(test));
        tokio::select! {
            ended = stream => panic!("the stream ended: {ended:?}"),
            () = test => {}
        }
    });
}

#[test]
fn what_the_server_owes_is_waited_for_only_so_long() {
    with_server(Duration::from_millis(20), async |server| {
        assert_eq!(server.asked().await, (Kind::Cluster, vec!["*".to_owned()]));
        server.send::<Cluster>(Kind::Cluster, "a", CLUSTER).await;
        assert_eq!(server.asked().await, (Kind::Assignment, vec!["a".to_owned()]));
        // Without an answer to this, after a while.
        assert_eq!(server.asked().await, (Kind::Listener, vec!["*".to_owned()]));
        assert_ne!(server.control.progress(), Progress::Live, "no listener is known yet");
        server.send::<Listener>(Kind::Listener, "l", &listener()).await;
        assert_eq!(server.asked().await, (Kind::Routes, vec!["r".to_owned()]));
        // And without an answer to that.
        server.until_live().await;
    });
}

#[test]
fn what_the_server_sends_in_time_comes_first() {
    with_server(Duration::from_secs(3600), async |server| {
        assert_eq!(server.asked().await, (Kind::Cluster, vec!["*".to_owned()]));
        server.send::<Cluster>(Kind::Cluster, "a", CLUSTER).await;
        assert_eq!(server.asked().await, (Kind::Assignment, vec!["a".to_owned()]));
        server
            .send::<ClusterLoadAssignment>(Kind::Assignment, "a", ENDPOINTS)
            .await;
        assert_eq!(server.asked().await, (Kind::Listener, vec!["*".to_owned()]));
        server.send::<Listener>(Kind::Listener, "l", &listener()).await;
        assert_eq!(server.asked().await, (Kind::Routes, vec!["r".to_owned()]));
        assert_ne!(server.control.progress(), Progress::Live, "it has no routes");
        server.send::<RouteConfiguration>(Kind::Routes, "r", ROUTES).await;
        server.until_live().await;
    });
}

/// A proxy that serves, with a cluster and a listener.
async fn begin(server: &mut Server) {
    server.send::<Cluster>(Kind::Cluster, "a", CLUSTER).await;
    server.answered(Kind::Cluster).await;
    server
        .send::<ClusterLoadAssignment>(Kind::Assignment, "a", ENDPOINTS)
        .await;
    server.answered(Kind::Assignment).await;
    server.send::<Listener>(Kind::Listener, "l", &listener()).await;
    server.answered(Kind::Listener).await;
    server.send::<RouteConfiguration>(Kind::Routes, "r", ROUTES).await;
    server.answered(Kind::Routes).await;
    server.until_live().await;
}

/// As from Envoy: a server takes it for leave to send routes to the cluster.
#[test]
fn a_cluster_is_acknowledged_when_its_hosts_have_been_probed() {
    with_server(Duration::from_secs(3600), async |server| {
        begin(server).await;
        let host = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = host.local_addr().unwrap().port();
        let checks = "ignore_health_on_host_removal: true, health_checks: [{timeout: 60s, interval: 60s, unhealthy_threshold: 1, healthy_threshold: 1, \
                      http_health_check: {path: /}}]";
        let cluster = CLUSTER.replace('}', "").replace("name: a", "name: b") + "}}}, " + checks + "}";
        server.send::<Cluster>(Kind::Cluster, "b", &cluster).await;
        assert_eq!(server.asked().await, (Kind::Assignment, vec!["b".to_owned()]));
        let address = format!("{{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}");
        let endpoints =
            format!("{{cluster_name: b, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {address}}}}}]}}]}}");
        server
            .send::<ClusterLoadAssignment>(Kind::Assignment, "b", &endpoints)
            .await;
        server.answered(Kind::Assignment).await;
        let (mut probe, _) = host.accept().await.unwrap();
        assert!(!server.has_answered(), "it can't be used yet");
        // Others that need nothing are, meanwhile.
        let other = CLUSTER.replace("name: a", "name: c");
        server.send::<Cluster>(Kind::Cluster, "c", &other).await;
        server.answered(Kind::Cluster).await;
        probe
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
        server.answered(Kind::Cluster).await;
        let snapshot = server.control.read(|assembly| assembly.snapshot().clone());
        assert!(snapshot.cluster_by_name("b").is_some());
    });
}

/// Envoy's default for `initial_fetch_timeout`.
#[test]
fn the_patience_is_envoys() {
    assert_eq!(INITIAL_FETCH, Duration::from_secs(15));
}
