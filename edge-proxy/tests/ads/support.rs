//! A configuration server that the test drives by hand, certificates, a backend, and the proxy as a child process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource,
};
use envoy_types::pb::google::protobuf::Any;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

type Outgoing = Pin<Box<dyn futures_util::Stream<Item = Result<DeltaDiscoveryResponse, Status>> + Send>>;
type OutgoingAll = Pin<Box<dyn futures_util::Stream<Item = Result<DiscoveryResponse, Status>> + Send>>;

struct Service {
    sessions: mpsc::Sender<Session>,
}

/// One stream of the proxy.
pub(crate) struct Session {
    requests: Streaming<DeltaDiscoveryRequest>,
    responses: mpsc::Sender<Result<DeltaDiscoveryResponse, Status>>,
    nonce: u64,
    /// The `authorization` that it came with.
    pub(crate) authorization: Option<String>,
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for Service {
    type StreamAggregatedResourcesStream = OutgoingAll;
    type DeltaAggregatedResourcesStream = Outgoing;

    async fn stream_aggregated_resources(
        &self,
        _: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<OutgoingAll>, Status> {
        Err(Status::unimplemented("delta only"))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Outgoing>, Status> {
        assert!(
            request.peer_certs().is_some_and(|certs| !certs.is_empty()),
            "no client certificate"
        );
        let (responses, receiver) = mpsc::channel(16);
        let authorization = request.metadata().get("authorization");
        let authorization = authorization.map(|value| value.to_str().unwrap().to_owned());
        let session = Session {
            authorization,
            requests: request.into_inner(),
            responses,
            nonce: 0,
        };
        self.sessions
            .send(session)
            .await
            .map_err(|_| Status::unavailable("test is over"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

/// A running server.
pub(crate) struct Ads {
    pub(crate) address: SocketAddr,
    sessions: mpsc::Receiver<Session>,
    task: tokio::task::JoinHandle<()>,
}

impl Ads {
    /// Serves with certificates of a folder (see [`certificates`]), on a port or any.
    pub(crate) async fn start(folder: &Path, port: u16) -> Self {
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
        let tls = ServerTlsConfig::new()
            .identity(Identity::from_pem(read("server.crt"), read("server.key")))
            .client_ca_root(Certificate::from_pem(read("ca.crt")));
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        let listener = socket.listen(16).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, sessions) = mpsc::channel(4);
        let service = AggregatedDiscoveryServiceServer::new(Service { sessions: sender });
        let server = Server::builder().tls_config(tls).unwrap().add_service(service);
        let task = tokio::spawn(async move {
            server
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await
                .unwrap();
        });
        Self {
            address,
            sessions,
            task,
        }
    }

    /// The next stream.
    pub(crate) async fn session(&mut self) -> Session {
        tokio::time::timeout(PATIENCE, self.sessions.recv())
            .await
            .expect("no stream in time")
            .unwrap()
    }

    /// Ends the server; its port is free again afterwards.
    pub(crate) async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

impl Session {
    /// The next request of a type; others on the way are dropped.
    pub(crate) async fn request(&mut self, kind: &str) -> DeltaDiscoveryRequest {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.requests.message()).await;
            let request = message.expect("no request in time").unwrap().expect("stream open");
            if request.type_url == url(kind) {
                return request;
            }
        }
    }

    /// Sends resources and removals and returns the answer.
    pub(crate) async fn push(
        &mut self,
        kind: &str,
        resources: &[(&str, &str, String)],
        removed: &[&str],
    ) -> DeltaDiscoveryRequest {
        self.nonce += 1;
        let codec = edge_xds::json::Codec::cached().unwrap();
        let resources = resources.iter().map(|(name, version, yaml)| Resource {
            name: (*name).to_owned(),
            version: (*version).to_owned(),
            resource: Some(Any {
                type_url: url(kind),
                value: codec
                    .bytes_from_json(&url(kind), serde_yaml::from_str(yaml).unwrap())
                    .unwrap(),
            }),
            ..Resource::default()
        });
        let response = DeltaDiscoveryResponse {
            type_url: url(kind),
            nonce: self.nonce.to_string(),
            resources: resources.collect(),
            removed_resources: removed.iter().map(|name| (*name).to_owned()).collect(),
            ..DeltaDiscoveryResponse::default()
        };
        self.responses.send(Ok(response)).await.unwrap();
        loop {
            let answer = self.request(kind).await;
            if answer.response_nonce == self.nonce.to_string() {
                return answer;
            }
        }
    }
}

fn url(kind: &str) -> String {
    format!("type.googleapis.com/envoy.config.{kind}")
}

/// A CA, a server certificate for `edge-gateway` and a client certificate, as files.
pub(crate) fn certificates(folder: &Path) {
    let named = |name: &str, names: Vec<String>| {
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params
    };
    let mut authority = named("test ca", Vec::new());
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    std::fs::write(folder.join("ca.crt"), authority.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = rcgen::Issuer::new(authority, key);
    for (file, name) in [("server", "edge-gateway"), ("client", "proxy")] {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = named(name, vec![name.to_owned()]).signed_by(&key, &issuer).unwrap();
        std::fs::write(folder.join(format!("{file}.crt")), certificate.pem()).unwrap();
        std::fs::write(folder.join(format!("{file}.key")), key.serialize_pem()).unwrap();
    }
}

/// A backend that answers every request with a word, on a thread of its own.
pub(crate) fn backend(word: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut stream = stream;
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
                    if line == "\r\n" {
                        let _ = write!(
                            stream,
                            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{word}",
                            word.len()
                        );
                    }
                    line.clear();
                }
            });
        }
    });
    address
}

