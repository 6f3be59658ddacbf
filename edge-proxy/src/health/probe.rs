//! One probe: a connection, what is sent, and what must come back.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::config::cluster::Cluster;
use crate::config::endpoint::{Host, HostAddress};
use crate::config::health::{HealthCheck, HttpProbe, Probe};
use crate::config::tls::Sni;
use crate::health::course::Failure;
use crate::local::LocalExecutor;
use crate::transport::Transport;
use crate::upstream::connect::{Target, announce, dial, secure};
use crate::vitals::Flag;

const USER_AGENT: HeaderValue = HeaderValue::from_static("Envoy/HC");

/// A probe that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    /// The host says that it is degraded.
    pub(super) degraded: bool,
}

/// What probes of one host keep between each other.
#[derive(Default)]
pub(super) struct Prober {
    connection: Option<Connection>,
}

enum Connection {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
    Bytes(Transport),
}

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, prost::Message)]
struct CheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct CheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// `ServingStatus.SERVING`.
const SERVING: i32 = 1;

fn network<E>(_: E) -> Failure {
    Failure::NETWORK
}

impl Prober {
    /// The connection can't be used again.
    pub(super) fn forget(&mut self) {
        self.connection = None;
    }

    /// Probes a host.
    pub(super) async fn probe(
        &mut self,
        check: &HealthCheck,
        cluster: &Cluster,
        host: &Host,
        admin: Option<SocketAddr>,
    ) -> Result<Passed, Failure> {
        let connection = match self.connection.take().filter(Connection::is_open) {
            Some(connection) => connection,
            None => Box::pin(connect(check, cluster, host, admin)).await.map_err(network)?,
        };
        match (connection, &check.probe) {
            (Connection::Bytes(stream), Probe::Tcp { send, receive }) => {
                self.exchange(check, stream, send, receive).await
            }
            (connection, Probe::Http(probe)) => {
                let authority = authority(probe.host.as_ref(), cluster, host);
                let request = request(probe, &authority, connection.is_http2()).map_err(network)?;
                self.ask(check, probe, host, connection, request).await
            }
            (
                Connection::Http2(sender),
                Probe::Grpc {
                    service,
                    authority: own,
                },
            ) => {
                let authority = authority(own.as_ref(), cluster, host);
                self.call(check, sender, service, &authority).await
            }
            _ => Err(Failure::NETWORK),
        }
    }

    /// Bytes.
    async fn exchange(
        &mut self,
        check: &HealthCheck,
        mut stream: Transport,
        send: &Bytes,
        receive: &[Bytes],
    ) -> Result<Passed, Failure> {
        let passed = Passed { degraded: false };
        if receive.is_empty() {
            // That it can be connected to is all that is asked, and it is asked anew each time.
            return Ok(passed);
        }
        stream.write_all(send).await.map_err(network)?;
        stream.flush().await.map_err(network)?;
        let mut got = BytesMut::new();
        while !contains(&got, receive) {
            if stream.read_buf(&mut got).await.map_err(network)? == 0 || got.len() > (64 << 10) {
                return Err(Failure::NETWORK);
            }
        }
        if check.reuses_connections {
            self.connection = Some(Connection::Bytes(stream));
        }
        Ok(passed)
    }

    /// A request.
    async fn ask(
        &mut self,
        check: &HealthCheck,
        probe: &HttpProbe,
        host: &Host,
        mut connection: Connection,
        request: Request<Full<Bytes>>,
    ) -> Result<Passed, Failure> {
        let response = connection.send(request).await.map_err(network)?;
        let (parts, body) = response.into_parts();
        let body = read(body, probe).await?;
        if check.reuses_connections {
            self.connection = Some(connection);
        }
        let status = parts.status.as_u16();
        if contains(&body, &probe.receive) && probe.expected.iter().any(|range| range.contains(&status)) {
            return Ok(Passed {
                degraded: parts.headers.contains_key(&check.degraded),
            });
        }
        if parts.headers.contains_key(&check.immediate_fail) {
            host.vitals.set(Flag::Excluded);
        }
        let is_retriable =
            contains(&body, &probe.receive) && probe.retriable.iter().any(|range| range.contains(&status));
        Err(Failure {
            retriable: is_retriable,
            status,
            ..Failure::ACTIVE
        })
    }

