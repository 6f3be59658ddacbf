//! Opening connections to backends.
//!
//! TCP or Unix socket, TLS, and the handshake of HTTP, all under the cluster's one connect timeout: a host that
//! accepts and then says nothing must not hold requests for ever.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustls::pki_types::ServerName;
use socket2::SockRef;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, UnixStream};
use tokio_rustls::TlsConnector;
use tracing::{debug, warn};

use crate::config::cluster::{Cluster, UpstreamProtocol};
use crate::config::endpoint::{Host, HostAddress};
use crate::config::tls::{Sni, UpstreamTls};
use crate::fault::{Fault, TlsFailure};
use crate::local::Local;
use crate::message::Protocol;
use crate::proxy_protocol::{self, Addresses};
use crate::socket_options;
use crate::transport::Transport;
use crate::upstream::http1::Http1Connection;
use crate::upstream::http2::Http2Connection;
use crate::upstream::limits::ConnectionGuard;
use crate::upstream::pool::{Birth, HostPool};

/// What to speak to a host for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speak {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, with prior knowledge in cleartext.
    Http2,
    /// What TLS negotiates; HTTP/1.1 in cleartext.
    Negotiate,
}

impl Speak {
    /// By the cluster's setting and what the client speaks.
    pub(crate) fn of(cluster: &Cluster, downstream: Protocol) -> Self {
        match (cluster.protocol, downstream) {
            (UpstreamProtocol::Http1, _) | (UpstreamProtocol::Downstream, Protocol::Http1) => Self::Http1,
            (UpstreamProtocol::Http2, _) | (UpstreamProtocol::Downstream, Protocol::Http2) => Self::Http2,
            (UpstreamProtocol::Auto, _) if cluster.any_tls().next().is_some() => Self::Negotiate,
            (UpstreamProtocol::Auto, _) => Self::Http1,
        }
    }

    fn alpn(self) -> Vec<Vec<u8>> {
        match self {
            Self::Http1 => vec![b"http/1.1".to_vec()],
            Self::Http2 => vec![b"h2".to_vec()],
            Self::Negotiate => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        }
    }
}

/// A connection that was just opened.
pub(crate) enum Fresh {
    /// Nobody else uses it.
    Http1(Box<Http1Connection>),
    /// To be shared.
    Http2(Rc<Http2Connection>),
}

/// Opens a connection for the pool. `name` is the request's host where the TLS server name follows it.
pub(crate) async fn connect(
    worker: &Local,
    pool: &Rc<HostPool>,
    speak: Speak,
    name: Option<&str>,
) -> Result<Fresh, Fault> {
    let guard = ConnectionGuard::new(pool);
    // Boxed, here and below: many may connect at once, and few need the room of TLS or HTTP/2.
    let opening = Box::pin(handshake(worker, pool, speak, name, guard));
    let fresh = in_time(pool, opening).await?;
    match fresh {
        Fresh::Http1(_) => pool.cells().upstream_cx_http1_total.inc(),
        Fresh::Http2(_) => pool.cells().upstream_cx_http2_total.inc(),
    }
    Ok(fresh)
}

/// Opens a connection for bytes that are not HTTP, which a client with these ends sends, and counts it as open.
pub(crate) async fn stream(
    worker: &Local,
    pool: &Rc<HostPool>,
    addresses: Addresses,
) -> Result<(Transport, ConnectionGuard), Fault> {
    let guard = ConnectionGuard::new(pool);
    let opening = async {
        let mut transport = dial(&pool.host.address, &pool.cluster, worker.shared.admin_address).await?;
        announce(&mut transport, &pool.cluster, Some(addresses)).await?;
        match pool.cluster.tls_of(&pool.host) {
            Some(tls) => secure(tls, Target::of(pool), Vec::new, None, transport).await,
            None => Ok(transport),
        }
    };
    in_time(pool, opening).await.map(|transport| (transport, guard))
}

/// Waits for a connection no longer than the cluster allows, and counts why there is none.
async fn in_time<T>(pool: &HostPool, opening: impl Future<Output = io::Result<T>>) -> Result<T, Fault> {
    let cells = pool.cells();
    let fault = match tokio::time::timeout(pool.cluster.connect_timeout, opening).await {
        Ok(Ok(opened)) => return Ok(opened),
        Ok(Err(error)) => {
            debug!(cluster = %pool.cluster.name, host = ?pool.host.address, %error, "connect failed");
            Fault::of_connecting(&error)
        }
        Err(_) => {
            debug!(cluster = %pool.cluster.name, host = ?pool.host.address, "connect timed out");
            cells.upstream_cx_connect_timeout.inc();
            Fault::ConnectTimeout
        }
    };
    cells.upstream_cx_connect_fail.inc();
    cells.upstream_rq_pending_failure_eject.inc();
    pool.host.stats.cx_connect_fail.fetch_add(1, Ordering::Relaxed);
    Err(fault)
}