/// A port that nobody uses, and that nobody else is given: not even a client of another test by chance.
pub(crate) fn free_port() -> u16 {
    let [port] = e2e::ports::free().unwrap();
    port
}

/// The proxy as a process; killed when dropped.
pub(crate) struct Proxy {
    child: Child,
    pub(crate) admin: SocketAddr,
}

impl Proxy {
    /// Starts it with arguments; the admin address is in the given bootstrap.
    pub(crate) fn start(bootstrap: &Path, admin: SocketAddr) -> Self {
        Self::start_with(bootstrap, admin, &[])
    }

    /// The same with further arguments.
    pub(crate) fn start_with(bootstrap: &Path, admin: SocketAddr, more: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_edge-proxy"))
            .args([
                "--concurrency",
                "2",
                "--log-level",
                "warn",
                "--service-node",
                "test",
                "--service-cluster",
                "fleet",
            ])
            .arg("-c")
            .arg(bootstrap)
            .args(more)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, admin }
    }

    /// Its number.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM and returns the exit code.
    pub(crate) fn terminate(self) -> Option<i32> {
        self.signal_end();
        self.wait()
    }

    /// Waits for the exit code.
    pub(crate) fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Sends SIGTERM.
    pub(crate) fn signal_end(&self) {
        let killed = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(killed.success());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request on a connection of its own; `None` when nobody answers.
pub(crate) fn ask(address: SocketAddr, method: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\n\r\n"
    )
    .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let status = text.split(' ').nth(1)?.parse().ok()?;
    Some((status, text.split_once("\r\n\r\n")?.1.to_owned()))
}

/// Waits until the question is answered as wanted. Runs on a blocking thread, so that the server goes on serving.
pub(crate) async fn wait_for(address: SocketAddr, path: &'static str, status: u16, part: &'static str) {
    let waiting = tokio::task::spawn_blocking(move || {
        let start = Instant::now();
        loop {
            let answer = ask(address, "GET", path);
            if answer
                .as_ref()
                .is_some_and(|(found, body)| *found == status && body.contains(part))
            {
                return;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "{address}{path}: wanted {status} {part:?}, got {answer:?}"
            );
            std::thread::yield_now();
        }
    });
    waiting.await.unwrap();
}