    /// A call.
    async fn call(
        &mut self,
        check: &HealthCheck,
        mut sender: http2::SendRequest<Full<Bytes>>,
        service: &str,
        authority: &HeaderValue,
    ) -> Result<Passed, Failure> {
        let request = call(service, authority, check.timeout).map_err(network)?;
        sender.ready().await.map_err(network)?;
        let response = sender.send_request(request).await.map_err(network)?;
        let (parts, body) = response.into_parts();
        let collected = body.collect().await.map_err(network)?;
        let trailers = collected.trailers().cloned().unwrap_or_default();
        let frame = collected.to_bytes();
        if check.reuses_connections {
            self.connection = Some(Connection::Http2(sender));
        }
        let ok = |fields: &HeaderMap| fields.get("grpc-status").is_some_and(|status| status == "0");
        // A length of four bytes stands behind the byte that says whether the message is compressed.
        let answer = frame.get(5..).map(CheckResponse::decode);
        let serves = matches!(answer, Some(Ok(CheckResponse { status: SERVING }))) && is_of_grpc(&parts.headers);
        if parts.status == http::StatusCode::OK && serves && ok(&trailers) && frame.first() == Some(&0) {
            return Ok(Passed { degraded: false });
        }
        Err(Failure::ACTIVE)
    }
}

impl Connection {
    fn is_open(&self) -> bool {
        match self {
            Self::Http1(sender) => !sender.is_closed(),
            Self::Http2(sender) => !sender.is_closed(),
            Self::Bytes(_) => true,
        }
    }

    fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            // A probe of bytes has no requests.
            Self::Bytes(_) => std::future::pending().await,
        }
    }
}

/// Whether an answer says that it is one of gRPC.
fn is_of_grpc(fields: &HeaderMap) -> bool {
    let kind = fields.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let rest = kind.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"+"))
}

/// As much of a body as is looked at; the rest is read, so that the connection can be used again.
async fn read(mut body: Incoming, probe: &HttpProbe) -> Result<BytesMut, Failure> {
    let most = match probe.looked_at {
        0 => usize::MAX,
        most => most,
    };
    let mut kept = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(mut data) = frame.map_err(network)?.into_data() else {
            continue;
        };
        if !probe.receive.is_empty() {
            let room = most.saturating_sub(kept.len()).min(data.remaining());
            kept.extend_from_slice(&data.copy_to_bytes(room));
        }
    }
    Ok(kept)
}

/// Whether all parts are there, one behind the other.
fn contains(bytes: &[u8], parts: &[Bytes]) -> bool {
    let mut rest = bytes;
    parts.iter().all(|part| {
        if part.is_empty() {
            return true;
        }
        match rest.windows(part.len()).position(|window| window == &part[..]) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        }
    })
}

/// Whom a probe asks for: what the check says, what the host says, the cluster, as far as that may name a host.
fn authority(own: Option<&HeaderValue>, cluster: &Cluster, host: &Host) -> HeaderValue {
    let of_host = host.check.as_ref().and_then(|check| check.hostname.as_deref());
    let of_host = of_host.and_then(|name| HeaderValue::from_str(name).ok());
    let own = of_host.or_else(|| own.cloned());
    let of_cluster = || HeaderValue::from_str(Authority::try_from(&*cluster.name).ok()?.as_str()).ok();
    own.or_else(of_cluster)
        .unwrap_or_else(|| HeaderValue::from_static("localhost"))
}

/// It in the form that HTTP/2 needs. Where it has none, as the name of a cluster may, the host is asked for itself.
fn pseudo(authority: &HeaderValue) -> Authority {
    Authority::try_from(authority.as_bytes()).unwrap_or_else(|_| Authority::from_static("localhost"))
}

fn request(probe: &HttpProbe, authority: &HeaderValue, http2: bool) -> Result<Request<Full<Bytes>>, http::Error> {
    let mut request = Request::builder().method(probe.method.clone());
    if http2 {
        let uri = Uri::builder()
            .scheme("http")
            .authority(pseudo(authority))
            .path_and_query(probe.path.clone());
        request = request.uri(uri.build()?);
    } else {
        request = request
            .uri(Uri::from(probe.path.clone()))
            .header(header::HOST, authority.clone());
    }
    request
        .header(header::USER_AGENT, USER_AGENT)
        .body(Full::new(probe.send.clone()))
}

