//! How connections in HTTP/2 end: announced twice by GOAWAY (RFC 9113 §6.8), and closed though the client says nothing.

use crate::bench::{Bench, data_planes};
use e2e::held::Held;
use serde_json::json;
use std::{
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, TcpStream},
};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// END_STREAM and END_HEADERS.
const WHOLE: u8 = 5;
const LARGEST_STREAM: u32 = (1 << 31) - 1;

/// A frame of HTTP/2.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
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

/// All frames until the connection ends.
fn rest(stream: &mut TcpStream) -> Vec<(u8, Vec<u8>)> {
    std::iter::from_fn(|| next(stream)).collect()
}

/// The last stream and the code of every GOAWAY among frames.
fn farewells(frames: &[(u8, Vec<u8>)]) -> Vec<(u32, u32)> {
    let number = |payload: &[u8], at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
    let farewells = frames.iter().filter(|(kind, _)| *kind == GOAWAY);
    farewells
        .map(|(_, payload)| (number(payload, 0), number(payload, 4)))
        .collect()
}

/// What a client begins a connection with.
fn opening() -> Vec<u8> {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    [&preface[..], &frame(SETTINGS, 0, 0, &[])].concat()
}

/// `GET / HTTP/2` of the authority `h` on stream 1, by the static table of RFC 7541.
fn request() -> Vec<u8> {
    frame(HEADERS, WHOLE, 1, &[0x82, 0x86, 0x84, 0x41, 1, b'h'])
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
    let (opening, request) = (opening(), request());
    for (name, plane) in data_planes() {
        let bench = Bench::start(&plane, "x-envoy", &listeners);
        for listener in ["idle", "old"] {
            let mut silent = bench.connect(listener);
            silent.write_all(&opening).unwrap();
            assert_eq!(
                farewells(&rest(&mut silent)),
                [(LARGEST_STREAM, 0), (0, 0)],
                "{name}, {listener}: nothing was asked"
            );
            let mut served = bench.connect(listener);
            served.write_all(&opening).unwrap();
            served.write_all(&request).unwrap();
            assert_eq!(
                farewells(&rest(&mut served)),
                [(LARGEST_STREAM, 0), (1, 0)],
                "{name}, {listener}: one request was answered"
            );
        }
    }
}

#[test]
fn a_drain_is_announced_and_streams_in_flight_finish() {
    let settings = json!({"drain_timeout": "0.1s", "delayed_close_timeout": "0.1s"});
    for (name, plane) in data_planes() {
        let backend = Held::start().unwrap();
        let address = (Ipv4Addr::LOCALHOST, backend.port).into();
        let bench = Bench::in_front_of(address, &plane, "x-envoy", &[("drained", settings.clone())]);
        let mut client = bench.connect("drained");
        client.write_all(&opening()).unwrap();
        client.write_all(&request()).unwrap();
        let in_flight = backend.request().unwrap();
        bench.order("/drain_listeners?graceful&skip_exit");
        in_flight.answer().unwrap();
        let frames = rest(&mut client);
        assert_eq!(farewells(&frames), [(LARGEST_STREAM, 0), (1, 0)], "{name}");
        let content = frames.iter().filter(|(kind, _)| *kind == DATA);
        let content: Vec<u8> = content.flat_map(|(_, payload)| payload.clone()).collect();
        assert_eq!(content, b"ok", "{name}: the stream was answered");
    }
}