async fn handshake(
    worker: &Local,
    pool: &Rc<HostPool>,
    speak: Speak,
    name: Option<&str>,
    guard: ConnectionGuard,
) -> io::Result<Fresh> {
    let cluster = &pool.cluster;
    // What it fails from now on is this connection's as well.
    let failures = pool.host.vitals.failures();
    let mut transport = dial(&pool.host.address, cluster, worker.shared.admin_address).await?;
    announce(&mut transport, cluster, pool.behalf).await?;
    let mut http2 = speak == Speak::Http2;
    if let Some(tls) = cluster.tls_of(&pool.host) {
        transport = Box::pin(secure(tls, Target::of(pool), || speak.alpn(), name, transport)).await?;
        if let Transport::ClientTls(stream) = &transport {
            match stream.get_ref().1.alpn_protocol() {
                Some(chosen) => http2 = chosen == b"h2",
                // No answer to ALPN: HTTP/1.1, unless the cluster says that it is HTTP/2.
                None => http2 = speak == Speak::Http2,
            }
        }
    }
    let at = worker.clock.now();
    let birth = Birth { at, failures };
    if http2 {
        let opening = Http2Connection::open(transport, cluster, guard, Rc::downgrade(pool), birth);
        return Box::pin(opening).await.map(Fresh::Http2).map_err(io::Error::other);
    }
    let connection = Http1Connection::new(transport, Rc::clone(&worker.buffers), cluster.http1, guard, birth);
    Ok(Fresh::Http1(connection))
}

/// Whom a connection is for.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// The cluster.
    pub(crate) cluster: &'a Cluster,
    /// The host.
    pub(crate) host: &'a Host,
}

impl<'a> Target<'a> {
    fn of(pool: &'a HostPool) -> Self {
        Self {
            cluster: &pool.cluster,
            host: &pool.host,
        }
    }
}

/// Connects to an address, under the settings of a cluster.
pub(crate) async fn dial(address: &HostAddress, cluster: &Cluster, admin: Option<SocketAddr>) -> io::Result<Transport> {
    let address = match address {
        HostAddress::Socket(address) => *address,
        HostAddress::Internal(_) => {
            admin.ok_or_else(|| io::Error::new(io::ErrorKind::AddrNotAvailable, "the admin interface is not bound"))?
        }
        HostAddress::Pipe(path) => return UnixStream::connect(path).await.map(Transport::Unix),
    };
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket_options::set_buffers(&SockRef::from(&socket), &cluster.socket)?;
    if let Some(keepalive) = &cluster.socket.keepalive {
        socket_options::set_keepalive(&SockRef::from(&socket), keepalive)?;
    }
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(Transport::Tcp(stream))
}

/// Says first whom a connection is for, if that is what the cluster wants; `None` is this proxy itself.
pub(crate) async fn announce(
    transport: &mut Transport,
    cluster: &Cluster,
    addresses: Option<Addresses>,
) -> io::Result<()> {
    let Some(version) = cluster.proxy_protocol else {
        return Ok(());
    };
    let own = match transport {
        Transport::Tcp(stream) => Some(Addresses {
            client: stream.local_addr()?,
            local: stream.peer_addr()?,
        }),
        _ => None,
    };
    transport
        .write_all(&proxy_protocol::header(version, addresses, own))
        .await
}

/// Puts TLS on a connection. `name` is the request's host where the server name follows it.
pub(crate) async fn secure(
    tls: &UpstreamTls,
    target: Target<'_>,
    alpn: impl FnOnce() -> Vec<Vec<u8>>,
    name: Option<&str>,
    transport: Transport,
) -> io::Result<Transport> {
    let config = if tls.fixed_alpn {
        Arc::clone(&tls.config)
    } else {
        let mut config = (*tls.config).clone();
        config.alpn_protocols = alpn();
        Arc::new(config)
    };
    let server_name = server_name(tls, target, name)?;
    let stream = TlsConnector::from(config)
        .connect(server_name, Box::new(transport))
        .await
        .map_err(|error| refused(error, tls, target))?;
    Ok(Transport::ClientTls(Box::new(stream)))
}

/// Says once in a while why a handshake failed, and hands the reason on inside the error.
fn refused(error: io::Error, tls: &UpstreamTls, target: Target<'_>) -> io::Error {
    let failure = TlsFailure::of(&error);
    let (cluster, host) = (&*target.cluster.name, &target.host.address);
    if tls.reports.is_due(failure) {
        warn!(cluster, ?host, reason = %failure, %error, "no TLS with a backend");
    } else {
        debug!(cluster, ?host, reason = %failure, %error, "no TLS with a backend");
    }
    io::Error::other(failure)
}

fn server_name(tls: &UpstreamTls, target: Target<'_>, name: Option<&str>) -> io::Result<ServerName<'static>> {
    let parse = |text: &str| ServerName::try_from(text.to_owned()).map_err(io::Error::other);
    let address = || match &target.host.address {
        // An address is never sent as a server name (RFC 6066 §3), which is what "none" asks for.
        HostAddress::Socket(address) => ServerName::from(address.ip()),
        HostAddress::Pipe(_) | HostAddress::Internal(_) => ServerName::from(std::net::IpAddr::from([127, 0, 0, 1])),
    };
    match &tls.sni {
        Sni::Fixed(fixed) => Ok(fixed.clone()),
        // A host that a client names and nobody can have is no fault of the backend: it is asked for none.
        Sni::Authority => Ok(name.and_then(|name| parse(name).ok()).unwrap_or_else(address)),
        Sni::Endpoint if !target.host.hostname.is_empty() => parse(&target.host.hostname),
        Sni::Endpoint | Sni::None => Ok(address()),
    }
}
