//! How connections in HTTP/2 end: announced twice by GOAWAY (RFC 9113 §6.8), and closed though the client says nothing.

use crate::bench::{Bench, data_planes};
use serde_json::json;
use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
};

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// END_STREAM and END_HEADERS.
const WHOLE: u8 = 5;
const LARGEST_STREAM: u32 = (1 << 31) - 1;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The next frame, as its kind and payload; none when the connection has ended.
fn next(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    match stream.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => return None,
        Err(error) => panic!("the connection stays open: {error}"),
    }
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut payload).unwrap();
    Some((head[3], payload))
}

/// The last stream and the code of every GOAWAY until the connection ends.
fn farewells(stream: &mut TcpStream) -> Vec<(u32, u32)> {
    let number = |payload: &[u8], at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
    let frames = std::iter::from_fn(|| next(stream)).filter(|(kind, _)| *kind == GOAWAY);
    frames
        .map(|(_, payload)| (number(&payload, 0), number(&payload, 4)))
        .collect()
}

#[test]
fn connections_that_are_idle_or_old_end_politely() {
    let ends = |options| {
        json!({
            "common_http_protocol_options": options,
            "drain_timeout": "0.1s",
            "delayed_close_timeout": "0.1s",
        })
    };
    let listeners = [
        ("idle", ends(json!({"idle_timeout": "0.2s"}))),
        ("old", ends(json!({"max_connection_duration": "0.2s"}))),
    ];
    let mut opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    opening.extend(frame(SETTINGS, 0, 0, &[]));
    // `GET / HTTP/2` of the authority `h`, by the static table of RFC 7541.
    let request = frame(HEADERS, WHOLE, 1, &[0x82, 0x86, 0x84, 0x41, 1, b'h']);
    for (name, plane) in data_planes() {
        let bench = Bench::start(&plane, "x-envoy", &listeners);
        for listener in ["idle", "old"] {
            let mut silent = bench.connect(listener);
            silent.write_all(&opening).unwrap();
            assert_eq!(
                farewells(&mut silent),
                [(LARGEST_STREAM, 0), (0, 0)],
                "{name}, {listener}: nothing was asked"
            );
            let mut served = bench.connect(listener);
            served.write_all(&opening).unwrap();
            served.write_all(&request).unwrap();
            assert_eq!(
                farewells(&mut served),
                [(LARGEST_STREAM, 0), (1, 0)],
                "{name}, {listener}: one request was answered"
            );
        }
    }
}
