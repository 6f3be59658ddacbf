//! Backends that answer everything with the same bytes, over HTTP/1.1 and as a gRPC service.

use anyhow::{Context, Result};
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Response};
use std::{net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Answers every request on a port with `bytes` bytes, for ever.
pub async fn http1(address: SocketAddr, bytes: usize) -> Result<()> {
    let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n").into_bytes();
    answer.resize(answer.len() + bytes, b'x');
    let answer: Arc<[u8]> = answer.into();
    let listener = bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answer = Arc::clone(&answer);
        // An error here is the peer hanging up.
        tokio::spawn(async move { answer_all(stream, &answer).await });
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("can't listen on {address}"))
}

/// Requests have no body, so the end of one is an empty line. It may be split over two reads.
async fn answer_all(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    let mut filled = 0;
    loop {
        let n = stream.read(&mut buffer[filled..]).await?;
        if n == 0 {
            return Ok(());
        }
        filled += n;
        if buffer[..filled].ends_with(b"\r\n\r\n") {
            stream.write_all(answer).await?;
            filled = 0;
        } else if filled == buffer.len() {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
    }
}

/// A message of gRPC of so many bytes, not compressed, with the five bytes before it.
pub(super) fn grpc_message(bytes: usize) -> Bytes {
    let mut message = BytesMut::with_capacity(bytes + 5);
    message.put_u8(0);
    message.put_u32(u32::try_from(bytes).unwrap_or(u32::MAX));
    message.put_bytes(b'x', bytes);
    message.freeze()
}

/// Answers every call on a port with one message of `bytes` bytes, for ever.
pub async fn grpc(address: SocketAddr, bytes: usize) -> Result<()> {
    let message = grpc_message(bytes);
    let listener = bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let message = message.clone();
        tokio::spawn(async move { answer_calls(stream, message).await });
    }
}

async fn answer_calls(stream: TcpStream, message: Bytes) -> Result<(), h2::Error> {
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(1 << 20)
        .initial_connection_window_size(1 << 24)
        .max_concurrent_streams(1000);
    let mut connection = builder.handshake::<_, Bytes>(stream).await?;
    while let Some(call) = connection.accept().await {
        let (request, mut respond) = call?;
        let message = message.clone();
        tokio::spawn(async move {
            let mut body = request.into_body();
            while let Some(data) = body.data().await {
                body.flow_control().release_capacity(data?.len())?;
            }
            let mut head = Response::new(());
            let grpc = http::HeaderValue::from_static("application/grpc");
            head.headers_mut().insert(http::header::CONTENT_TYPE, grpc);
            let mut stream = respond.send_response(head, false)?;
            stream.send_data(message, false)?;
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
            stream.send_trailers(trailers)
        });
    }
    Ok(())
}
