//! A server of secrets that the test drives by hand: what it is asked for, what is answered, and what is served with
//! it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use envoy_types::pb::envoy::service::secret::v3::secret_discovery_service_server::{
    SecretDiscoveryService, SecretDiscoveryServiceServer,
};
use envoy_types::pb::google::protobuf::Any;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use crate::support::{PATIENCE, Proxy, backend, free_port, wait_for};

pub(crate) const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

type Answers<T> = Pin<Box<dyn futures_util::Stream<Item = Result<T, Status>> + Send>>;

struct Service {
    sessions: mpsc::Sender<Session>,
}

/// One stream of the proxy.
struct Session {
    requests: Streaming<DiscoveryRequest>,
    responses: mpsc::Sender<Result<DiscoveryResponse, Status>>,
}

#[tonic::async_trait]
impl SecretDiscoveryService for Service {
    type StreamSecretsStream = Answers<DiscoveryResponse>;
    type DeltaSecretsStream = Answers<DeltaDiscoveryResponse>;

    async fn stream_secrets(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamSecretsStream>, Status> {
        let (responses, receiver) = mpsc::channel(4);
        let session = Session {
            requests: request.into_inner(),
            responses,
        };
        let taken = self.sessions.send(session).await;
        taken.map_err(|_| Status::unavailable("test is over"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn delta_secrets(
        &self,
        _: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaSecretsStream>, Status> {
        Err(Status::unimplemented("the state of the world only"))
    }

    async fn fetch_secrets(&self, _: Request<DiscoveryRequest>) -> Result<Response<DiscoveryResponse>, Status> {
        Err(Status::unimplemented("streams only"))
    }
}

struct SecretServer {
    sessions: mpsc::Receiver<Session>,
}

impl SecretServer {
    fn start(socket: &Path) -> Self {
        let (sender, sessions) = mpsc::channel(4);
        let service = SecretDiscoveryServiceServer::new(Service { sessions: sender });
        let incoming = UnixListenerStream::new(UnixListener::bind(socket).unwrap());
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
        Self { sessions }
    }

    async fn session(&mut self) -> Session {
        let session = tokio::time::timeout(PATIENCE, self.sessions.recv()).await;
        session.expect("no stream in time").unwrap()
    }
}

impl Session {
    async fn request(&mut self) -> DiscoveryRequest {
        let request = tokio::time::timeout(PATIENCE, self.requests.message()).await;
        request.expect("no request in time").unwrap().expect("stream open")
    }

    /// Sends secrets as a version and returns the answer.
    async fn push(&mut self, version: &str, secrets: &[String]) -> DiscoveryRequest {
        let codec = edge_xds::json::Codec::cached().unwrap();
        let resources = secrets.iter().map(|yaml| Any {
            type_url: SECRET.to_owned(),
            value: codec
                .bytes_from_json(SECRET, serde_yaml::from_str(yaml).unwrap())
                .unwrap(),
        });
        let response = DiscoveryResponse {
            version_info: version.to_owned(),
            nonce: format!("nonce of {version}"),
            type_url: SECRET.to_owned(),
            resources: resources.collect(),
            ..DiscoveryResponse::default()
        };
        self.responses.send(Ok(response)).await.unwrap();
        let answer = self.request().await;
        assert_eq!(answer.response_nonce, format!("nonce of {version}"));
        answer
    }
}

/// A certificate for `example.com` that vouches for itself, and a client that trusts nobody else.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
    client: Arc<ClientConfig>,
}

impl Identity {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["example.com".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::clone(certificate.der())).unwrap();
        let client = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            client: Arc::new(client),
        }
    }

    fn secret(&self, name: &str, key: &str) -> String {
        let text = |pem: &str| format!("{pem:?}");
        let (certificate, key) = (text(&self.certificate), text(key));
        format!(
            "{{name: {name}, tls_certificate: {{certificate_chain: {{inline_string: {certificate}}}, \
             private_key: {{inline_string: {key}}}}}}}"
        )
    }

    /// Whether an address shows this certificate.
    pub(crate) fn is_shown(&self, address: SocketAddr) -> bool {
        let Ok(mut stream) = TcpStream::connect(address) else {
            return false;
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let name = ServerName::try_from("example.com").unwrap();
        let mut connection = ClientConnection::new(Arc::clone(&self.client), name).unwrap();
        let stream = Stream::new(&mut connection, &mut stream);
        stream.conn.complete_io(stream.sock).is_ok() && !stream.conn.is_handshaking()
    }

    pub(crate) async fn until_shown(&self, address: SocketAddr) {
        let start = Instant::now();
        while !self.is_shown(address) {
            assert!(start.elapsed() < PATIENCE, "another certificate is shown");
            tokio::task::yield_now().await;
        }
    }
}

/// A listener whose certificate is with the server, and one without TLS beside it.
fn bootstrap(folder: &Path, socket: &Path, [admin, secure, plain]: [SocketAddr; 3]) -> PathBuf {
    let at = |address: SocketAddr| {
        format!(
            "{{socket_address: {{address: 127.0.0.1, port_value: {}}}}}",
            address.port()
        )
    };
    let (admin, secure, plain, backend, socket) =
        (at(admin), at(secure), at(plain), at(backend("here")), socket.display());
    let proxy = "filters: [{name: envoy.filters.network.tcp_proxy, typed_config: {\"@type\": \
                 type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: t, cluster: a}}]";
    let text = format!(
        r#"
admin: {{address: {admin}}}
static_resources:
  clusters:
  - name: a
    type: STATIC
    load_assignment: {{cluster_name: a, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {backend}}}}}]}}]}}
  - name: sds
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{http2_protocol_options: {{}}}}
    load_assignment: {{cluster_name: sds, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{pipe: {{path: {socket}}}}}}}}}]}}]}}
  listeners:
  - name: plain
    address: {plain}
    filter_chains: [{{{proxy}}}]
  - name: secure
    address: {secure}
    filter_chains:
    - {proxy}
      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            tls_certificate_sds_secret_configs:
            - name: mine
              sds_config:
                resource_api_version: V3
                api_config_source:
                  api_type: GRPC
                  transport_api_version: V3
                  set_node_on_first_message_only: true
                  grpc_services: [{{envoy_grpc: {{cluster_name: sds}}}}]
