//! The server against a scripted client over TLS.

use super::*;
use crate::{
    certs::{CONTROLLER, Existing, PROXY, TlsFiles, ensure},
    metrics::Counter,
    state::{Coverage, FleetState, KeptFrom, sample::infra},
    task::Task,
};
use bytes::Bytes;
use edge_ir::{Origin, ProxySettings};
use edge_translate::{
    Change, Settings, Translator,
    load::{Limits as LoadLimits, Source, load},
};
use edge_xds::{
    lower::Lowering,
    snapshot::{Body, Entry, ResourceType, Section, Snapshot},
};
use envoy_types::pb::{
    envoy::{
        config::core::v3::Node,
        service::discovery::v3::{Resource, aggregated_discovery_service_client::AggregatedDiscoveryServiceClient},
    },
    google::rpc,
};
use std::{fs, net::SocketAddr, path::Path};
use tokio::{sync::mpsc, time};
use tokio_stream::wrappers::ReceiverStream;

use tonic::{
    Code,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

mod delivered;
mod identity;
mod limits;

struct Rig {
    folder: tempfile::TempDir,
    address: SocketAddr,
    published: watch::Sender<Option<Arc<Published>>>,
    rejections: watch::Receiver<Rejections>,
    deliveries: watch::Receiver<Deliveries>,
    metrics: Arc<Metrics>,
    _task: Task,
}

fn cluster(name: &str, body: &'static str) -> Arc<Entry> {
    let origin = Origin {
        kind: "Backend".into(),
        namespace: "ns".into(),
        name: name.into(),
        section: None,
        annotations: [].into(),
    };
    Arc::new(Entry::new(
        name,
        Body::Whole(Bytes::from_static(body.as_bytes())),
        [origin].into(),
    ))
}

fn state(clusters: Vec<Arc<Entry>>) -> Arc<Published> {
    serving(Snapshot::default().with(ResourceType::Cluster, Arc::new(Section::new(clusters))))
}

fn serving(snapshot: Snapshot) -> Arc<Published> {
    let infra = infra("ns/gw", ProxySettings::default());
    let state = FleetState {
        snapshot: Arc::new(snapshot),
        infra: None,
        last_infra: Some(Arc::new(infra)),
        home: None,
        alternatives: Vec::new(),
    };
    Arc::new(Published {
        fleets: [("ns/gw".into(), state)].into(),
        coverage: Coverage::Whole,
        since: Some(time::Instant::now()),
        ..Published::default()
    })
}

impl Rig {
    async fn start() -> Self {
        Self::start_with(Limits::default()).await
    }

    async fn start_with(limits: Limits) -> Self {
        let authorizer = Authorizer::Certificate {
            namespace: "system".into(),
        };
        Self::start_as(authorizer, limits).await
    }

    async fn start_as(authorizer: Authorizer, limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        ensure(folder.path(), "system", "cluster.local", Existing::Keep).unwrap();
        let (published, receiver) = watch::channel(None);
        let rejections = Arc::new(watch::Sender::new(Rejections::new()));
        let deliveries = Arc::new(watch::Sender::new(Deliveries::new()));
        let metrics = Arc::new(Metrics::default());
        let shared = Shared {
            published: receiver,
            rejections: Arc::clone(&rejections),
            deliveries: Arc::clone(&deliveries),
            authorizer,
            metrics: Arc::clone(&metrics),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = ServerTls::read(TlsFiles::below(folder.path(), CONTROLLER)).unwrap();
        let task = Task::spawn("xDS", |stop| serve(listener, tls, limits, shared, stop));
        Self {
            folder,
            address,
            published,
            rejections: rejections.subscribe(),
            deliveries: deliveries.subscribe(),
            metrics,
            _task: task,
        }
    }

    async fn connect(&self) -> Channel {
        connect(self.folder.path(), PROXY, self.address).await.unwrap()
    }

    async fn open(&self) -> Result<Proxy, Status> {
        Proxy::open(self.connect().await, "ns/gw", &[]).await
    }
}

async fn connect(folder: &Path, secret: &str, address: SocketAddr) -> Result<Channel, tonic::transport::Error> {
    connect_with(&TlsFiles::below(folder, secret), address).await
}

async fn connect_with(files: &TlsFiles, address: SocketAddr) -> Result<Channel, tonic::transport::Error> {
    let read = |path| fs::read(path).unwrap();
    let tls = ClientTlsConfig::new()
        .domain_name("edge-gateway")
        .ca_certificate(Certificate::from_pem(read(&files.authority)))
        .identity(Identity::from_pem(read(&files.certificate), read(&files.key)));
    Endpoint::from_shared(format!("https://{address}"))?
        .tls_config(tls)?
        .connect()
        .await
}

/// The client's side of a stream.
struct Proxy {
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

fn request() -> DeltaDiscoveryRequest {
    request_of(ResourceType::Cluster)
}

fn request_of(kind: ResourceType) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: kind.type_url().into(),
        ..Default::default()
    }
}

impl Proxy {
    /// Opens a stream and asks for all clusters, with the versions it has.
    async fn open(channel: Channel, fleet: &str, versions: &[(&str, &str)]) -> Result<Self, Status> {
        Self::open_as(channel, fleet, versions, None).await
    }

    async fn open_as(
        channel: Channel,
        fleet: &str,
        versions: &[(&str, &str)],
        token: Option<&str>,
    ) -> Result<Self, Status> {
        let (requests, receiver) = mpsc::channel(8);
        let node = Node {
            id: "proxy".into(),
            cluster: fleet.into(),
            ..Default::default()
        };
        let pairs = versions
            .iter()
            .map(|(name, version)| ((*name).to_owned(), (*version).to_owned()));
        let first = DeltaDiscoveryRequest {
            node: Some(node),
            initial_resource_versions: pairs.collect(),
            ..request()
        };
        requests.send(first).await.unwrap();
        let mut client = AggregatedDiscoveryServiceClient::new(channel);
        let mut request = Request::new(ReceiverStream::new(receiver));
        if let Some(token) = token {
            let header = format!("Bearer {token}").parse().unwrap();
            request.metadata_mut().insert("authorization", header);
        }
        let responses = client.delta_aggregated_resources(request).await?;
        Ok(Self {
            requests,
            responses: responses.into_inner(),
        })
    }

    async fn next(&mut self) -> DeltaDiscoveryResponse {
        let message = time::timeout(Duration::from_secs(10), self.responses.message()).await;
        message.expect("a response in time").unwrap().unwrap()
    }

    async fn answer(&self, response: &DeltaDiscoveryResponse, error: Option<&str>) {
        let error_detail = error.map(|message| rpc::Status {
            code: 3,
            message: message.into(),
            ..Default::default()
        });
        let answer = DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            error_detail,
            ..Default::default()
        };
        self.requests.send(answer).await.unwrap();
    }
}

