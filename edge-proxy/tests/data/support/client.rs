//! Clients.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<http::HeaderMap>,
}

impl Reply {
    pub(crate) async fn of(response: Response<Incoming>) -> hyper::Result<Self> {
        let (parts, body) = response.into_parts();
        let collected = body.collect().await?;
        let trailers = collected.trailers().cloned();
        Ok(Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: collected.to_bytes(),
            trailers,
        })
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

pub(crate) type Sender1 = hyper::client::conn::http1::SendRequest<Full<Bytes>>;

/// An HTTP/1 connection to a proxy.
pub(crate) struct Http1(pub(crate) Sender1);

impl Http1 {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection.with_upgrades());
        Self(sender)
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Reply {
        self.0.ready().await.unwrap();
        let response = self.0.send_request(request).await.unwrap();
        Reply::of(response).await.unwrap()
    }

    pub(crate) async fn get(&mut self, host: &str, path: &str) -> Reply {
        self.send(get(host, path)).await
    }
}

pub(crate) fn get(host: &str, path: &str) -> Request<Full<Bytes>> {
    Request::get(path).header("host", host).body(Full::default()).unwrap()
}

/// An HTTP/2 connection (prior knowledge) over any stream.
pub(crate) async fn http2<S>(stream: S) -> hyper::client::conn::http2::SendRequest<Full<Bytes>>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

/// Says something in the tunnel behind a response, to the end, and hears all that comes back.
pub(crate) async fn tunnelled(response: Response<Incoming>, said: &[u8]) -> String {
    let mut tunnel = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    tunnel.write_all(said).await.unwrap();
    tunnel.shutdown().await.unwrap();
    let mut heard = String::new();
    tunnel.read_to_string(&mut heard).await.unwrap();
    heard
}
