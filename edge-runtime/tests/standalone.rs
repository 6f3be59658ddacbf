//! The binary as a user starts it: standalone mode on real files, with a scripted proxy at the other end of the xDS
//! connection, and everything that can be wrong at start.

// A test may stop where it stands, in its helpers too; clippy's own exception knows only functions marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use edge_runtime::{
    certs::{FleetIdentity, PROXY, TlsFiles, ensure_fleet},
    http::fetch,
    process_name::{ProcessName, is_running},
};
use envoy_types::pb::envoy::{
    config::core::v3::Node,
    service::discovery::v3::{
        DeltaDiscoveryRequest, DeltaDiscoveryResponse,
        aggregated_discovery_service_client::AggregatedDiscoveryServiceClient,
    },
};
use http::{Method, StatusCode};
use serde_json::Value;
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::{Duration, Instant},
};
use tokio::{
    process::{Child, Command},
    sync::mpsc,
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Streaming,
    transport::{Certificate, ClientTlsConfig, Endpoint, Identity},
};

#[path = "standalone/addresses.rs"]
mod addresses;
#[path = "standalone/commands.rs"]
mod commands;

const PATIENCE: Duration = Duration::from_secs(20);
const ROUTES: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
const CLUSTERS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const LISTENERS: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
const ENDPOINTS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";

const GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: edge }
spec: { controllerName: gateway.edge/gatewayclass-controller }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: gw, namespace: default }
spec:
  gatewayClassName: edge
  listeners: [{ name: http, protocol: HTTP, port: 18080 }]
---
apiVersion: gateway.edge/v1alpha1
kind: Backend
metadata: { name: echo, namespace: default }
spec: { endpoints: [{ ip: { address: 127.0.0.1, port: 3000 } }] }
";

fn route(host: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: r, namespace: default }}\n\
         spec:\n  parentRefs: [{{ name: gw }}]\n  hostnames: [{host}]\n  rules:\n  - backendRefs: \
         [{{ group: gateway.edge, kind: Backend, name: echo }}]\n"
    )
}

/// Looks until there is something to be seen, with a pause between two looks; none after all patience.
async fn found<T>(mut look: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let looking = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, looking).await.ok()
}

/// A folder with a configuration, and addresses that nobody else uses.
struct Place {
    folder: tempfile::TempDir,
    addresses: [SocketAddr; 4],
    /// The port of the Gateway, which on a machine is one controller's.
    port: String,
}

fn free_addresses() -> [SocketAddr; 4] {
    e2e::ports::free()
        .unwrap()
        .map(|port| (Ipv4Addr::LOCALHOST, port).into())
}