fn names(response: &DeltaDiscoveryResponse) -> Vec<&str> {
    response
        .resources
        .iter()
        .map(|resource| resource.name.as_str())
        .collect()
}

async fn rejected(rig: &mut Rig, n: usize) -> Rejections {
    let waited = time::timeout(Duration::from_secs(10), rig.rejections.wait_for(|all| all.len() == n));
    waited.await.expect("rejections in time").unwrap().clone()
}

#[tokio::test]
async fn a_proxy_is_sent_what_there_is_and_then_what_changes() {
    let rig = Rig::start().await;
    rig.published
        .send_replace(Some(state(vec![cluster("a", "1"), cluster("b", "1")])));
    let mut proxy = rig.open().await.unwrap();
    let first = proxy.next().await;
    assert_eq!(names(&first), ["a", "b"]);
    proxy.answer(&first, None).await;
    rig.published
        .send_replace(Some(state(vec![cluster("a", "1"), cluster("b", "2")])));
    let second = proxy.next().await;
    assert_eq!(names(&second), ["b"]);
    proxy.answer(&second, None).await;

    // A proxy that comes back has everything already, except what changed meanwhile.
    let version = |name: &str| {
        [&first, &second]
            .iter()
            .rev()
            .flat_map(|r| &r.resources)
            .find(|r| r.name == name)
            .unwrap()
            .version
            .clone()
    };
    let (a, b) = (version("a"), version("b"));
    drop(proxy);
    rig.published
        .send_replace(Some(state(vec![cluster("a", "3"), cluster("b", "2")])));
    let mut proxy = Proxy::open(rig.connect().await, "ns/gw", &[("a", &a), ("b", &b)])
        .await
        .unwrap();
    assert_eq!(names(&proxy.next().await), ["a"]);
}

