//! Requests over HTTP/2 with prior knowledge: plain ones, and unary calls of gRPC.

use super::{Extent, Quota, Summary, backend::grpc_message, since};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use h2::client::SendRequest;
use http::{Method, Request, StatusCode, Version};
use std::{net::SocketAddr, sync::Arc, time::Instant};
use tokio::{net::TcpStream, task::JoinSet};

/// Bytes of the message in a call.
const MESSAGE: usize = 100;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// GET without content.
    Get,
    /// A unary call of gRPC.
    Call,
}

/// Who asks whom.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// Where.
    pub address: SocketAddr,
    /// The authority.
    pub host: &'a str,
    /// Connections.
    pub connections: usize,
    /// Streams on all of them at a time.
    pub streams: usize,
    /// What.
    pub asked: Asked,
}

/// Keeps streams busy.
pub async fn run(load: Load<'_>, extent: Extent) -> Result<Summary> {
    let (request, message) = request(load)?;
    let request = Arc::new(request);
    let mut tasks = JoinSet::new();
    let mut drivers = JoinSet::new();
    let quota = Arc::new(Quota::of(extent));
    for place in 0..load.connections {
        let stream = TcpStream::connect(load.address).await?;
        stream.set_nodelay(true)?;
        let mut builder = h2::client::Builder::new();
        builder
            .initial_window_size(1 << 20)
            .initial_connection_window_size(1 << 24);
        let (send, connection) = builder.handshake::<_, Bytes>(stream).await?;
        drivers.spawn(connection);
        let streams = load.streams / load.connections + usize::from(place < load.streams % load.connections);
        for _ in 0..streams {
            tasks.spawn(drive(
                send.clone(),
                Arc::clone(&request),
                message.clone(),
                Arc::clone(&quota),
            ));
        }
    }
    let (mut latencies, mut errors, mut last) = (Vec::new(), 0, None);
    while let Some(outcome) = tasks.join_next().await {
        match outcome? {
            Ok(list) => latencies.extend(list),
            Err(error) => {
                errors += 1;
                last = Some(error);
            }
        }
    }
    Summary::of(latencies, errors, last)
}

fn request(load: Load<'_>) -> Result<(Request<()>, Option<Bytes>)> {
    let base = Request::builder().version(Version::HTTP_2);
    let host = load.host;
    Ok(match load.asked {
        Asked::Get => (base.uri(format!("http://{host}/x")).body(())?, None),
        Asked::Call => {
            let base = base.method(Method::POST).uri(format!("http://{host}/load.Echo/Say"));
            let base = base.header("content-type", "application/grpc").header("te", "trailers");
            (base.body(())?, Some(grpc_message(MESSAGE)))
        }
    })
}

/// One stream after the other until enough is done; the latency of every exchange in nanoseconds.
async fn drive(
    send: SendRequest<Bytes>,
    request: Arc<Request<()>>,
    message: Option<Bytes>,
    quota: Arc<Quota>,
) -> Result<Vec<u32>> {
    let mut latencies = Vec::new();
    let mut send = send;
    loop {
        let start = Instant::now();
        if !quota.take(start) {
            return Ok(latencies);
        }
        send = send.ready().await?;
        exchange(&mut send, &request, message.clone()).await?;
        latencies.push(since(start));
    }
}

async fn exchange(send: &mut SendRequest<Bytes>, request: &Request<()>, message: Option<Bytes>) -> Result<()> {
    let is_call = message.is_some();
    let (response, mut stream) = send.send_request(request.clone(), !is_call)?;
    if let Some(message) = message {
        stream.send_data(message, true)?;
    }
    let response = response.await?;
    let status = response.status();
    ensure!(status == StatusCode::OK, "not a 200: {status}");
    let mut body = response.into_body();
    let mut length = 0;
    while let Some(data) = body.data().await {
        let data = data?;
        length += data.len();
        body.flow_control().release_capacity(data.len())?;
    }
    ensure!(length > 0, "an answer without content");
    if is_call {
        let trailers = body.trailers().await?.context("a call without trailers")?;
        let status = trailers.get("grpc-status").context("a call without status")?;
        ensure!(status == "0", "a call failed: {status:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::backend;

    #[tokio::test]
    async fn calls_and_their_service_understand_each_other() {
        let address = format!("127.0.0.1:{}", crate::ports::free::<1>().unwrap()[0])
            .parse()
            .unwrap();
        let server = tokio::spawn(backend::grpc(address, 1024));
        while TcpStream::connect(address).await.is_err() {
            tokio::task::yield_now().await;
        }
        let mut load = Load {
            address,
            host: "x",
            connections: 2,
            streams: 5,
            asked: Asked::Call,
        };
        let summary = run(load, Extent::Requests(50)).await.unwrap();
        assert_eq!((summary.requests, summary.errors), (50, 0));
        load.asked = Asked::Get;
        let summary = run(load, Extent::Requests(7)).await.unwrap();
        assert_eq!((summary.requests, summary.errors), (7, 0));
        server.abort();
    }
}
