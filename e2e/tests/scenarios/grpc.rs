//! A gRPC backend and a call, down at HTTP/2: one message there and back, and the status in the trailers
//! (gRPC over HTTP/2, "Requests" and "Responses"); and a call as a script makes it (gRPC-Web).

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use std::{
    io::{BufReader, Write as _},
    net::{Ipv4Addr, SocketAddr},
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
};

/// Serves calls until dropped.
pub(crate) struct Backend {
    /// Its port.
    pub(crate) port: u16,
    _runtime: Runtime,
}

impl Backend {
    /// Starts one on a port of its own.
    pub(crate) fn start() -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let port = listener.local_addr()?.port();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Connections end with the proxy.
                tokio::spawn(async move { serve(stream).await });
            }
        });
        Ok(Self {
            port,
            _runtime: runtime,
        })
    }
}

async fn serve(stream: TcpStream) -> Result<()> {
    let mut connection = h2::server::handshake(stream).await?;
    while let Some(call) = connection.accept().await {
        let (request, mut respond) = call?;
        tokio::spawn(async move {
            let path = request.uri().path().to_owned();
            let message = read(request.into_body()).await?;
            let head = Response::builder()
                .header("content-type", "application/grpc")
                .body(())?;
            let mut body = respond.send_response(head, false)?;
            let answer = [path.as_bytes(), b" ", &message].concat();
            body.send_data(frame(&answer), false)?;
            let trailers = HeaderMap::from_iter([("grpc-status".parse()?, HeaderValue::from_static("0"))]);
            body.send_trailers(trailers)?;
            anyhow::Ok(())
        });
    }
    Ok(())
}

/// Makes a call with one message and gives the one that comes back.
pub(crate) fn call(gateway: SocketAddr, host: &str, method: &str, message: &[u8]) -> Result<String> {
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let (mut client, connection) = h2::client::handshake(TcpStream::connect(gateway).await?).await?;
        // It ends with the runtime.
        tokio::spawn(connection);
        let request = Request::post(format!("http://{host}{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        let (response, mut body) = client.send_request(request, false)?;
        body.send_data(frame(message), true)?;
        let response = response.await?;
        ensure!(response.status() == 200, "status {}", response.status());
        // A call that never reached a backend has its status beside the head.
        let refused = response.headers().get("grpc-status");
        ensure!(refused.is_none(), "refused: {:?}", response.headers());
        let mut body = response.into_body();
        let message = read_stream(&mut body).await?;
        let trailers = body.trailers().await?.context("no trailers")?;
        ensure!(trailers.get("grpc-status").is_some_and(|s| s == "0"), "{trailers:?}");
        Ok(String::from_utf8(message)?)
    })
}

/// A call over HTTP/1.1 with content in the framing of gRPC-Web; the answer is wanted in the same form.
pub(crate) fn call_from_script(
    gateway: SocketAddr,
    host: &str,
    media_type: &str,
    content: &[u8],
) -> Result<e2e::http::Response> {
    let mut stream = e2e::http::connect(gateway)?;
    let length = content.len();
    write!(
        stream,
        "POST /shop.Cart/Add HTTP/1.1\r\nhost: {host}\r\ncontent-type: {media_type}\r\naccept: {media_type}\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n"
    )?;
    stream.write_all(content)?;
    e2e::http::read_response(&mut BufReader::new(stream))
}

/// The frames of gRPC-Web in content, each its flags and what it holds.
pub(crate) fn frames(mut content: &[u8]) -> Result<Vec<(u8, String)>> {
    let mut found = Vec::new();
    while let Some((head, rest)) = content.split_first_chunk::<5>() {
        let length = usize::try_from(u32::from_be_bytes([head[1], head[2], head[3], head[4]]))?;
        let (inside, behind) = rest.split_at_checked(length).context("a frame that was cut")?;
        found.push((head[0], String::from_utf8(inside.to_vec())?));
        content = behind;
    }
    ensure!(content.is_empty(), "{content:?} behind the last frame");
    Ok(found)
}

/// Base64 that may be padded anywhere (gRPC-Web protocol, `application/grpc-web-text`).
pub(crate) fn decode(text: &[u8]) -> Result<Vec<u8>> {
    let groups = text.chunks(4).map(|group| Ok(STANDARD.decode(group)?));
    Ok(groups.collect::<Result<Vec<_>>>()?.concat())
}

/// A message with its five bytes of prefix.
pub(crate) fn frame(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], message].concat().into()
}

async fn read(mut body: h2::RecvStream) -> Result<Vec<u8>> {
    read_stream(&mut body).await
}

async fn read_stream(body: &mut h2::RecvStream) -> Result<Vec<u8>> {
    let mut bytes = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        bytes.extend_from_slice(&data);
    }
    ensure!(bytes.len() >= 5, "a message without prefix");
    bytes.advance(5);
    Ok(bytes.to_vec())
}
