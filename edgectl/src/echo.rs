//! `edgectl x echo`: a backend to try things with. It answers every request with what it saw, as JSON.
//!
//! HTTP/1.1 and HTTP/2 with prior knowledge on one port. `/status/NNN` answers with that status, `?delay=300ms` waits
//! first, `/ws` with an upgrade echoes WebSocket messages. It is a tool for trying and testing, so it has no TLS, no
//! limits and no configuration.

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS},
    service::service_fn,
    upgrade::OnUpgrade,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use std::{
    convert::Infallible,
    io::{ErrorKind, Write},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet};

mod seen;
mod websocket;

use seen::{EchoedRequest, Identity};

/// WebSockets that wait to be served; when it is full, their answers wait, which is a moment.
const UPGRADES: usize = 16;

/// Where to listen.
#[derive(Clone, Debug, clap::Args)]
pub struct EchoArgs {
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 3000)]
    pub port: u16,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub address: std::net::IpAddr,
}

/// Serves until the process is told to stop. The first line of output names the address.
pub fn run(args: &EchoArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let wanted = SocketAddr::new(args.address, args.port);
        let listener = TcpListener::bind(wanted)
            .await
            .with_context(|| format!("can't listen on {wanted}: choose another with --port, or stop who uses it"))?;
        writeln!(std::io::stdout(), "echo backend on http://{}", listener.local_addr()?)?;
        tokio::select! {
            () = serve(listener, Identity::from_environment()) => Ok(()),
            signal = stop_signal() => signal.context("signals can't be watched"),
        }
    })
}

/// Ctrl-C, or the SIGTERM of a supervisor.
async fn stop_signal() -> std::io::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        interrupt = tokio::signal::ctrl_c() => interrupt,
        _ = terminate.recv() => Ok(()),
    }
}

/// Accepts connections for ever. What runs on them ends with the returned future.
async fn serve(listener: TcpListener, identity: Identity) {
    let identity = Arc::new(identity);
    let (upgrades, mut upgraded) = mpsc::channel(UPGRADES);
    let mut running = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(upgrade) = upgraded.recv() => {
                running.spawn(websocket::serve(upgrade));
                continue;
            }
            Some(_) = running.join_next(), if !running.is_empty() => continue,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                pause_after(&error).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let (identity, upgrades) = (Arc::clone(&identity), upgrades.clone());
        running.spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&identity), upgrades.clone()));
            let server = auto::Builder::new(TokioExecutor::new());
            // Errors here are the client's: a reset, a protocol violation. There is nobody to tell.
            let _ = server
                .serve_connection_with_upgrades(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// A failed accept concerns one client, which went away, except when the process has run out of descriptors: then
/// trying again at once would only burn time, and those that are open go on meanwhile.
async fn pause_after(error: &std::io::Error) {
    let is_of_client = matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset);
    if !is_of_client {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn answer(
    request: Request<Incoming>,
    identity: Arc<Identity>,
    upgrades: mpsc::Sender<OnUpgrade>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if websocket::is_upgrade(&request) {
        let (response, upgrade) = websocket::accept(request);
        // Nobody takes it when the backend is about to end.
        let _ = upgrades.send(upgrade).await;
        return Ok(response);
    }
    let (head, body) = request.into_parts();
    let body_bytes = body.collect().await.map_or(0, |all| all.to_bytes().len());
    if let Some(delay) = seen::delay(head.uri.query()) {
        tokio::time::sleep(delay).await;
    }
    let status = seen::wanted_status(head.uri.path()).unwrap_or(StatusCode::OK);
    let text = serde_json::to_string_pretty(&EchoedRequest::new(&head, body_bytes, &identity)).unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(text + "\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

#[cfg(test)]
mod tests;
