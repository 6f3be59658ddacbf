//! The PROXY protocol: what is believed of a header, and what backends are told in one.

use crate::bench::{Bench, Socket, cluster, data_planes, endpoint, listen};
use e2e::http;
use serde_json::{Value, json};
use std::{
    io::{BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::mpsc,
};

const FILTER: &str = "type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol";
const SOCKET: &str =
    "type.googleapis.com/envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport";
const RBAC: &str = "type.googleapis.com/envoy.extensions.filters.network.rbac.v3.RBAC";
const TCP: &str = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
const RAW: &str = "type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer";

const REQUIRED: &str = "required";
const OPTIONAL: &str = "optional";
const BINARY: &str = "binary";
const PLAIN: &str = "plain";

/// A listener whose connections begin with a header.
fn expecting(name: &'static str, fields: &Value) -> Socket {
    let mut filter = fields.clone();
    filter["@type"] = FILTER.into();
    let filters = json!([{"name": "envoy.filters.listener.proxy_protocol", "typed_config": filter}]);
    Socket {
        listener: json!({"listener_filters": filters, "listener_filters_timeout": "1s"}),
        ..Socket::of(name)
    }
}

fn sockets() -> [Socket; 4] {
    [
        expecting(REQUIRED, &json!({})),
        expecting(OPTIONAL, &json!({"allow_requests_without_proxy_protocol": true})),
        expecting(BINARY, &json!({"disallowed_versions": ["V1"]})),
        Socket::of(PLAIN),
    ]
}

/// A header of version 2.
fn binary(kind: u8, family: u8, addresses: &[u8], values: &[u8]) -> Vec<u8> {
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    bytes.extend([kind, family]);
    bytes.extend(u16::try_from(addresses.len() + values.len()).unwrap().to_be_bytes());
    bytes.extend(addresses);
    bytes.extend(values);
    bytes
}

/// 192.0.2.1:5000 to 198.51.100.2:80.
const V4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0x13, 0x88, 0, 80];

