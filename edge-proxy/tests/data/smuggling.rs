//! Requests whose framing is ambiguous (RFC 9112 §6.3) or whose head is malformed: what the backend gets must be
//! exactly what was routed.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Backend, Proxy, run, simple};

/// Sends bytes, reads until the proxy closes or `replies` heads have come, and returns the status codes.
async fn exchange(proxy: &Proxy, bytes: &[u8], replies: usize) -> Vec<u16> {
    let mut stream = TcpStream::connect(proxy.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read);
        let statuses: Vec<u16> = text
            .split("HTTP/1.")
            .skip(1)
            .filter_map(|rest| rest.get(2..5)?.parse().ok())
            .collect();
        if statuses.len() >= replies && text.ends_with('\n') || text.ends_with("seen") && statuses.len() >= replies {
            return statuses;
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return statuses,
            Ok(n) => read.extend_from_slice(&buffer[..n]),
        }
    }
}

#[test]
fn ambiguous_framing_never_reaches_the_backend() {
    run(async {
        let backend = Backend::named("seen").await;
        let proxy = Proxy::start(simple(backend.address));
        for (name, head, body) in [
            ("two lengths", "content-length: 3\r\ncontent-length: 4\r\n", "abcd"),
            ("a list of lengths", "content-length: 3, 4\r\n", "abcd"),
            ("a signed length", "content-length: +3\r\n", "abc"),
            ("a negative length", "content-length: -1\r\n", ""),
            ("a hexadecimal length", "content-length: 0x3\r\n", "abc"),
            ("an empty length", "content-length:\r\n", "abc"),
            (
                "a length that overflows",
                "content-length: 99999999999999999999\r\n",
                "",
            ),
            (
                "a coding besides chunked",
                "transfer-encoding: gzip, chunked\r\n",
                "0\r\n\r\n",
            ),
            (
                "chunked not last",
                "transfer-encoding: chunked, identity\r\n",
                "0\r\n\r\n",
            ),
            ("an unknown coding", "transfer-encoding: xchunked\r\n", "0\r\n\r\n"),
            (
                "two codings",
                "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
                "0\r\n\r\n",
            ),
            ("a space before the colon", "content-length : 3\r\n", "abc"),
            (
                "a folded line",
                "x: a\r\n b\r\ntransfer-encoding: chunked\r\n",
                "0\r\n\r\n",
            ),
            ("a NUL in a value", "x: a\0b\r\n", ""),
            ("two hosts", "host: other\r\n", ""),
            ("a space in the host", "x: y\r\n", ""),
        ] {
            let host = if name == "a space in the host" { "h h" } else { "h" };
            let request = format!("POST / HTTP/1.1\r\nhost: {host}\r\n{head}\r\n{body}");
            let statuses = exchange(&proxy, request.as_bytes(), 1).await;
            let coding = head.contains("transfer-encoding") && !head.starts_with("x:");
            assert_eq!(statuses, [if coding { 501 } else { 400 }], "{name}");
            assert_eq!(backend.requests(), 0, "{name}");
        }
    });
}

#[test]
fn malformed_requests_are_refused() {
    run(async {
        let backend = Backend::named("seen").await;
        let proxy = Proxy::start(simple(backend.address));
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.0\r\nhost: h\r\n\r\n", 426),
            ("GET / HTTP/1.1\r\nhost: user@h\r\n\r\n", 400),
            ("GET http://a/ HTTP/1.1\r\n\r\n", 400),
            ("G@T / HTTP/1.1\r\nhost: h\r\n\r\n", 400),
            ("GET /a b HTTP/1.1\r\nhost: h\r\n\r\n", 400),
            ("GET  / HTTP/1.1\r\nhost: h\r\n\r\n", 400),
            ("GET /a#b HTTP/1.1\r\nhost: h\r\n\r\n", 400),
            ("GET * HTTP/1.1\r\nhost: h\r\n\r\n", 400),
            ("GET ftp://h/ HTTP/1.1\r\nhost: h\r\n\r\n", 400),
            ("GET / HTTP/2.0\r\nhost: h\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nhost: h\r\nx: a\rb\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nhost: h\r\nx@y: a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nhost: h\r\n: a\r\n\r\n", 400),
            ("CONNECT h:443 HTTP/1.1\r\nhost: h\r\n\r\n", 404),
        ] {
            assert_eq!(exchange(&proxy, request.as_bytes(), 1).await, [status], "{request:?}");
        }
        assert_eq!(backend.requests(), 0);
    });
}

