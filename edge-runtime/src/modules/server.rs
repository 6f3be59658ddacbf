//! The server of Wasm modules: HTTPS, with the controller's certificate. It answers GET of a module that some fleet
//! uses, by its digest, and nothing else.

use super::{Kept, find};
use crate::{certs::ServerTls, http::serve_each, task::Stop};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{convert::Infallible, io, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time,
};
use tokio_rustls::TlsAcceptor;

/// How long a handshake and a request's head may take each.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may last: a proxy asks once, for a file.
const LIFETIME: Duration = Duration::from_secs(60);

/// Serves until asked to stop.
pub(super) async fn serve(listener: TcpListener, mut tls: ServerTls, kept: watch::Receiver<Kept>, stop: Stop) {
    serve_each(listener, stop, |socket| {
        let mut config = tls.current().as_ref().clone();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let served = connection(socket, TlsAcceptor::from(Arc::new(config)), kept.clone());
        async {
            if time::timeout(LIFETIME, served).await.is_err() {
                tracing::debug!("a connection for a Wasm module has lasted too long");
            }
        }
    })
    .await;
}

async fn connection(socket: TcpStream, acceptor: TlsAcceptor, kept: watch::Receiver<Kept>) {
    let accepted = time::timeout(PATIENCE, acceptor.accept(socket)).await;
    let stream = match accepted.map_err(io::Error::from) {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) | Err(error) => {
            return tracing::warn!(%error, "a connection for a Wasm module failed in its TLS handshake");
        }
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.method(), request.uri().path(), &kept.borrow());
        async move { Ok::<_, Infallible>(answer) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection for a Wasm module failed");
    }
}

fn answer(method: &Method, path: &str, kept: &Kept) -> Response<Full<Bytes>> {
    let named = path.strip_prefix('/').and_then(|path| path.strip_suffix(".wasm"));
    let module = named
        .filter(|_| *method == Method::GET)
        .and_then(|sha256| find(kept, sha256));
    let mut response = Response::default();
    match module {
        Some(module) => {
            let wasm = HeaderValue::from_static("application/wasm");
            response.headers_mut().insert(header::CONTENT_TYPE, wasm);
            *response.body_mut() = Full::new(module);
        }
        None => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    response
}
