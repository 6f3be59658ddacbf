//! Trailers in HTTP/1, and names of fields as they were written: what passes is said by both sides.

use crate::bench::{Bench, cluster, data_planes, endpoint, listen};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

const OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
const PRESERVE: &str = "type.googleapis.com/envoy.extensions.http.header_formatters.preserve_case.v3";

/// A message in chunks, with a field and a trailer.
fn chunked(start: &str, field: &str) -> String {
    format!("{start}\r\n{field}: 1\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n")
}

/// Reads to the end of a message in chunks.
fn read(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    while !(text.contains("\r\n0\r\n") && text.ends_with("\r\n\r\n")) {
        let mut byte = [0];
        if let Err(error) = stream.read_exact(&mut byte) {
            panic!("{error} behind {text:?}");
        }
        text.push(byte[0].into());
    }
    text
}

/// A backend that answers with a trailer, and tells in a field which of what it was sent it has seen.
fn telling() -> SocketAddr {
    listen(|mut stream| {
        let asked = read(&mut stream);
        let seen = |text: &str| asked.contains(text);
        // It serves one request a connection, and nobody else may take the next one there.
        let saw = format!(
            "connection: close\r\nx-saw: {} {}",
            seen("\r\nX-Mine: 1"),
            seen("\r\nx-sum: 7")
        );
        let _ = stream.write_all(chunked(&format!("HTTP/1.1 200 OK\r\n{saw}"), "X-Own").as_bytes());
    })
}

fn options() -> Value {
    let formatter =
        json!({"name": "case", "typed_config": {"@type": format!("{PRESERVE}.PreserveCaseFormatterConfig")}});
    json!({"enable_trailers": true, "header_key_format": {"stateful_formatter": formatter}})
}

#[test]
fn trailers_and_names_pass_as_far_as_both_sides_let_them() {
    let backend = telling();
    let mut passing = cluster("passing", &[endpoint(backend)]);
    passing["typed_extension_protocol_options"] = json!({OPTIONS: {
        "@type": format!("type.googleapis.com/{OPTIONS}"),
        "explicit_http_config": {"http_protocol_options": options()},
    }});
    let clusters = [passing, cluster("plain", &[endpoint(backend)])];
    let listener = |cluster: &str, options: Value| {
        json!({
            "http_protocol_options": options,
            "route_config": {"name": "r", "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
                {"match": {"prefix": "/"}, "route": {"cluster": cluster}},
            ]}]},
        })
    };
    let listeners = [
        ("both", listener("passing", options())),
        ("clients", listener("plain", options())),
        ("backends", listener("passing", json!({}))),
        ("nobody", listener("plain", json!({}))),
    ];
    for (name, plane) in data_planes() {
        let bench = Bench::with_clusters(&clusters, &plane, "x-edge", &listeners);
        // What the backend sees of a name and a trailer, and what the client does.
        for (listener, saw, got) in [
            ("both", "true true", [true, true]),
            ("clients", "true false", [false, false]),
            ("backends", "false false", [true, false]),
            ("nobody", "false false", [false, false]),
        ] {
            let mut stream = bench.connect(listener);
            let request = chunked("POST / HTTP/1.1\r\nhost: h", "X-Mine");
            stream.write_all(request.as_bytes()).unwrap();
            let answer = read(&mut stream);
            assert!(
                answer.contains(&format!("x-saw: {saw}\r\n")),
                "{name}, {listener}: {answer}"
            );
            let has = [answer.contains("\r\nX-Own: 1\r\n"), answer.contains("\r\nx-sum: 7\r\n")];
            assert_eq!(has, got, "{name}, {listener}: {answer}");
        }
    }
}
