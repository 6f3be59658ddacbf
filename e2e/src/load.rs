//! A load generator and a backend that cost little themselves: fixed bytes out, responses counted by their length.
//!
//! Closed loop: each connection has one request in flight. Latencies are of the whole exchange. Neither side parses
//! more than it must, so that the proxy between them is what a measurement sees.

use anyhow::{Context, Result, bail};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// What a run found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Finished exchanges.
    pub requests: u64,
    /// Connections that broke, and answers other than 200.
    pub errors: u64,
    /// Median latency.
    pub p50: Duration,
    /// 99th percentile of latency.
    pub p99: Duration,
}

/// Answers every request on a port with `bytes` bytes, for ever.
pub async fn backend(address: SocketAddr, bytes: usize) -> Result<()> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("can't listen on {address}"))?;
    let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n").into_bytes();
    answer.resize(answer.len() + bytes, b'x');
    let answer: std::sync::Arc<[u8]> = answer.into();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answer = std::sync::Arc::clone(&answer);
        // An error here is the peer hanging up.
        tokio::spawn(async move { answer_all(stream, &answer).await });
    }
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

/// Keeps `connections` connections busy for a while.
pub async fn run(address: SocketAddr, host: &str, connections: usize, time: Duration) -> Result<Summary> {
    let end = Instant::now() + time;
    let request: std::sync::Arc<str> = format!("GET /x HTTP/1.1\r\nhost: {host}\r\n\r\n").into();
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        tasks.spawn(drive(address, std::sync::Arc::clone(&request), end));
    }
    let mut summary = Summary::default();
    let mut latencies: Vec<u32> = Vec::new();
    while let Some(outcome) = tasks.join_next().await {
        match outcome? {
            Ok(list) => latencies.extend(list),
            Err(_) => summary.errors += 1,
        }
    }
    if latencies.is_empty() {
        bail!("no request was answered");
    }
    latencies.sort_unstable();
    let at = |percent: usize| Duration::from_nanos(latencies[(latencies.len() - 1) * percent / 100].into());
    summary.requests = latencies.len() as u64;
    summary.p50 = at(50);
    summary.p99 = at(99);
    Ok(summary)
}

/// One connection until the time is up; the latency of every exchange in nanoseconds.
async fn drive(address: SocketAddr, request: std::sync::Arc<str>, end: Instant) -> Result<Vec<u32>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 256 * 1024];
    let mut latencies = Vec::new();
    loop {
        let start = Instant::now();
        if start >= end {
            return Ok(latencies);
        }
        stream.write_all(request.as_bytes()).await?;
        read_answer(&mut stream, &mut buffer).await?;
        latencies.push(u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
}

/// Reads one answer with a content-length and drops it.
async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    let total = loop {
        let n = stream.read(&mut buffer[filled..]).await?;
        if n == 0 {
            bail!("the connection ended");
        }
        filled += n;
        if let Some(head) = buffer[..filled].windows(4).position(|w| w == b"\r\n\r\n") {
            break head + 4 + content_length(&buffer[..head])?;
        }
    };
    while filled < total {
        let n = stream.read(buffer).await?;
        if n == 0 {
            bail!("the connection ended");
        }
        filled += n;
    }
    Ok(())
}

/// Length of the body of a 200.
fn content_length(head: &[u8]) -> Result<usize> {
    let head = std::str::from_utf8(head)?;
    if !head.starts_with("HTTP/1.1 200") {
        bail!("not a 200: {head}");
    }
    let line = head.lines().find(|l| {
        l.get(..15)
            .is_some_and(|name| name.eq_ignore_ascii_case("content-length:"))
    });
    Ok(line.context("no content-length")?[15..].trim().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_read_from_a_200_only() {
        assert_eq!(
            content_length(b"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 12").unwrap(),
            12
        );
        assert!(content_length(b"HTTP/1.1 503 No\r\ncontent-length: 1").is_err());
        assert!(content_length(b"HTTP/1.1 200 OK").is_err());
    }

    #[tokio::test]
    async fn load_and_backend_understand_each_other() {
        let address = format!("127.0.0.1:{}", crate::ports::free::<1>().unwrap()[0])
            .parse()
            .unwrap();
        let server = tokio::spawn(backend(address, 100_000));
        while TcpStream::connect(address).await.is_err() {
            tokio::task::yield_now().await;
        }
        let summary = run(address, "x", 4, Duration::from_millis(50)).await.unwrap();
        assert!(summary.requests > 4 && summary.errors == 0, "{summary:?}");
        assert!(summary.p50 <= summary.p99);
        server.abort();
    }
}