fn call(service: &str, authority: &HeaderValue, timeout: Duration) -> Result<Request<Full<Bytes>>, http::Error> {
    let message = CheckRequest {
        service: service.to_owned(),
    };
    let message = message.encode_to_vec();
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend_from_slice(&message);
    let uri = Uri::builder()
        .scheme("http")
        .authority(pseudo(authority))
        .path_and_query("/grpc.health.v1.Health/Check");
    Request::builder()
        .method(Method::POST)
        .uri(uri.build()?)
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .header("grpc-timeout", format!("{}m", timeout.as_millis()))
        .header(header::USER_AGENT, USER_AGENT)
        .body(Full::new(Bytes::from(frame)))
}

async fn connect(
    check: &HealthCheck,
    cluster: &Cluster,
    host: &Host,
    admin: Option<SocketAddr>,
) -> io::Result<Connection> {
    let address = address(check, host);
    let http2 = match &check.probe {
        Probe::Http(probe) => probe.http2,
        Probe::Grpc { .. } => true,
        Probe::Tcp { .. } => false,
    };
    let mut transport = dial(&address, cluster, admin).await?;
    announce(&mut transport, cluster, None).await?;
    if let Some(tls) = cluster.tls_of(host) {
        let alpn = || match (&*check.alpn, &check.probe) {
            ([], Probe::Tcp { .. }) => Vec::new(),
            ([], _) if http2 => vec![b"h2".to_vec()],
            ([], _) => vec![b"http/1.1".to_vec()],
            (own, _) => own.to_vec(),
        };
        // No request stands behind a probe: where the name would follow it, the host's own is asked for.
        let name = (tls.sni == Sni::Authority && !host.hostname.is_empty()).then_some(&*host.hostname);
        let target = Target { cluster, host };
        transport = secure(tls, target, alpn, name, transport).await?;
    }
    if matches!(check.probe, Probe::Tcp { .. }) {
        return Ok(Connection::Bytes(transport));
    }
    let io = TokioIo::new(transport);
    if http2 {
        let (sender, driver) = http2::Builder::new(LocalExecutor)
            .handshake(io)
            .await
            .map_err(io::Error::other)?;
        tokio::task::spawn_local(async move {
            // Whoever sends next finds out.
            let _ = driver.await;
        });
        return Ok(Connection::Http2(sender));
    }
    let (sender, driver) = http1::handshake(io).await.map_err(io::Error::other)?;
    tokio::task::spawn_local(async move {
        let _ = driver.await;
    });
    Ok(Connection::Http1(sender))
}

/// Where a host is probed.
fn address(check: &HealthCheck, host: &Host) -> HostAddress {
    let own = host.check.as_deref();
    if let Some(address) = own.and_then(|own| own.address.clone()) {
        return address;
    }
    match (&host.address, own.and_then(|own| own.port).or(check.port)) {
        (HostAddress::Socket(address), Some(port)) => HostAddress::Socket(SocketAddr::new(address.ip(), port)),
        (address, _) => address.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_grpc_says_so() {
        let says = |kind: &'static str| {
            let fields = [(header::CONTENT_TYPE, HeaderValue::from_static(kind))];
            is_of_grpc(&fields.into_iter().collect())
        };
        assert!(says("application/grpc") && says("application/grpc+proto"));
        assert!(!says("application/grpc-web") && !says("text/plain") && !is_of_grpc(&HeaderMap::new()));
    }

    #[test]
    fn a_name_that_is_no_host_keeps_no_probe_from_being_sent() {
        let asked = |name: &'static str| {
            let request = call("", &HeaderValue::from_static(name), Duration::from_secs(1)).expect("a request");
            request.uri().authority().map(ToString::to_string)
        };
        assert_eq!(asked("app.default:80").as_deref(), Some("app.default:80"));
        assert_eq!(asked("service/default/app/80/http2").as_deref(), Some("localhost"));
    }

    #[test]
    fn parts_are_found_one_behind_the_other() {
        let parts = |list: &[&'static str]| -> Vec<Bytes> {
            list.iter().map(|one| Bytes::from_static(one.as_bytes())).collect()
        };
        assert!(contains(b"+PONG\r\n+OK", &parts(&["PONG", "OK"])));
        assert!(!contains(b"+OK\r\n+PONG", &parts(&["PONG", "OK"])));
        assert!(!contains(b"OK", &parts(&["OK", "OK"])), "each once");
        assert!(contains(b"", &parts(&[])) && contains(b"", &parts(&[""])));
    }
}
