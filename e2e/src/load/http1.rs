//! Requests over HTTP/1.1 keep-alive connections: many on some, or one each on very many that then rest.

use super::{Extent, Quota, Summary, since};
use anyhow::{Context, Result, bail};
use std::{net::SocketAddr, sync::Arc, time::Instant};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

/// What a request says besides its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// Nothing.
    None,
    /// What a browser says of itself and of what it takes.
    Browser,
}

const BROWSER: &str = "user-agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
    accept-language: en-GB,en;q=0.7,de;q=0.3\r\n\
    accept-encoding: gzip, deflate, br, zstd\r\n\
    referer: http://app.example.com/catalogue/shoes?page=2\r\n\
    cookie: session=8f9a7b6c5d4e3f2a1b0c9d8e; theme=dark; consent=all\r\n\
    upgrade-insecure-requests: 1\r\n\
    sec-fetch-dest: document\r\n\
    sec-fetch-mode: navigate\r\n\
    sec-fetch-site: same-origin\r\n\
    priority: u=0, i\r\n\
    cache-control: max-age=0\r\n";

/// A request.
pub fn request(host: &str, path: &str, fields: Fields) -> Arc<str> {
    let fields = match fields {
        Fields::None => "",
        Fields::Browser => BROWSER,
    };
    format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{fields}\r\n").into()
}

/// Keeps `connections` connections busy.
pub async fn run(address: SocketAddr, request: Arc<str>, connections: usize, extent: Extent) -> Result<Summary> {
    let quota = Arc::new(Quota::of(extent));
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        tasks.spawn(drive(address, Arc::clone(&request), Arc::clone(&quota)));
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

/// One connection until enough is done; the latency of every exchange in nanoseconds.
async fn drive(address: SocketAddr, request: Arc<str>, quota: Arc<Quota>) -> Result<Vec<u32>> {
    let mut stream = connect(address).await?;
    let mut buffer = vec![0; 256 * 1024];
    let mut latencies = Vec::new();
    loop {
        let start = Instant::now();
        if !quota.take(start) {
            return Ok(latencies);
        }
        ask(&mut stream, &request, &mut buffer).await?;
        latencies.push(since(start));
    }
}

/// Opens connections one after the other, asks once on each, and gives them, open and idle.
pub async fn hold(address: SocketAddr, request: &str, connections: usize) -> Result<Vec<TcpStream>> {
    let mut buffer = vec![0; 256 * 1024];
    let mut held = Vec::with_capacity(connections);
    for _ in 0..connections {
        let mut stream = connect(address).await?;
        ask(&mut stream, request, &mut buffer).await?;
        held.push(stream);
    }
    Ok(held)
}

async fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn ask(stream: &mut TcpStream, request: &str, buffer: &mut [u8]) -> Result<()> {
    stream.write_all(request.as_bytes()).await?;
    read_answer(stream, buffer).await
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
    use crate::load::backend;
    use std::time::Duration;

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
        let server = tokio::spawn(backend::http1(address, 100_000));
        while TcpStream::connect(address).await.is_err() {
            tokio::task::yield_now().await;
        }
        let plain = request("x", "/", Fields::None);
        let time = Extent::Time(Duration::from_millis(50));
        let summary = run(address, plain, 4, time).await.unwrap();
        assert!(summary.requests > 4 && summary.errors == 0, "{summary:?}");
        assert!(summary.p50 <= summary.p99);
        let browser = request("x", "/", Fields::Browser);
        let summary = run(address, Arc::clone(&browser), 4, Extent::Requests(10))
            .await
            .unwrap();
        assert_eq!((summary.requests, summary.errors), (10, 0));
        assert_eq!(hold(address, &browser, 3).await.unwrap().len(), 3);
        server.abort();
    }
}
