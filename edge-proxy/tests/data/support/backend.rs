//! Backends.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};

/// What a backend saw, with its whole body.
pub(crate) type Seen = Request<Bytes>;

/// A backend that answers with a function; counts connections and remembers requests.
#[derive(Clone)]
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    seen: Arc<std::sync::RwLock<Vec<Seen>>>,
    arrived: Arc<tokio::sync::Notify>,
}

/// What a backend speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http1,
    Http2,
}

impl Backend {
    /// A backend that answers 200 with its name.
    pub(crate) async fn named(name: &'static str) -> Self {
        Self::start(Speaks::Http1, move |_| Response::new(Full::from(name))).await
    }

    /// A backend that answers "late", each time it is told to.
    pub(crate) async fn held() -> (Self, Arc<tokio::sync::Notify>) {
        let go = Arc::new(tokio::sync::Notify::new());
        let wait = Arc::clone(&go);
        let backend = Self::start_async(Speaks::Http1, move |_| {
            let wait = Arc::clone(&wait);
            async move {
                wait.notified().await;
                Response::new(Full::from("late"))
            }
        });
        (backend.await, go)
    }

    /// A backend that answers by a function.
    pub(crate) async fn start<F>(speaks: Speaks, answer: F) -> Self
    where
        F: Fn(&Seen) -> Response<Full<Bytes>> + Clone + Send + Sync + 'static,
    {
        Self::start_async(speaks, move |seen| {
            let response = answer(seen);
            async move { response }
        })
        .await
    }

    /// A backend that answers by an asynchronous function.
    pub(crate) async fn start_async<F, R>(speaks: Speaks, answer: F) -> Self
    where
        F: Fn(&Seen) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let backend = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            seen: Arc::default(),
            arrived: Arc::default(),
        };
        let this = backend.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                this.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(this.clone().serve(stream, speaks, answer.clone()));
            }
        });
        backend
    }

    async fn serve<F, R>(self, stream: TcpStream, speaks: Speaks, answer: F)
    where
        F: Fn(&Seen) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let (this, answer) = (self.clone(), answer.clone());
            async move {
                let (parts, body) = request.into_parts();
                // A client that breaks off its body breaks off the request.
                let body = body.collect().await.map(http_body_util::Collected::to_bytes)?;
                let seen = Request::from_parts(parts, body);
                let response = answer(&seen);
                this.seen.write().unwrap().push(seen);
                this.arrived.notify_waiters();
                Ok::<_, hyper::Error>(response.await)
            }
        });
        let io = TokioIo::new(stream);
        // Errors are the other side's; tests look at what arrives.
        let _ = match speaks {
            Speaks::Http1 => {
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(io, service)
                    .await
            }
            Speaks::Http2 => {
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(io, service)
                    .await
            }
        };
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.seen.read().unwrap().len()
    }

    /// The last request.
    pub(crate) fn last(&self) -> Seen {
        self.seen.read().unwrap().last().expect("no request").clone()
    }

    /// Waits for the nth request.
    pub(crate) async fn wait_for(&self, n: usize) -> Seen {
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            if self.requests() >= n {
                return self.last();
            }
            arrived.await;
        }
    }
}