#[tokio::test]
async fn a_rejection_is_known_with_its_origin_until_a_better_version_is_taken() {
    let mut rig = Rig::start().await;
    rig.published
        .send_replace(Some(state(vec![cluster("a", "bad"), cluster("b", "1")])));
    let mut proxy = rig.open().await.unwrap();
    let first = proxy.next().await;
    proxy
        .answer(&first, Some("Error adding/updating cluster(s) a: it is bad"))
        .await;
    // It may have taken nothing of it, so all of it is sent again, what is named apart.
    let others = proxy.next().await;
    assert_eq!(names(&others), ["b"]);
    proxy.answer(&others, None).await;
    let culprit = proxy.next().await;
    assert_eq!(names(&culprit), ["a"]);
    proxy
        .answer(&culprit, Some("it is bad\ngoo.gle/debugonly name: a"))
        .await;
    let all = rejected(&mut rig, 1).await;
    let (key, rejection) = all.iter().next().unwrap();
    assert_eq!(
        (&*key.name, rejection.origins[0].to_string().as_str()),
        ("a", "Backend/ns/a")
    );
    assert_eq!(&*rejection.reason, "it is bad");
    assert_eq!(rig.metrics.counted(Counter::NackCluster), 2);
    rig.published
        .send_replace(Some(state(vec![cluster("a", "good"), cluster("b", "1")])));
    let second = proxy.next().await;
    assert_eq!(names(&second), ["a"]);
    proxy.answer(&second, None).await;
    rejected(&mut rig, 0).await;
    let good = rig.published.borrow().clone();
    rig.published
        .send_replace(Some(state(vec![cluster("a", "bad again"), cluster("b", "1")])));
    let third = proxy.next().await;
    proxy.answer(&third, Some("cluster a: it is bad")).await;
    rejected(&mut rig, 1).await;
    // Taking the edit back needs nothing to be sent.
    rig.published.send_replace(good);
    rejected(&mut rig, 0).await;
    rig.published
        .send_replace(Some(state(vec![cluster("a", "bad once more"), cluster("b", "1")])));
    let fourth = proxy.next().await;
    proxy.answer(&fourth, Some("no")).await;
    rejected(&mut rig, 1).await;
    drop(proxy);
    rejected(&mut rig, 0).await;
}

/// Two routes of one Gateway, the second one to a path.
fn world(path: &str) -> Arc<Published> {
    let text = format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {{name: edge}}, spec: \
         {{controllerName: gateway.edge/gatewayclass-controller}}}}\n---\n\
         {{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{name: gw, namespace: ns}}, spec: \
         {{gatewayClassName: edge, listeners: [{{name: http, protocol: HTTP, port: 80}}]}}}}\n---\n{}\n---\n{}",
        route("good", "/good"),
        route("other", path),
    );
    let mut translator = Translator::new(Settings::default());
    let source = Source {
        name: "world",
        text: &text,
    };
    for loaded in load(&source, &LoadLimits::default()).objects {
        translator.apply(Change::Put(loaded.object));
    }
    let translation = translator.translate();
    let (key, fleet) = translation.fleets.first_key_value().unwrap();
    let state = FleetState {
        snapshot: Arc::new(Lowering::new().lower(fleet)),
        infra: Some(Arc::clone(&translation.infra[key])),
        last_infra: Some(Arc::clone(&translation.infra[key])),
        home: None,
        alternatives: Vec::new(),
    };
    Arc::new(Published {
        fleets: [(key.clone(), state)].into(),
        coverage: Coverage::Whole,
        ..Published::default()
    })
}

fn route(name: &str, path: &str) -> String {
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: {name}, namespace: ns}}, spec: \
         {{parentRefs: [{{name: gw}}], hostnames: [{name}.example], rules: [{{matches: [{{path: {{value: {path}}}}}], \
         filters: [{{type: RequestRedirect, requestRedirect: {{hostname: elsewhere.example}}}}]}}]}}}}"
    )
}

/// A proxy that takes everything but tables with a path.
async fn serve_tables(proxy: &mut Proxy, refused: &str) -> DeltaDiscoveryResponse {
    let table = DeltaDiscoveryRequest {
        resource_names_subscribe: vec!["ns/gw/http".into()],
        ..request_of(ResourceType::Routes)
    };
    proxy.requests.send(table).await.unwrap();
    proxy.requests.send(request_of(ResourceType::Listener)).await.unwrap();
    loop {
        let response = proxy.next().await;
        let has = |text: &str| response.resources.iter().any(|resource| contains(resource, text));
        if has(refused) {
            proxy
                .answer(&response, Some("virtual_hosts: no\ngoo.gle/debugonly dump"))
                .await;
            continue;
        }
        proxy.answer(&response, None).await;
        if response.type_url == ResourceType::Routes.type_url() && has("/good") {
            return response;
        }
    }
}

