//! What is asked for: methods, tunnels and schemes.

use crate::bench::{Bench, data_planes};
use e2e::http;
use serde_json::json;
use std::io::{BufReader, Write};

const USUAL: &str = "usual";
const CUSTOM: &str = "custom";

/// Those that clients may use unless the listener says more.
const KNOWN: [&str; 31] = [
    "ACL",
    "BIND",
    "CHECKOUT",
    "COPY",
    "DELETE",
    "GET",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MOVE",
    "NOTIFY",
    "OPTIONS",
    "PATCH",
    "POST",
    "PROPFIND",
    "PROPPATCH",
    "PURGE",
    "PUT",
    "REBIND",
    "REPORT",
    "SEARCH",
    "SOURCE",
    "SUBSCRIBE",
    "TRACE",
    "UNBIND",
    "UNLINK",
    "UNLOCK",
    "UNSUBSCRIBE",
];

#[test]
fn methods_that_nobody_knows_are_refused() {
    for (name, plane) in data_planes() {
        let custom = json!({"http_protocol_options": {"allow_custom_methods": true}});
        let bench = Bench::start(&plane, "x-envoy", &[(USUAL, json!({})), (CUSTOM, custom)]);
        let status = |listener: &str, method: &str| {
            let request = format!("{method} / HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n");
            bench.send(listener, &request).status
        };
        for method in KNOWN {
            assert_eq!(status(USUAL, method), 200, "{name}: {method}");
        }
        // Which is about content of some type.
        let query = "QUERY / HTTP/1.1\r\nhost: h\r\ncontent-type: text/plain\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(bench.send(USUAL, query).status, 200, "{name}");
        for method in ["get", "Get", "FROB"] {
            assert_eq!(status(USUAL, method), 400, "{name}: {method}");
        }
        for method in ["get", "FROB"] {
            assert_eq!(status(CUSTOM, method), 200, "{name}: {method}");
        }
    }
}

/// The status, and whether the next request on the connection is answered.
fn refused(bench: &Bench, head: &str) -> (u16, bool) {
    let mut stream = bench.connect(USUAL);
    let next = "GET /next HTTP/1.1\r\nhost: h\r\n\r\n";
    stream.write_all(format!("{head}\r\n\r\n{next}").as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let status = http::read_response(&mut stream).unwrap().status;
    (status, http::read_response(&mut stream).is_ok())
}

#[test]
fn bytes_behind_a_refused_connect_are_no_requests() {
    for (name, plane) in data_planes() {
        let bench = Bench::start(&plane, "x-envoy", &[(USUAL, json!({}))]);
        let connect = refused(&bench, "CONNECT h:443 HTTP/1.1\r\nhost: h:443");
        assert_eq!(connect, (404, false), "{name}");
    }
}

#[test]
fn the_scheme_is_what_the_listener_says() {
    for (name, plane) in data_planes() {
        let https = json!({"scheme_header_transformation": {"scheme_to_overwrite": "https"}});
        let told = json!({"via": "edge", "use_remote_address": false});
        let bench = Bench::start(&plane, "x-envoy", &[(USUAL, https), ("told", told)]);
        let request = "GET / HTTP/1.1\r\nhost: h\r\n\r\n";
        assert_eq!(
            bench.send(USUAL, request).fields("x-forwarded-proto"),
            ["https"],
            "{name}"
        );
        let request = "GET / HTTP/1.1\r\nhost: h\r\nvia: before\r\nx-forwarded-proto: ftp\r\n\r\n";
        let outcome = bench.send("told", request);
        assert_eq!(outcome.fields("via").join(", "), "before, edge", "{name}");
        if name == "Envoy" {
            assert_eq!(outcome.fields("x-forwarded-proto"), ["ftp"]);
        } else {
            assert_eq!(
                outcome.fields("x-forwarded-proto"),
                ["http"],
                "nothing else is spoken here"
            );
        }
    }
}
