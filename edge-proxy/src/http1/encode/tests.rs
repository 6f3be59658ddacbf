use std::io::Read;

use http::uri::PathAndQuery;
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::message::head::Head;
use crate::message::outgoing::Extras;

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    fields
        .iter()
        .map(|(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

#[test]
fn a_request_is_framed_by_the_codec_alone() {
    let mut head = Head::empty();
    head.target = PathAndQuery::from_static("/p?q");
    head.authority = HeaderValue::from_static("h");
    head.headers = headers(&[
        ("host", "lie"),
        ("content-length", "9"),
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
        ("x-a", "1"),
    ]);
    let extras = |upgrade, te_trailers| Extras { upgrade, te_trailers };
    assert_eq!(
        text(|out| request_head(out, head.in_http1(extras(None, false)), BodyEncoder::Length(3))),
        "GET /p?q HTTP/1.1\r\nhost: h\r\nx-a: 1\r\ncontent-length: 3\r\n\r\n"
    );
    assert_eq!(
        text(|out| request_head(out, head.in_http1(extras(Some("websocket"), true)), BodyEncoder::Absent)),
        "GET /p?q HTTP/1.1\r\nhost: h\r\nx-a: 1\r\nte: trailers\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    );
}

#[test]
fn a_response_is_framed_by_the_codec_and_has_a_date() {
    let of = |status: u16, fields: &[(&'static str, &'static str)], encoder, stay| {
        let status = StatusCode::from_u16(status).unwrap();
        text(|out| {
            let headers = headers(fields);
            let head = ResponseLines {
                version: Version::HTTP_11,
                status,
                headers: &headers,
                spelling: None,
                stay,
            };
            response_head(out, head, encoder, b"date: now\r\n")
        })
    };
    assert_eq!(
        of(
            200,
            &[("content-length", "9"), ("connection", "x")],
            BodyEncoder::Chunked,
            Stay::Close
        ),
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ndate: now\r\nconnection: close\r\n\r\n"
    );
    assert_eq!(
        of(
            304,
            &[("content-length", "9"), ("date", "then")],
            BodyEncoder::Absent,
            Stay::Implied
        ),
        "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\ndate: then\r\n\r\n"
    );
    assert_eq!(
        of(
            204,
            &[("content-length", "9"), ("date", "then")],
            BodyEncoder::Absent,
            Stay::Implied
        ),
        "HTTP/1.1 204 No Content\r\ndate: then\r\n\r\n"
    );
    let upgrade = [("connection", "upgrade"), ("upgrade", "websocket"), ("date", "then")];
    assert_eq!(
        of(101, &upgrade, BodyEncoder::Absent, Stay::Switch),
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\ndate: then\r\n\r\n"
    );
}

#[test]
fn names_of_a_response_are_written_as_the_backend_wrote_them() {
    let mut spelling = Spelling::with_capacity(3);
    for written in ["X-Own", "Transfer-Encoding", "Connection"] {
        let name: header::HeaderName = written.parse().unwrap();
        spelling.insert(name, written.into());
    }
    let headers = headers(&[("x-own", "1"), ("x-added", "2"), ("date", "then")]);
    let head = ResponseLines {
        version: Version::HTTP_11,
        status: StatusCode::OK,
        headers: &headers,
        spelling: Some(&spelling),
        stay: Stay::Close,
    };
    assert_eq!(
        text(|out| response_head(out, head, BodyEncoder::Chunked, b"")),
        "HTTP/1.1 200 OK\r\nX-Own: 1\r\nx-added: 2\r\ndate: then\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    );
}

/// What arrives of what an outlet writes, through a socket with a small buffer.
fn written(fill: impl FnOnce(&mut Outlet) -> Vec<Result<(), WrongLength>>) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let reader = std::thread::spawn(move || {
            let mut stream = server.into_std().unwrap();
            stream.set_nonblocking(false).unwrap();
            let mut read = Vec::new();
            stream.read_to_end(&mut read).unwrap();
            read
        });
        let mut transport = Transport::Tcp(client);
        let mut outlet = Outlet::default();
        for result in fill(&mut outlet) {
            assert_eq!(result, Ok(()));
        }
        std::future::poll_fn(|cx| outlet.poll_write(&mut transport, cx))
            .await
            .unwrap();
        assert!(outlet.is_empty() && outlet.take_begun());
        drop(transport);
        reader.join().unwrap()
    })
}

#[test]
fn small_and_large_pieces_arrive_in_order() {
    let large = Bytes::from(vec![b'x'; 5_000_000]);
    let mut encoder = BodyEncoder::Chunked;
    let read = written(|outlet| {
        outlet.text().extend_from_slice(b"head ");
        vec![
            outlet.push(&mut encoder, Bytes::from("ab"), false),
            outlet.push(&mut encoder, Bytes::new(), false),
            outlet.push(&mut encoder, large.clone(), true),
        ]
    });
    let mut expected = b"head 2\r\nab\r\n4c4b40\r\n".to_vec();
    expected.extend_from_slice(&large);
    expected.extend_from_slice(b"\r\n0\r\n\r\n");
    assert!(read == expected, "{} bytes", read.len());
}

#[test]
fn a_body_is_as_long_as_announced_or_an_error() {
    let mut outlet = Outlet::default();
    let mut encoder = BodyEncoder::Length(3);
    assert_eq!(outlet.push(&mut encoder, Bytes::from("ab"), false), Ok(()));
    assert_eq!(outlet.finish(encoder, None), Err(WrongLength));
    assert_eq!(outlet.push(&mut encoder, Bytes::from("cd"), false), Err(WrongLength));
    let mut encoder = BodyEncoder::Length(3);
    assert_eq!(outlet.push(&mut encoder, Bytes::from("ab"), true), Err(WrongLength));
    assert_eq!(
        outlet.push(&mut BodyEncoder::Absent, Bytes::from("a"), true),
        Err(WrongLength)
    );
    let mut outlet = Outlet::default();
    let trailers = headers(&[("x-sum", "1")]);
    outlet.finish(BodyEncoder::Chunked, Some(&trailers)).unwrap();
    assert_eq!(outlet.text(), b"0\r\nx-sum: 1\r\n\r\n");
}

#[test]
fn close_is_asked_for_by_a_token() {
    assert!(asks_to_close(&headers(&[("connection", "x, Close")])));
    assert!(!asks_to_close(&headers(&[("connection", "closed")])));
    assert!(!asks_to_close(&HeaderMap::new()));
}