fn contains(resource: &Resource, text: &str) -> bool {
    let body = &resource.resource.as_ref().unwrap().value;
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn a_rule_that_a_proxy_refuses_is_kept_back_from_the_fleet_alone() {
    let mut rig = Rig::start().await;
    rig.published.send_replace(Some(world("/bad-path")));
    let mut proxy = rig.open().await.unwrap();
    serve_tables(&mut proxy, "/bad-path").await;
    let all = rejected(&mut rig, 1).await;
    let (key, rejection) = all.iter().next().unwrap();
    assert_eq!(key.from, KeptFrom::Fleet("ns/gw".into(), 0));
    assert_eq!(&*rejection.reason, "virtual_hosts: no");
    assert_eq!(rejection.origins[0].to_string(), "HTTPRoute/ns/other/rule/0");
    // It stays so without the proxy, and the next one isn't sent it at all.
    drop(proxy);
    let mut next = rig.open().await.unwrap();
    let refusals = rig.metrics.counted(Counter::NackRoute);
    serve_tables(&mut next, "/bad-path").await;
    assert_eq!(rig.metrics.counted(Counter::NackRoute), refusals);
    assert_eq!(rig.rejections.borrow().len(), 1);
    // The culprit changes.
    rig.published.send_replace(Some(world("/better")));
    rejected(&mut rig, 0).await;
    let table = loop {
        let response = next.next().await;
        next.answer(&response, None).await;
        if response.type_url == ResourceType::Routes.type_url() {
            break response;
        }
    };
    assert!(contains(&table.resources[0], "/better"));
}

#[tokio::test]
async fn streams_are_refused_until_there_is_something_to_serve() {
    let rig = Rig::start().await;
    assert_eq!(
        rig.open().await.err().map(|status| status.code()),
        Some(Code::Unavailable)
    );
    rig.published.send_replace(Some(state(Vec::new())));
    let channel = rig.connect().await;
    let other = Proxy::open(channel.clone(), "ns/other", &[]).await.err().unwrap();
    assert_eq!(other.code(), Code::NotFound);
    assert!(other.message().contains("no fleet `ns/other`"), "{other}");
    assert!(Proxy::open(channel, "ns/gw", &[]).await.is_ok());
}

#[tokio::test]
async fn only_certificates_of_proxies_are_let_in() {
    let rig = Rig::start().await;
    rig.published.send_replace(Some(state(Vec::new())));
    let channel = connect(rig.folder.path(), CONTROLLER, rig.address).await.unwrap();
    let refused = Proxy::open(channel, "ns/gw", &[]).await.err().unwrap();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let stranger = tempfile::tempdir().unwrap();
    ensure(stranger.path(), "system", "cluster.local", Existing::Keep).unwrap();
    // The stranger trusts us, but another authority signed for it.
    fs::copy(
        rig.folder.path().join("edge/ca.crt"),
        stranger.path().join("edge/ca.crt"),
    )
    .unwrap();
    let result = async {
        let channel = connect(stranger.path(), PROXY, rig.address).await.map_err(|_| ())?;
        Proxy::open(channel, "ns/gw", &[]).await.map(drop).map_err(|_| ())
    };
    assert_eq!(result.await, Err(()));
}

#[tokio::test]
async fn rotated_certificates_are_used_for_the_next_connection() {
    let rig = Rig::start().await;
    rig.published.send_replace(Some(state(Vec::new())));
    rig.open().await.unwrap();
    ensure(rig.folder.path(), "system", "cluster.local", Existing::Overwrite).unwrap();
    rig.open().await.unwrap();
}

#[tokio::test]
async fn a_fleet_that_goes_ends_its_streams_with_a_reason() {
    let rig = Rig::start().await;
    rig.published.send_replace(Some(state(Vec::new())));
    let mut proxy = rig.open().await.unwrap();
    rig.published.send_replace(Some(Arc::default()));
    let ended = time::timeout(Duration::from_secs(10), async {
        loop {
            match proxy.responses.message().await {
                Ok(Some(_)) => {}
                other => break other,
            }
        }
    });
    assert_eq!(
        ended.await.unwrap().err().map(|status| status.code()),
        Some(Code::NotFound)
    );
}

#[tokio::test]
async fn an_old_stream_ends_without_an_error_and_the_proxy_comes_back() {
    let rig = Rig::start_with(Limits {
        connection_age: Some(Duration::from_millis(50)),
        ..Limits::default()
    })
    .await;
    rig.published.send_replace(Some(state(vec![cluster("a", "1")])));
    let mut proxy = rig.open().await.unwrap();
    let first = proxy.next().await;
    proxy.answer(&first, None).await;
    let ended = time::timeout(Duration::from_secs(10), proxy.responses.message()).await;
    assert_eq!(ended.expect("it ends in time").unwrap(), None);
    let version = first.resources[0].version.as_str();
    Proxy::open(rig.connect().await, "ns/gw", &[("a", version)])
        .await
        .unwrap();
}

#[tokio::test]
async fn silent_sockets_hold_up_no_handshake() {
    let rig = Rig::start().await;
    rig.published.send_replace(Some(state(Vec::new())));
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(tokio::net::TcpStream::connect(rig.address).await.unwrap());
    }
    // Less than a silent handshake is given.
    let opened = time::timeout(Duration::from_secs(5), rig.open()).await;
    opened.expect("a stream in time").unwrap();
}
