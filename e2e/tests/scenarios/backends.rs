//! Backends of other protocols than the echo backend's: what comes back is what was sent, in capitals.

use anyhow::Result;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    sync::Arc,
    thread,
};

/// Answers each line over TCP. Gives its port; it lives as long as the test process.
pub(crate) fn tcp() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_lines(stream));
        }
    });
    Ok(port)
}

/// Says something to whoever connects, before it is told anything.
pub(crate) fn greeting(words: &'static [u8]) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(words);
        }
    });
    Ok(port)
}

/// The same inside TLS.
pub(crate) fn tls(config: &Arc<ServerConfig>) -> Result<u16> {
    inside_tls(config, answer_lines)
}

/// Answers each request without content inside TLS with 200.
pub(crate) fn http_over_tls(config: &Arc<ServerConfig>) -> Result<u16> {
    inside_tls(config, answer_requests)
}

/// A connection in TLS.
type Secured = StreamOwned<ServerConnection, TcpStream>;

fn inside_tls(config: &Arc<ServerConfig>, answer: fn(Secured)) -> Result<u16> {
    let config = Arc::clone(config);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            thread::spawn(move || {
                if let Ok(connection) = ServerConnection::new(config) {
                    answer(StreamOwned::new(connection, stream));
                }
            });
        }
    });
    Ok(port)
}

/// Answers each datagram.
pub(crate) fn udp() -> Result<u16> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = socket.local_addr()?.port();
    thread::spawn(move || {
        let mut buffer = [0; 1500];
        while let Ok((n, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..n].to_ascii_uppercase(), from);
        }
    });
    Ok(port)
}

fn answer_lines(stream: impl Read + Write) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while matches!(stream.read_until(b'\n', &mut line), Ok(n) if n > 0) {
        // A peer that has left isn't worth a word.
        let _ = stream.get_mut().write_all(&line.to_ascii_uppercase());
        let _ = stream.get_mut().flush();
        line.clear();
    }
}

fn answer_requests(stream: impl Read + Write) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while matches!(stream.read_until(b'\n', &mut line), Ok(n) if n > 0) {
        if line == b"\r\n" {
            let _ = stream
                .get_mut()
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
            let _ = stream.get_mut().flush();
        }
        line.clear();
    }
}

/// Sends a line and gives the line that comes back.
pub(crate) fn say(stream: impl Read + Write, words: &str) -> Result<String> {
    let mut stream = BufReader::new(stream);
    writeln!(stream.get_mut(), "{words}")?;
    stream.get_mut().flush()?;
    let mut answer = String::new();
    stream.read_line(&mut answer)?;
    Ok(answer.trim_end().to_owned())
}