"#
    );
    let file = folder.join("bootstrap.yaml");
    std::fs::write(&file, text).unwrap();
    file
}

/// Whether the backend's word comes back.
fn is_served(address: SocketAddr) -> bool {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"here") && stream.read_exact(&mut byte).is_ok() {
        answer.extend(byte);
    }
    answer.ends_with(b"here")
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_a_server_are_taken_kept_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("sds.sock");
    let addresses = [(); 3].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
    let [admin, secure, plain] = addresses;
    let mut server = SecretServer::start(&socket);
    let _proxy = Proxy::start(&bootstrap(folder.path(), &socket, addresses), admin);
    let mut session = server.session().await;
    let request = session.request().await;
    assert_eq!(
        (&*request.type_url, &*request.resource_names),
        (SECRET, &["mine".to_owned()][..])
    );
    assert_eq!(request.node.unwrap().id, "test");

    let (one, other) = (Identity::new(), Identity::new());
    // What nobody asked for is passed over.
    let answer = session
        .push("1", &[one.secret("mine", &one.key), one.secret("yours", "no key")])
        .await;
    assert_eq!((&*answer.version_info, answer.error_detail), ("1", None));
    wait_for(admin, "/ready", 200, "LIVE").await;
    one.until_shown(secure).await;
    assert!(!other.is_shown(secure));
    assert!(tokio::task::spawn_blocking(move || is_served(plain)).await.unwrap());

    // One that can't be used is told so, by name, and the one before stays.
    let answer = session.push("2", &[other.secret("mine", &one.key)]).await;
    let detail = answer.error_detail.expect("a key of another certificate was taken");
    assert!(detail.message.starts_with("mine: "), "{}", detail.message);
    assert_eq!(answer.version_info, "1");
    assert!(one.is_shown(secure));

    let answer = session.push("3", &[other.secret("mine", &other.key)]).await;
    assert_eq!((&*answer.version_info, answer.error_detail), ("3", None));
    other.until_shown(secure).await;

    // A stream that breaks is opened again, and meanwhile the certificate stays.
    drop(session);
    let mut session = server.session().await;
    assert!(other.is_shown(secure));
    assert_eq!(session.request().await.resource_names, ["mine"]);
    let answer = session.push("4", &[one.secret("mine", &one.key)]).await;
    assert_eq!((&*answer.version_info, answer.error_detail), ("4", None));
    one.until_shown(secure).await;

    // All of that is counted as Envoy counts it: each attempt by how it ended, and the one that is under way.
    let counted = "sds.mine.update_attempt: 6\nsds.mine.update_failure: 1\nsds.mine.update_rejected: 1\nsds.mine.\
                   update_success: 3\n";
    wait_for(admin, "/stats?filter=sds", 200, counted).await;
}
