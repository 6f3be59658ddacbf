//! A small HTTP/1 server for the controller's own pages: admin, health and metrics.
//!
//! It answers GET and HEAD without a body and nothing else; there is no routing table, because a page is a function
//! from a request line to a reply.

use crate::{Error, open_connections::OpenConnections, task::Stop};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{convert::Infallible, future::Future, io, net::SocketAddr, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// Connections served at a time ([`OpenConnections`]). People, scrapers and the API server need few.
const MAX_CONNECTIONS: usize = 64;
/// How long a client may take for its request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// An answer with its whole body.
pub type Reply = Response<Full<Bytes>>;

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The path as sent.
    pub path: String,
    /// The part behind `?`, empty without one.
    pub query: String,
}

impl Query {
    /// The value of a query parameter, as sent.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, v)| v)
    }
}

/// Opens a listening socket, or says which field or flag to change.
pub async fn listen(address: SocketAddr, purpose: &'static str, remedy: &str) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| Error::Listen {
        address,
        purpose,
        remedy: remedy.to_owned(),
        source,
    })
}

/// Serves pages until asked to stop. Open connections are cut then: every page is a single small answer.
pub async fn serve<P, F>(listener: TcpListener, page: P, stop: Stop)
where
    P: Fn(Query) -> F + Clone + Send + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    serve_each(listener, stop, |socket| connection(socket, page.clone())).await;
}

/// Serves every connection until asked to stop, so many at a time ([`OpenConnections`]); what is open then is cut.
pub(crate) async fn serve_each<F>(listener: TcpListener, mut stop: Stop, mut serve: impl FnMut(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    let mut open = OpenConnections::at_most(MAX_CONNECTIONS);
    loop {
        tokio::select! {
            () = stop.requested() => break,
            _ = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((socket, peer)) => open.add(peer.ip(), connections.spawn(serve(socket))),
                Err(error) => pause_after(&error).await,
            },
        }
    }
    connections.shutdown().await;
}

/// Errors of `accept` are the connection's own, except when the process has run out of descriptors: then trying again
/// at once would only burn time.
pub(crate) async fn pause_after(error: &io::Error) {
    if !matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    ) {
        tracing::warn!(%error, "can't accept a connection");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn connection<P, F>(socket: TcpStream, page: P)
where
    P: Fn(Query) -> F + Clone + Send + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = query_of(&request).map(&page);
        async move {
            Ok::<_, Infallible>(match answer {
                Some(answer) => answer.await,
                None => text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n"),
            })
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(socket), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "connection to a page of the controller failed");
    }
}

/// What is asked for, if it is asked in a way that is answered.
fn query_of(request: &Request<Incoming>) -> Option<Query> {
    let uri = request.uri();
    matches!(*request.method(), Method::GET | Method::HEAD).then(|| Query {
        path: uri.path().to_owned(),
        query: uri.query().unwrap_or_default().to_owned(),
    })
}

/// An answer in plain text.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    reply(status, "text/plain; charset=utf-8", body)
}

/// An answer in JSON.
pub fn json(body: impl Into<Bytes>) -> Reply {
    reply(StatusCode::OK, "application/json", body)
}

/// An answer of a given media type.
pub fn reply(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(media_type));
    reply
}

/// Fetches a page of a process on this machine; gives the status and the body.
pub async fn fetch(method: Method, address: SocketAddr, path: &str) -> io::Result<(StatusCode, Bytes)> {
    let exchange = async {
        let socket = TcpStream::connect(address).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket))
            .await
            .map_err(io::Error::other)?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, address.to_string())
            .body(Full::<Bytes>::default())
            .map_err(io::Error::other)?;
        let answer = async {
            let response = sender.send_request(request).await.map_err(io::Error::other)?;
            let status = response.status();
            let body = http_body_util::BodyExt::collect(response.into_body())
                .await
                .map_err(io::Error::other)?;
            Ok((status, body.to_bytes()))
        };
        // The connection is driven here and ends with the answer.
        tokio::pin!(answer, connection);
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            _ = &mut connection => answer.await,
        }
    };
    tokio::time::timeout(Duration::from_secs(2), exchange).await?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Task;
    use tokio::net::TcpSocket;

    #[tokio::test]
    async fn pages_are_served_and_an_occupied_port_is_named() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = listen(any, "tests", "").await.unwrap();
        let address = listener.local_addr().unwrap();
        let page = |query: Query| async move { text(StatusCode::OK, format!("{} {:?}", query.path, query.param("b"))) };
        let server = Task::spawn("pages", |stop| serve(listener, page, stop));

        let (status, body) = fetch(Method::GET, address, "/x?a=1&b=2").await.unwrap();
        assert_eq!((status, &*body), (StatusCode::OK, &b"/x Some(\"2\")"[..]));
        let (status, _) = fetch(Method::POST, address, "/x").await.unwrap();
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
        let error = listen(address, "tests", "choose another").await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("can't listen on {address} for tests: the address is in use; choose another")
        );

        server.stop(Duration::from_secs(5)).await;
        assert!(fetch(Method::GET, address, "/").await.is_err());
    }

    /// A pod of anybody's may open what it likes: the kubelet ends containers whose pages don't answer it.
    #[tokio::test]
    async fn who_holds_all_connections_keeps_nobody_out() {
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        let listener = listen(any, "tests", "").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let page = |_| async { text(StatusCode::OK, "ok") };
        let server = Task::spawn("pages", |stop| serve(listener, page, stop));
        let from = |address: [u8; 4]| async move {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((address, 0).into()).unwrap();
            socket.connect(([127, 0, 0, 1], port).into()).await.unwrap()
        };

        let mut silent = Vec::new();
        for _ in 0..2 * MAX_CONNECTIONS {
            silent.push(from([127, 0, 0, 2]).await);
        }
        let (status, _) = fetch(Method::GET, SocketAddr::from(([127, 0, 0, 1], port)), "/")
            .await
            .unwrap();
        assert_eq!(status, StatusCode::OK);

        server.stop(Duration::from_secs(5)).await;
    }
}
