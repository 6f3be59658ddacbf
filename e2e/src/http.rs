//! A small HTTP/1.1 client: one request a connection, over anything that reads and writes, or many on one that stays.
//!
//! Tests look at what is on the wire, so nothing is added, followed, decoded or corrected here.

use anyhow::{Context, Result, bail};
use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Longest wait for any one read.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Headers as sent, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, without transfer coding.
    pub body: Vec<u8>,
}

impl Response {
    /// First value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("no JSON in {}: {}", self.status, String::from_utf8_lossy(&self.body)))
    }
}

/// A request to send.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Method.
    pub method: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// Host header.
    pub host: &'a str,
    /// Further headers.
    pub headers: &'a [(&'a str, &'a str)],
}

impl<'a> Request<'a> {
    /// A GET.
    pub fn get(host: &'a str, path: &'a str) -> Self {
        Self {
            method: "GET",
            path,
            host,
            headers: &[],
        }
    }
}

/// Sends a request on a connection of its own.
pub fn send(address: SocketAddr, request: &Request<'_>) -> Result<Response> {
    exchange(connect(address)?, request)
}

/// A connection with timeouts set.
pub fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a request and reads the answer. The connection ends with it.
pub fn exchange(mut stream: impl Read + Write, request: &Request<'_>) -> Result<Response> {
    stream.write_all(head(request, "connection: close\r\n").as_bytes())?;
    stream.flush()?;
    read_response(&mut BufReader::new(stream))
}

/// A request as it is sent, with further lines before its own headers.
fn head(request: &Request<'_>, lines: &str) -> String {
    let Request {
        method,
        path,
        host,
        headers,
    } = request;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{lines}");
    for (name, value) in *headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head
}

/// A connection that is kept open from one request to the next.
#[derive(Debug)]
pub struct KeptOpen(BufReader<TcpStream>);

impl KeptOpen {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        connect(address).map(|stream| Self(BufReader::new(stream)))
    }

    /// Sends a request and reads the answer; none where the other end has closed the connection.
    pub fn send(&mut self, request: &Request<'_>) -> Result<Option<Response>> {
        let sent = self.0.get_mut().write_all(head(request, "").as_bytes());
        match sent.and_then(|()| self.0.fill_buf().map(<[u8]>::is_empty)) {
            Ok(false) => read_response(&mut self.0).map(Some),
            Ok(true) => Ok(None),
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Reads one answer.
pub fn read_response(stream: &mut impl BufRead) -> Result<Response> {
    let first = read_line(stream)?;
    let mut words = first.splitn(3, ' ');
    let status = match (words.next(), words.next().map(str::parse)) {
        (Some("HTTP/1.1"), Some(Ok(status))) => status,
        _ => bail!("not an HTTP/1.1 answer: {first:?}"),
    };
    let mut headers = Vec::new();
    loop {
        let line = read_line(stream)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line
            .split_once(':')
            .with_context(|| format!("not a header: {line:?}"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut response = Response {
        status,
        headers,
        body: Vec::new(),
    };
    response.body = read_body(stream, &response)?;
    Ok(response)
}

fn read_body(stream: &mut impl BufRead, head: &Response) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    if head.status < 200 || matches!(head.status, 204 | 304) {
        return Ok(body);
    }
    if head
        .header("transfer-encoding")
        .is_some_and(|coding| coding.contains("chunked"))
    {
        loop {
            let size = read_line(stream)?;
            let size = usize::from_str_radix(size.split(';').next().unwrap_or_default(), 16)?;
            let start = body.len();
            body.resize(start + size, 0);
            stream.read_exact(&mut body[start..])?;
            read_line(stream)?;
            if size == 0 {
                return Ok(body);
            }
        }
    }
    match head.header("content-length") {
        Some(length) => {
            body.resize(length.parse()?, 0);
            stream.read_exact(&mut body)?;
        }
        None => {
            stream.read_to_end(&mut body)?;
        }
    }
    Ok(body)
}

fn read_line(stream: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        bail!("the connection ended early");
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Response> {
        read_response(&mut text.as_bytes())
    }

    #[test]
    fn a_body_of_known_length_is_read() {
        let response = read("HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 2\r\n\r\nhi, and more").unwrap();
        assert_eq!((response.status, response.body.as_slice()), (200, &b"hi"[..]));
        assert_eq!(response.header("server"), Some("x"));
    }

    #[test]
    fn chunks_are_put_together() {
        let response = read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n\r\n");
        assert_eq!(response.unwrap().body, b"abcd");
    }

    #[test]
    fn an_answer_that_ends_early_is_an_error() {
        assert!(read("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc").is_err());
        assert!(read("HTTP/1.1 200").is_err());
        assert!(read("SSH-2.0\r\n\r\n").is_err());
    }
}