#[test]
fn length_and_chunked_together_are_refused_and_so_is_what_follows() {
    run(async {
        let backend = Backend::named("seen").await;
        let proxy = Proxy::start(simple(backend.address));
        // By the length, the chunked body ends early and a request for /smuggled follows.
        let hidden = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: h\r\n\r\n";
        for head in [
            format!("content-length: {}\r\ntransfer-encoding: chunked\r\n", hidden.len()),
            format!("transfer-encoding: chunked\r\ncontent-length: {}\r\n", hidden.len()),
        ] {
            let request = format!("POST /real HTTP/1.1\r\nhost: h\r\n{head}\r\n{hidden}");
            assert_eq!(exchange(&proxy, request.as_bytes(), 2).await, [400]);
            assert_eq!(backend.requests(), 0);
        }
    });
}

#[test]
fn chunks_that_another_reader_may_see_otherwise_never_make_a_request() {
    run(async {
        let backend = Backend::named("seen").await;
        let proxy = Proxy::start(simple(backend.address));
        for body in [
            "0x3\r\nabc\r\n0\r\n\r\n",
            "-3\r\nabc\r\n0\r\n\r\n",
            "3\nabc\r\n0\r\n\r\n",
            "3;a\nb\r\nabc\r\n0\r\n\r\n",
            "3\r\nabc\n0\r\n\r\n",
            "3\r\nabcd\r\n0\r\n\r\n",
            "3\r\nabc0\r\n\r\n",
            "3\r\nabc\r\n0\r\nx: y\n\r\n",
            "3\r\nabc\r\n0\r\n x: y\r\n\r\n",
            "10000000000000003\r\nabc\r\n0\r\n\r\n",
        ] {
            let request = format!(
                "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n{body}GET /smuggled HTTP/1.1\r\nhost: h\r\n\r\n"
            );
            assert_eq!(exchange(&proxy, request.as_bytes(), 2).await, [400], "{body:?}");
            assert_eq!(backend.requests(), 0, "{body:?}");
        }
    });
}

#[test]
fn what_is_taken_reaches_the_backend_framed_anew_however_it_is_cut() {
    run(async {
        let backend = Backend::named("seen").await;
        let proxy = Proxy::start(simple(backend.address));
        for (request, length, coding, body) in [
            ("GET / HTTP/1.1\r\nhost: h\r\n\r\n", "", "", ""),
            ("GET / HTTP/1.1\nhost: h\n\n", "", "", ""),
            (
                "\r\nGET / HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n",
                "0",
                "",
                "",
            ),
            ("POST / HTTP/1.1\r\nhost: h\r\n\r\n", "0", "", ""),
            (
                "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 003\r\n\r\nabc",
                "3",
                "",
                "abc",
            ),
            (
                "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: CHUNKED\r\n\r\n2;x=y\r\nab\r\n01 \r\nc\r\n0\r\nx: y\r\n\r\n",
                "",
                "chunked",
                "abc",
            ),
            (
                "POST / HTTP/1.1\r\nhost: h\r\nconnection: content-length, transfer-encoding\r\ncontent-length: 3\r\n\r\nabc",
                "3",
                "",
                "abc",
            ),
        ] {
            for piece in [request.len(), 1, 7] {
                let mut stream = TcpStream::connect(proxy.address).await.unwrap();
                stream.set_nodelay(true).unwrap();
                let before = backend.requests();
                for piece in request.as_bytes().chunks(piece) {
                    stream.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
                let seen = backend.wait_for(before + 1).await;
                let field = |name: &str| seen.headers().get(name).map_or("", |value| value.to_str().unwrap());
                assert_eq!(
                    (field("content-length"), field("transfer-encoding"), &seen.body()[..]),
                    (length, coding, body.as_bytes()),
                    "{request:?} by {piece}"
                );
            }
        }
    });
}

#[test]
fn an_absolute_target_overrides_the_host() {
    run(async {
        let backend = Backend::named("seen").await;
        let proxy = Proxy::start(simple(backend.address));
        let request = "GET http://real.example/p?q HTTP/1.1\r\nhost: lie.example\r\n\r\n";
        assert_eq!(exchange(&proxy, request.as_bytes(), 1).await, [200]);
        let seen = backend.last();
        assert_eq!(
            (
                seen.uri().to_string().as_str(),
                seen.headers()["host"].to_str().unwrap()
            ),
            ("/p?q", "real.example")
        );
    });
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    run(async {
        let backend = Backend::named("seen").await;
        let proxy = Proxy::start(simple(backend.address));
        let one = "GET /1 HTTP/1.1\r\nhost: h\r\n\r\n";
        let two = "POST /2 HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\nabc";
        let three = "GET /3 HTTP/1.1\r\nhost: h\r\n\r\n";
        assert_eq!(
            exchange(&proxy, format!("{one}{two}{three}").as_bytes(), 3).await,
            [200, 200, 200]
        );
        assert_eq!(backend.last().uri(), "/3");
    });
}
