//! The backend over real sockets.

use super::*;
use std::{
    io::{Read, Write},
    net::TcpStream,
};

/// Starts the backend on a free port of a runtime that lives as long as the test.
fn start() -> (tokio::runtime::Runtime, SocketAddr) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(serve(listener, Identity::default()));
    (runtime, address)
}

fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn json(answer: &str) -> serde_json::Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn a_request_comes_back_as_json() {
    let (_runtime, address) = start();
    let answer = exchange(
        address,
        "POST /a/b?c=d HTTP/1.1\r\nHost: www.example.com\r\nX-Twice: 1\r\nx-twice: 2\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
    );
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("x-content-type-options: nosniff\r\n"), "{answer}");
    let seen = json(&answer);
    assert_eq!(seen["path"], "/a/b?c=d");
    assert_eq!(seen["host"], "www.example.com");
    assert_eq!(seen["method"], "POST");
    assert_eq!(seen["proto"], "HTTP/1.1");
    assert_eq!(seen["bodyBytes"], 3);
    assert_eq!(seen["headers"]["X-Twice"], serde_json::json!(["1", "2"]));
}

#[test]
fn the_path_chooses_the_status() {
    let (_runtime, address) = start();
    let answer = exchange(
        address,
        "GET /status/418 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 418 "), "{answer}");
}

#[test]
fn http2_with_prior_knowledge_is_spoken_on_the_same_port() {
    let (_runtime, address) = start();
    let mut stream = TcpStream::connect(address).unwrap();
    // The client's preface and an empty SETTINGS frame (RFC 9113 §3.4); the server answers with its own SETTINGS.
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[3], 0x4, "the first frame must be SETTINGS");
}

#[test]
fn an_upgrade_to_websocket_is_accepted() {
    let (_runtime, address) = start();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, b"HTTP/1.1 101");
}
