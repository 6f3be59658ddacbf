//! A gRPC channel over the connection that a cluster describes: its addresses, its TLS, its HTTP/2 settings.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

use crate::config::cluster::ClusterEntry;
use crate::config::endpoint::HostAddress;
use crate::config::protocol::KeepaliveTimes;
use crate::config::tls::Sni;
use crate::proxy_protocol::{self, Addresses};

/// Keepalive when the cluster says nothing: without it a dead server would go unnoticed.
const KEEPALIVE: KeepaliveTimes = KeepaliveTimes {
    interval: Duration::from_secs(30),
    timeout: Duration::from_secs(5),
};

/// Opens a channel; the `turn` chooses the endpoint.
pub(super) async fn connect(entry: Arc<ClusterEntry>, turn: usize) -> Result<Channel, String> {
    let cluster = &entry.cluster;
    let authority = match cluster.tls.as_ref().map(|tls| &tls.sni) {
        Some(Sni::Fixed(ServerName::DnsName(name))) => name.as_ref().to_owned(),
        _ => entry
            .endpoints
            .hosts
            .first()
            .map_or_else(String::new, |host| host.hostname.to_string()),
    };
    let authority = if authority.is_empty() {
        "xds".to_owned()
    } else {
        authority
    };
    let scheme = if cluster.tls.is_some() { "https" } else { "http" };
    let uri = |scheme: &str| {
        format!("{scheme}://{authority}")
            .parse::<Uri>()
            .map_err(|error| error.to_string())
    };
    let keepalive = cluster.http2.keepalive.unwrap_or(KEEPALIVE);
    // TLS is the connector's work, so the channel itself is given the plain scheme.
    let endpoint = Endpoint::from(uri("http")?)
        .origin(uri(scheme)?)
        .http2_keep_alive_interval(keepalive.interval)
        .keep_alive_timeout(keepalive.timeout)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(cluster.http2.initial_stream_window.min(1 << 20))
        .initial_connection_window_size(cluster.http2.initial_connection_window.min(1 << 20));
    let deadline = cluster.connect_timeout;
    let connecting = endpoint.connect_with_connector(Connector {
        entry: entry.clone(),
        turn,
    });
    match tokio::time::timeout(deadline, connecting).await {
        Ok(Ok(channel)) => Ok(channel),
        Ok(Err(error)) => Err(with_causes(&error)),
        Err(_) => Err(format!("no connection within {deadline:?}")),
    }
}

/// An error with its causes; the outer ones of a channel say little.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let inner = error.to_string();
        if !text.contains(&inner) {
            text.push_str(": ");
            text.push_str(&inner);
        }
        source = error.source();
    }
    text
}

struct Connector {
    entry: Arc<ClusterEntry>,
    turn: usize,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Stream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(open(self.entry.clone(), self.turn))
    }
}

async fn open(entry: Arc<ClusterEntry>, turn: usize) -> io::Result<TokioIo<Stream>> {
    let hosts = &entry.endpoints.hosts;
    if hosts.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the cluster has no endpoint"));
    }
    let host = &hosts[turn % hosts.len()];
    let address = match &host.address {
        HostAddress::Socket(address) => address,
        // What is there, is on this machine, and needs no TLS.
        HostAddress::Pipe(path) if entry.cluster.tls.is_none() => {
            return Ok(TokioIo::new(Stream::Unix(UnixStream::connect(path).await?)));
        }
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "TLS is spoken to TCP endpoints alone",
            ));
        }
    };
    let mut tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    if let Some(version) = entry.cluster.proxy_protocol {
        let own = Addresses {
            client: tcp.local_addr()?,
            local: *address,
        };
        let header = proxy_protocol::header(version, None, Some(own));
        tcp.write_all(&header).await?;
    }
    let Some(tls) = &entry.cluster.tls else {
        return Ok(TokioIo::new(Stream::Plain(tcp)));
    };
    let name = match &tls.sni {
        Sni::Fixed(name) => name.clone(),
        Sni::Endpoint => ServerName::try_from(host.hostname.to_string()).map_err(io::Error::other)?,
        Sni::Authority | Sni::None => ServerName::IpAddress(address.ip().into()),
    };
    let connector = tokio_rustls::TlsConnector::from(tls.config.clone());
    Ok(TokioIo::new(Stream::Tls(Box::new(connector.connect(name, tcp).await?))))
}

/// A connection with or without TLS.
enum Stream {
    /// Without.
    Plain(TcpStream),
    /// With.
    Tls(Box<TlsStream<TcpStream>>),
    /// To a socket of this machine.
    Unix(UnixStream),
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