/// 2001:db8::1 to 2001:db8::2.
fn v6() -> Vec<u8> {
    let mut address = [0; 16];
    address[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
    let one = |last| [&address[..15], &[last]].concat();
    [one(1), one(2), vec![0x13, 0x88, 0, 80]].concat()
}

/// Whom a request is for.
#[derive(Debug, PartialEq, Eq)]
enum Whose {
    /// This client's, that the header names.
    Of(&'static str),
    /// Of whoever has connected.
    Own,
    /// There was none: the connection was closed.
    Nobodys,
}
use Whose::{Nobodys, Of, Own};

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n";

fn whose(bench: &Bench, listener: &str, header: &[u8]) -> Whose {
    let mut stream = bench.connect(listener);
    // A proxy may have closed already.
    let _ = stream.write_all(&[header, GET].concat());
    let Ok(response) = http::read_response(&mut BufReader::new(stream)) else {
        return Nobodys;
    };
    assert_eq!(response.status, 200);
    let outcome = bench.seen();
    let told = outcome.fields("x-forwarded-for").join(",");
    let clients = ["192.0.2.1", "2001:db8::1"];
    clients.into_iter().find(|client| *client == told).map_or(Own, Of)
}

/// A header of version 1 for the same addresses as [`V4`].
const V1: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.2 5000 80\r\n";

/// A value of the type 4, which says nothing, of a length.
fn value(length: u16, value: &[u8]) -> Vec<u8> {
    [&[0x04], &length.to_be_bytes()[..], value].concat()
}

/// Listeners, headers, and whose the requests behind these are.
fn headers() -> Vec<(&'static str, Vec<u8>, Whose)> {
    vec![
        (REQUIRED, V1.to_vec(), Of("192.0.2.1")),
        (OPTIONAL, V1.to_vec(), Of("192.0.2.1")),
        (BINARY, V1.to_vec(), Nobodys),
        (
            REQUIRED,
            b"PROXY TCP6 2001:db8::1 2001:db8::2 5000 80\r\n".to_vec(),
            Of("2001:db8::1"),
        ),
        (REQUIRED, b"PROXY UNKNOWN\r\n".to_vec(), Own),
        (REQUIRED, b"PROXY UNKNOWN ffff:f::1 ::1 65535 65535\r\n".to_vec(), Own),
        (REQUIRED, binary(0x21, 0x11, &V4, &[]), Of("192.0.2.1")),
        (OPTIONAL, binary(0x21, 0x11, &V4, &[]), Of("192.0.2.1")),
        (BINARY, binary(0x21, 0x11, &V4, &[]), Of("192.0.2.1")),
        (REQUIRED, binary(0x21, 0x12, &V4, &[]), Of("192.0.2.1")),
        (REQUIRED, binary(0x21, 0x21, &v6(), &[]), Of("2001:db8::1")),
        (REQUIRED, binary(0x20, 0x00, &[], &[]), Own),
        (REQUIRED, binary(0x20, 0x11, &V4, &[1, 2]), Own),
        // Values that nobody has asked for.
        (REQUIRED, binary(0x21, 0x11, &V4, &value(3, b"abc")), Of("192.0.2.1")),
        (
            REQUIRED,
            binary(0x21, 0x11, &V4, &value(2000, &[7; 2000])),
            Of("192.0.2.1"),
        ),
        (
            REQUIRED,
            binary(0x21, 0x11, &V4, &[value(0, b""), value(1, b"x")].concat()),
            Of("192.0.2.1"),
        ),
        (REQUIRED, binary(0x21, 0x11, &V4, &[4, 0]), Nobodys),
        (REQUIRED, binary(0x21, 0x11, &V4, &value(4, b"abc")), Nobodys),
        (REQUIRED, Vec::new(), Nobodys),
        (OPTIONAL, Vec::new(), Own),
        (
            REQUIRED,
            b"PROXY TCP4 192.0.2.1 198.51.100.2 5000\r\n".to_vec(),
            Nobodys,
        ),
        (
            REQUIRED,
            b"PROXY TCP4 192.0.2.1  198.51.100.2 5000 80\r\n".to_vec(),
            Nobodys,
        ),
        (
            REQUIRED,
            b"PROXY TCP4 192.0.2.1 198.51.100.2 5000 65536\r\n".to_vec(),
            Nobodys,
        ),
        (REQUIRED, b"PROXY TCP4 ::1 ::2 5000 80\r\n".to_vec(), Nobodys),
        (
            REQUIRED,
            b"PROXY TCP4 0.0.0.0 198.51.100.2 5000 80\r\n".to_vec(),
            Nobodys,
        ),
        (
            REQUIRED,
            b"PROXY TCP4 224.0.0.1 198.51.100.2 5000 80\r\n".to_vec(),
            Nobodys,
        ),
        (
            REQUIRED,
            b"PROXY UDP4 192.0.2.1 198.51.100.2 5000 80\r\n".to_vec(),
            Nobodys,
        ),
        (
            OPTIONAL,
            b"PROXY UDP4 192.0.2.1 198.51.100.2 5000 80\r\n".to_vec(),
            Nobodys,
        ),
        (
            REQUIRED,
            format!("PROXY UNKNOWN {}\r\n", "f".repeat(120)).into_bytes(),
            Nobodys,
        ),
        (REQUIRED, binary(0x11, 0x11, &V4, &[]), Nobodys),
        (REQUIRED, binary(0x22, 0x11, &V4, &[]), Nobodys),
        (REQUIRED, binary(0x21, 0x31, &[0; 216], &[]), Nobodys),
        (REQUIRED, binary(0x21, 0x00, &[], &[]), Nobodys),
        (REQUIRED, binary(0x21, 0x11, &V4[..8], &[]), Nobodys),
    ]
}

#[test]
fn a_header_says_whose_a_connection_is() {
    for (name, plane) in data_planes() {
        let (backend, seen) = crate::bench::backend("ok");
        let clusters = [cluster("backend", &[endpoint(backend)])];
        let bench = Bench::with_sockets(&clusters, &plane, "x-envoy", &sockets()).reporting(seen);
        for (listener, header, expected) in headers() {
            let got = whose(&bench, listener, &header);
            assert_eq!(got, expected, "{name}, {listener}: {}", header.escape_ascii());
        }
    }
}

#[test]
fn a_header_may_come_byte_by_byte() {
    for (name, plane) in data_planes() {
        let (backend, seen) = crate::bench::backend("ok");
        let clusters = [cluster("backend", &[endpoint(backend)])];
        let bench = Bench::with_sockets(&clusters, &plane, "x-envoy", &sockets()).reporting(seen);
        for header in [V1.to_vec(), binary(0x21, 0x11, &V4, &value(3, b"abc"))] {
            for listener in [REQUIRED, OPTIONAL] {
                let mut stream = bench.connect(listener);
                for byte in header.iter().chain(GET) {
                    stream.write_all(&[*byte]).unwrap();
                }
                let response = http::read_response(&mut BufReader::new(stream)).unwrap();
                assert_eq!(response.status, 200, "{name}, {listener}");
                let seen = bench.seen();
                assert_eq!(seen.fields("x-forwarded-for"), ["192.0.2.1"], "{name}, {listener}");
            }
        }
    }
}

/// A listener for streams of whoever meets a condition, or of all others.
fn for_streams(action: &str, condition: &str, address: &str) -> Value {
    let range = json!({"address_prefix": address, "prefix_len": 24});
    let policy = json!({"permissions": [{"any": true}], "principals": [{condition: range}]});
    let rules = json!({"action": action, "policies": {"one": policy}});
    let mut listener = expecting("streams", &json!({"allow_requests_without_proxy_protocol": true})).listener;
    listener["filter_chains"] = json!([{"filters": [
        {"name": "rbac", "typed_config": {"@type": RBAC, "stat_prefix": "rbac", "rules": rules}},
        {"name": "tcp", "typed_config": {"@type": TCP, "stat_prefix": "tcp", "cluster": "backend"}},
    ]}]);
    listener
}

#[test]
fn rules_about_streams_look_at_whose_the_header_says_they_are() {
    let named = "PROXY TCP4 192.0.2.1 198.51.100.2 5000 80\r\n".as_bytes();
    for (name, plane) in data_planes() {
        let (backend, _seen) = crate::bench::backend("ok");
        let clusters = [cluster("backend", &[endpoint(backend)])];
        let listeners = [
            ("client in", for_streams("ALLOW", "remote_ip", "192.0.2.0")),
            ("client out", for_streams("DENY", "remote_ip", "192.0.2.0")),
            ("proxy in", for_streams("ALLOW", "remote_ip", "127.0.0.0")),
            ("source in", for_streams("ALLOW", "source_ip", "192.0.2.0")),
            ("peer in", for_streams("ALLOW", "direct_remote_ip", "127.0.0.0")),
            ("peer out", for_streams("DENY", "direct_remote_ip", "127.0.0.0")),
        ];
        let bench = Bench::with_listeners(&clusters, &plane, "x-envoy", &listeners);
        // Whether it is let in with a header, and without one.
        for (listener, with, without) in [
            ("client in", true, false),
            ("client out", false, true),
            ("proxy in", false, true),
            ("source in", true, false),
            ("peer in", true, true),
            ("peer out", false, false),
        ] {
            for (header, wanted) in [(named, with), (&b""[..], without)] {
                let mut stream = bench.connect(listener);
                // A proxy may have closed already.
                let _ = stream.write_all(&[header, GET].concat());
                let served = http::read_response(&mut BufReader::new(stream)).is_ok();
                assert_eq!(served, wanted, "{name}, {listener}: {}", header.len());
            }
        }
    }
}

#[test]
fn a_header_that_does_not_end_is_waited_for_no_longer_than_allowed() {
    for (name, plane) in data_planes() {
        let (backend, _) = crate::bench::backend("ok");
        let clusters = [cluster("backend", &[endpoint(backend)])];
        let bench = Bench::with_sockets(&clusters, &plane, "x-envoy", &sockets());
        for listener in [REQUIRED, OPTIONAL] {
            for part in [&b"PROXY TCP4 192.0.2.1 "[..], b"\r\n\r\n\0\r\nQUIT\n", b"PRO"] {
                let mut stream = bench.connect(listener);
                stream.write_all(part).unwrap();
                let mut rest = Vec::new();
                // A socket that is closed with bytes unread resets its connection.
                let ended = match stream.read_to_end(&mut rest) {
                    Ok(_) => true,
                    Err(error) => error.kind() == ErrorKind::ConnectionReset,
                };
                assert!(rest.is_empty() && ended, "{name}, {listener}");
            }
        }
    }
}

/// A backend that answers requests and reports the bytes that each connection begins with, up to the first request's
/// end.
fn recorder() -> (SocketAddr, mpsc::Receiver<Vec<u8>>) {
    let (report, seen) = mpsc::channel();
    (listen(move |stream| record(stream, &report)), seen)
}

fn record(mut stream: TcpStream, report: &mpsc::Sender<Vec<u8>>) {
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    let mut reported = false;
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        bytes.extend(&piece[..count]);
        if !bytes.ends_with(b"\r\n\r\n") || !bytes.windows(4).any(|four| four == b"GET ") {
            continue;
        }
        // A test that has ended listens no longer.
        if !reported && report.send(std::mem::take(&mut bytes)).is_err() {
            return;
        }
        reported = true;
        bytes.clear();
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

/// A request on a connection that stays.
fn ask(stream: &mut BufReader<TcpStream>) {
    stream.get_mut().write_all(GET).unwrap();
    assert_eq!(http::read_response(stream).unwrap().status, 200);
}

#[test]
fn backends_are_told_whose_a_connection_is() {
    for (name, plane) in data_planes() {
        for version in ["V1", "V2"] {
            let (backend, seen) = recorder();
            let mut upstream = cluster("backend", &[endpoint(backend)]);
            upstream["transport_socket"] = json!({"name": "envoy.transport_sockets.upstream_proxy_protocol",
                "typed_config": {"@type": SOCKET, "config": {"version": version},
                    "transport_socket": {"name": "envoy.transport_sockets.raw_buffer", "typed_config": {"@type": RAW}}}});
            let bench = Bench::with_sockets(&[upstream], &plane, "x-envoy", &sockets());
            let begins = || {
                let bytes = seen.recv_timeout(e2e::stack::PATIENCE).unwrap();
                let end = bytes.windows(5).position(|five| five == b"GET /").unwrap();
                bytes[..end].to_vec()
            };
            // What a proxy before said goes on.
            let mut proxied = BufReader::new(bench.connect(REQUIRED));
            let header = b"PROXY TCP4 192.0.2.1 198.51.100.2 5000 80\r\n";
            proxied.get_mut().write_all(header).unwrap();
            ask(&mut proxied);
            let expected = match version {
                "V1" => header.to_vec(),
                _ => binary(0x21, 0x11, &V4, &[]),
            };
            assert_eq!(begins(), expected, "{name}, {version}");
            // The client's next request goes the same way, another client's on a connection of its own.
            ask(&mut proxied);
            assert!(seen.try_recv().is_err(), "{name}, {version}: another connection");
            let mut plain = BufReader::new(bench.connect(PLAIN));
            ask(&mut plain);
            let (client, local) = (
                plain.get_ref().local_addr().unwrap().port(),
                bench.address(PLAIN).port(),
            );
            let expected = match version {
                "V1" => format!("PROXY TCP4 127.0.0.1 127.0.0.1 {client} {local}\r\n").into_bytes(),
                _ => {
                    let ports = [client.to_be_bytes(), local.to_be_bytes()].concat();
                    let addresses = [&[127, 0, 0, 1, 127, 0, 0, 1], &ports[..]].concat();
                    binary(0x21, 0x11, &addresses, &[])
                }
            };
            assert_eq!(begins(), expected, "{name}, {version}");
            ask(&mut proxied);
            assert!(seen.try_recv().is_err(), "{name}, {version}: another connection");
        }
    }
}