impl Drop for Place {
    fn drop(&mut self) {
        for pid in self.proxies().into_iter().filter_map(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

impl Place {
    fn new(infrastructure: &str) -> Self {
        let [port] = e2e::ports::free().unwrap();
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
            addresses: free_addresses(),
            port: port.to_string(),
        };
        fs::create_dir(place.folder.path().join("gateway.d")).unwrap();
        place.write("gateway.d/gateway.yaml", &GATEWAY.replace("18080", &place.port));
        place.write("edge-gateway.yaml", &place.config(infrastructure));
        place
    }

    fn config(&self, infrastructure: &str) -> String {
        let admin = self.admin().port();
        format!(
            "apiVersion: gateway.edge/v1alpha1\nkind: EdgeGateway\nprovider:\n  type: Custom\n  custom:\n    \
             resource: {{ type: File, file: {{ paths: [gateway.d] }} }}\n{infrastructure}\
             admin: {{ address: {{ port: {admin} }} }}\nextensionApis: {{ enableBackend: true }}\n"
        )
    }

    /// Proxies that run in this folder, which outlive their controller.
    fn proxies(&self) -> Vec<i32> {
        let records = fs::read_dir(self.folder.path().join("run"))
            .into_iter()
            .flatten()
            .flatten();
        records
            .filter(|entry| entry.path().extension().is_some_and(|e| e == "process"))
            .filter_map(|entry| entry.path().file_stem()?.to_str()?.parse().ok())
            .collect()
    }

    fn admin(&self) -> SocketAddr {
        self.addresses[0]
    }

    fn health(&self) -> SocketAddr {
        self.addresses[2]
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn command(&self) -> Command {
        let [_, xds, health, metrics] = self.addresses.map(|address| address.to_string());
        let mut command = Command::new(env!("CARGO_BIN_EXE_edgegateway"));
        command
            .args(["server", "--config-path"])
            .arg(self.folder.path().join("edge-gateway.yaml"));
        command.args([
            "--xds-address",
            &xds,
            "--health-address",
            &health,
            "--metrics-address",
            &metrics,
        ]);
        command
            .env("HOME", self.folder.path())
            .env("TMPDIR", self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Starts the controller and waits until it is ready.
    async fn start(&self) -> Child {
        let log = fs::File::create(self.folder.path().join("log")).unwrap();
        let child = self.command().stderr(log).spawn().unwrap();
        let is_ready = async || {
            let answer = fetch(Method::GET, self.health(), "/readyz").await;
            matches!(answer, Ok((StatusCode::OK, _))).then_some(())
        };
        found(is_ready)
            .await
            .unwrap_or_else(|| panic!("not ready: {}", self.log()));
        child
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    async fn log_says(&self, words: &str) {
        found(async || self.log().contains(words).then_some(()))
            .await
            .unwrap_or_else(|| panic!("no `{words}` in {}", self.log()));
    }

    /// Runs a controller that is expected to give up.
    async fn fails(&self) -> String {
        let output: Output = timeout(PATIENCE, self.command().stderr(Stdio::piped()).output())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stderr).unwrap();
        text.lines()
            .find_map(|line| line.strip_prefix("edgegateway: "))
            .unwrap_or(&text)
            .to_owned()
    }

    async fn status(&self) -> Value {
        let (_, body) = fetch(Method::GET, self.admin(), "/status?format=json").await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    /// Waits until the status document fulfils something.
    async fn status_says(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        let said = found(async || is_so(&self.status().await).then_some(())).await;
        assert!(said.is_some(), "{what}: {:#}\n{}", self.status().await, self.log());
    }

    fn certificates(&self) -> PathBuf {
        self.folder.path().join(".config/edge-gateway/certs")
    }

    /// A proxy that somebody else has started, with the certificate that there is for such.
    async fn proxy(&self) -> Proxy {
        self.proxy_with(&TlsFiles::below(&self.certificates(), PROXY)).await
    }

    /// A proxy with a certificate as the controller gives it to those that it starts.
    async fn fleet_proxy(&self) -> Proxy {
        let (certificates, own) = (self.certificates(), self.folder.path().join("scripted"));
        let identity = FleetIdentity {
            fleet: &"default/gw".into(),
            name: "scripted",
            namespace: "edge-gateway-system",
        };
        ensure_fleet(&certificates, &own, &identity, jiff::Timestamp::now()).unwrap();
        let files = TlsFiles {
            authority: TlsFiles::below(&certificates, PROXY).authority,
            ..TlsFiles::within(&own)
        };
        self.proxy_with(&files).await
    }

    async fn proxy_with(&self, files: &TlsFiles) -> Proxy {
        let read = |path: &Path| fs::read(path).unwrap();
        let tls = ClientTlsConfig::new()
            .domain_name("edge-gateway")
            .ca_certificate(Certificate::from_pem(read(&files.authority)))
            .identity(Identity::from_pem(read(&files.certificate), read(&files.key)));
        let endpoint = Endpoint::from_shared(format!("https://{}", self.addresses[1])).unwrap();
        let channel = endpoint.tls_config(tls).unwrap().connect().await.unwrap();
        let (requests, receiver) = mpsc::channel(32);
        let node = Node {
            id: "scripted".into(),
            cluster: "default/gw".into(),
            ..Default::default()
        };
        let first = DeltaDiscoveryRequest {
            node: Some(node),
            type_url: CLUSTERS.into(),
            ..Default::default()
        };
        requests.send(first).await.unwrap();
        let mut client = AggregatedDiscoveryServiceClient::new(channel);
        let responses = client
            .delta_aggregated_resources(ReceiverStream::new(receiver))
            .await
            .unwrap()
            .into_inner();
        let proxy = Proxy { requests, responses };
        for (type_url, names) in [(LISTENERS, &[][..]), (ENDPOINTS, &["*"]), (ROUTES, &["*"])] {
            proxy.ask(type_url, names).await;
        }
        proxy
    }
}

/// A proxy that takes everything, except what it is told to reject.
struct Proxy {
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

impl Proxy {
    async fn ask(&self, type_url: &str, names: &[&str]) {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let request = DeltaDiscoveryRequest {
            type_url: type_url.into(),
            resource_names_subscribe: names,
            ..Default::default()
        };
        self.requests.send(request).await.unwrap();
    }

    /// Takes responses until one of a type mentions a word.
    async fn until(&mut self, type_url: &str, word: &str, rejection: Option<&str>) {
        let seen = async {
            loop {
                let response = self.responses.message().await.unwrap().unwrap();
                let mentions = |value: &[u8]| value.windows(word.len()).any(|window| window == word.as_bytes());
                let bodies = response
                    .resources
                    .iter()
                    .filter_map(|resource| resource.resource.as_ref());
                let is_it = response.type_url == type_url && bodies.into_iter().any(|body| mentions(&body.value));
                let error = rejection
                    .filter(|_| is_it)
                    .map(|message| envoy_types::pb::google::rpc::Status {
                        message: message.into(),
                        ..Default::default()
                    });
                let answer = DeltaDiscoveryRequest {
                    type_url: response.type_url,
                    response_nonce: response.nonce,
                    error_detail: error,
                    ..Default::default()
                };
                self.requests.send(answer).await.unwrap();
                if is_it {
                    return;
                }
            }
        };
        timeout(PATIENCE, seen)
            .await
            .unwrap_or_else(|_| panic!("no response with {word}"));
    }
}

#[tokio::test]
async fn files_become_configuration_of_a_proxy_and_follow_edits() {
    let place = Place::new("");
    place.write("gateway.d/route.yaml", &route("first.example"));
    let mut server = place.start().await;
    let mut proxy = place.proxy().await;
    proxy.until(ROUTES, "first.example", None).await;

    let mut times: Vec<Duration> = Vec::new();
    for n in 0..15 {
        let host = format!("edit-{n}.example");
        let saved = Instant::now();
        place.write("gateway.d/route.yaml", &route(&host));
        proxy.until(ROUTES, &host, None).await;
        times.push(saved.elapsed());
    }
    times.sort();
    // `cargo test -- --nocapture` shows it. How fast a machine is that tests isn't a property of the program.
    println!(
        "file saved to response at the proxy: median {:?}, fastest {:?}",
        times[7], times[0]
    );

    place.write("gateway.d/route.yaml", "kind: HTTPRoute\nmetadata: { name: r\n");
    place
        .status_says("the broken file is told", |s| s["findings"][0]["line"].is_number())
        .await;
    let status = place.status().await;
    assert!(
        status["findings"][0]["file"]
            .as_str()
            .unwrap()
            .ends_with("gateway.d/route.yaml")
    );
    let kinds: Vec<_> = status["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["kind"].as_str().unwrap())
        .collect();
    assert!(kinds.contains(&"HTTPRoute"), "the last good route stays: {kinds:?}");

    // A proxy that comes back is served at once.
    drop(proxy);
    place.proxy().await.until(ROUTES, "edit-14.example", None).await;
    server.start_kill().unwrap();
}

#[tokio::test]
async fn a_rejection_reaches_the_status_of_the_object_it_came_from() {
    let place = Place::new("");
    let _server = place.start().await;
    let mut proxy = place.proxy().await;
    proxy
        .until(
            LISTENERS,
            &place.port,
            Some(&format!("tcp-{}: cannot bind: Address already in use", place.port)),
        )
        .await;
    let is_told = |status: &Value| {
        let gateway = status["resources"]
            .as_array()
            .unwrap()
            .iter()
            .find(|r| r["kind"] == "Gateway")
            .cloned();
        let conditions = gateway.unwrap_or_default()["status"]["listeners"][0]["conditions"].clone();
        conditions.as_array().is_some_and(|list| {
            let message = |c: &Value| c["message"].as_str().unwrap_or_default().contains("cannot bind");
            list.iter()
                .any(|c| c["type"] == "Programmed" && c["reason"] == "Invalid" && message(c))
        })
    };
    place.status_says("the rejection is told", is_told).await;
    drop(proxy);
    place
        .status_says("and forgotten with its proxy", |status| !is_told(status))
        .await;
}

#[tokio::test]
async fn a_changed_configuration_is_followed_and_a_bad_one_is_not() {
    let place = Place::new("");
    let _server = place.start().await;
    place.write("edge-gateway.yaml", "kind: EdgeGateway\nnonsense: true\n");
    place.log_says("the running configuration stays in force").await;
    let controller = "gateway: { controllerName: example.com/other }\n";
    place.write("edge-gateway.yaml", &(place.config("") + controller));
    let has_class = |status: &Value| status["resources"].to_string().contains("GatewayClass");
    place
        .status_says("the class is not ours any more", |status| !has_class(status))
        .await;
    place.write("edge-gateway.yaml", &place.config(""));
    place.status_says("the class is ours again", has_class).await;
}

#[tokio::test]
async fn what_keeps_it_from_starting_is_told_in_one_message() {
    let place = Place::new("");
    let _server = place.start().await;
    let other = Place {
        folder: tempfile::tempdir().unwrap(),
        addresses: place.addresses,
        port: place.port.clone(),
    };
    other.write("edge-gateway.yaml", &place.config(""));
    let second = other.fails().await;
    let xds = place.addresses[1];
    assert_eq!(
        second,
        format!(
            "can't listen on {xds} for xDS: the address is in use; if another edgegateway is running, stop it, or \
             choose another address with --xds-address"
        )
    );

    let place = Place::new("");
    place.write(
        "edge-gateway.yaml",
        "apiVersion: gateway.edge/v1alpha1\nkind: EdgeGateway\nlogin: {}\n",
    );
    let typo = place.fails().await;
    assert!(typo.contains("edge-gateway.yaml:3:1: error: login"), "{typo}");

    let place = Place::new("");
    place.write(".config", "in the way");
    let certificates = place.fails().await;
    assert!(
        certificates.contains("can't write: a part of the path is a file; choose a writable folder"),
        "{certificates}"
    );
}

#[tokio::test]
async fn a_missing_proxy_and_an_unwritable_state_folder_leave_the_rest_serving() {
    let host = "    infrastructure: { type: Host, host: { proxyBinary: none, stateHome: gateway.d/gateway.yaml } }\n";
    let place = Place::new(host);
    let mut server = place.start().await;
    place.log_says("proxy binary").await;
    place
        .log_says("status.yaml can't be written: something else of that name is in the way")
        .await;
    let is_told = |status: &Value| status.to_string().contains("Proxy replicas unavailable: proxy binary");
    place.status_says("the Gateway is not programmed", is_told).await;
    place.fleet_proxy().await.until(LISTENERS, &place.port, None).await;
    let pid = rustix::process::Pid::from_raw(i32::try_from(server.id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = timeout(PATIENCE, server.wait())
        .await
        .expect("it stops when asked")
        .unwrap();
    assert!(ended.success(), "{}", place.log());
}

#[tokio::test]
async fn a_proxy_outlives_its_controller_and_ends_with_the_next() {
    let host = "    infrastructure: { type: Host, host: { proxyBinary: proxy, runtimeDir: run } }\n";
    let place = Place::new(host);
    let (script, pid_file) = (place.folder.path().join("proxy"), place.folder.path().join("pid"));
    place.write(
        "proxy",
        &format!("#!/bin/sh\necho $$ > {}\nexec sleep 600\n", pid_file.display()),
    );
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut server = place.start().await;
    let started = async || {
        let pid = fs::read_to_string(&pid_file).unwrap_or_default();
        pid.trim().parse().ok().and_then(ProcessName::of)
    };
    let proxy = found(started).await.expect("the proxy starts");
    place.log_says("proxy started").await;
    server.kill().await.unwrap();
    assert!(is_running(&proxy));
    // Not mounted yet, and there is no copy of what stood there, as an earlier version kept none.
    let (mounted, away) = (place.folder.path().join("gateway.d"), place.folder.path().join("away"));
    fs::rename(&mounted, &away).unwrap();
    // It may have been killed before it made one.
    let _ = fs::remove_dir_all(place.folder.path().join(".local/state/edge-gateway/.kept"));
    let mut server = place.start().await;
    place
        .log_says("no Gateway makes this fleet, but not all resources can be read; its proxy goes on")
        .await;
    fs::rename(&away, &mounted).unwrap();
    place
        .log_says("a proxy that an earlier controller has started is taken over")
        .await;
    let pid = rustix::process::Pid::from_raw(i32::try_from(server.id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = timeout(PATIENCE, server.wait())
        .await
        .expect("it stops when asked")
        .unwrap();
    assert!(ended.success(), "{}", place.log());
    assert!(!is_running(&proxy), "{}", place.log());
    assert!(
        !place.log().contains("proxy started"),
        "the same one all along: {}",
        place.log()
    );
}

#[tokio::test]
async fn the_configuration_in_force_is_logged_with_its_defaults() {
    let place = Place::new("");
    let dumping = place
        .config("")
        .replace("admin: { ", "admin: { enableDumpConfig: true, ");
    place.write("edge-gateway.yaml", &dumping);
    let _server = place.start().await;
    // Neither stands in the file.
    for default in ["connection_grace: 120s", "message_size: 33554432"] {
        place.log_says(default).await;
    }
}

/// Opening a pipe to which nobody writes waits for ever: what is no file isn't opened.
#[tokio::test]
async fn a_pipe_among_the_resources_holds_up_neither_them_nor_the_end() {
    let place = Place::new("");
    let pipe = place.folder.path().join("gateway.d/pipe.yaml");
    let made = Command::new("mkfifo").arg(&pipe).status().await.unwrap();
    assert!(made.success());
    let mut server = place.start().await;
    place.proxy().await.until(LISTENERS, &place.port, None).await;
    let pid = rustix::process::Pid::from_raw(i32::try_from(server.id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = timeout(PATIENCE, server.wait()).await.expect("it stops when asked");
    assert!(ended.unwrap().success(), "{}", place.log());
}

#[tokio::test]
async fn a_statement_that_turns_bad_is_one_line_in_the_log_with_its_place() {
    let place = Place::new("");
    let _server = place.start().await;
    place.write(
        "gateway.d/route.yaml",
        &format!(
            "# a comment\n{}",
            route("a.example").replace("name: echo", "name: gone")
        ),
    );
    place
        .log_says("route.yaml:2: HTTPRoute/default/r, under Gateway gw: ResolvedRefs: BackendNotFound")
        .await;
    place.write("gateway.d/route.yaml", &route("a.example"));
    place
        .log_says("route.yaml:1: HTTPRoute/default/r, under Gateway gw: ResolvedRefs: all right again")
        .await;
    place.write(
        "gateway.d/route.yaml",
        &route("a.example").replace("name: gw", "name: gv"),
    );
    place.log_says("route.yaml:1: HTTPRoute/default/r: ").await;
    assert_eq!(place.log().matches("BackendNotFound").count(), 1, "{}", place.log());
}
