//! Headers by which proxies tell each other something: a client must not be able to say them.

use crate::bench::{Bench, data_planes};
use serde_json::{Value, json};

/// Clients are strangers, they are trusted, or this proxy stands behind another.
const STRANGER: &str = "stranger";
const TRUSTED: &str = "trusted";
const BEHIND: &str = "behind";

fn listeners() -> Vec<(&'static str, Value)> {
    let local = json!({"cidr_ranges": [{"address_prefix": "127.0.0.0", "prefix_len": 8}]});
    let none = json!({"cidr_ranges": [{"address_prefix": "192.0.2.77", "prefix_len": 32}]});
    vec![
        (STRANGER, json!({"internal_address_config": none})),
        (TRUSTED, json!({"internal_address_config": local})),
        (
            BEHIND,
            json!({"internal_address_config": none, "use_remote_address": false}),
        ),
        (
            "forward only",
            json!({"internal_address_config": none, "forward_client_cert_details": "FORWARD_ONLY"}),
        ),
        (
            "always forward",
            json!({"internal_address_config": none, "forward_client_cert_details": "ALWAYS_FORWARD_ONLY"}),
        ),
    ]
}

fn request(fields: &[(&str, &str)]) -> String {
    let fields: String = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    format!("GET / HTTP/1.1\r\nhost: h\r\n{fields}\r\n")
}

/// Headers below the configured prefix, and to which backends a client's own value gets: those behind listeners for
/// strangers, for trusted clients, behind another proxy.
const PREFIXED: &[(&str, [bool; 3])] = &[
    ("decorator-operation", [false, true, true]),
    ("downstream-service-cluster", [false, true, true]),
    ("downstream-service-node", [false, true, true]),
    ("original-host", [false, true, true]),
    ("original-path", [false, true, true]),
    ("expected-rq-timeout-ms", [false, false, false]),
    ("force-trace", [false, true, false]),
    ("ip-tags", [false, true, false]),
    ("original-url", [false, true, false]),
    ("internal", [false, false, false]),
    ("external-address", [false, true, true]),
    ("hedge-on-per-try-timeout", [false, false, false]),
    ("max-retries", [false, false, false]),
    ("retriable-header-names", [false, false, false]),
    ("retriable-status-codes", [false, false, false]),
    ("retry-grpc-on", [false, false, false]),
    ("retry-on", [false, false, false]),
    ("upstream-alt-stat-name", [false, false, false]),
    ("upstream-rq-per-try-timeout-ms", [false, false, false]),
    ("upstream-rq-timeout-alt-response", [false, false, false]),
    ("upstream-rq-timeout-ms", [false, false, false]),
    ("upstream-stream-duration-ms", [false, false, false]),
    ("attempt-count", [true, true, true]),
];

#[test]
fn orders_to_the_proxy_stay_with_it() {
    for (name, plane) in data_planes() {
        for prefix in ["x-envoy", "x-edge"] {
            let bench = Bench::start(&plane, prefix, &listeners());
            for (suffix, passes) in PREFIXED {
                let field = format!("{prefix}-{suffix}");
                for (listener, passes) in [STRANGER, TRUSTED, BEHIND].into_iter().zip(passes) {
                    let outcome = bench.send(listener, &request(&[(&field, "54321")]));
                    assert_eq!(outcome.status, 200, "{name}, {listener}: {field}");
                    let passed = outcome.fields(&field).contains(&"54321");
                    assert_eq!(passed, *passes, "{name}, {listener}: {field}");
                }
            }
        }
    }
}

#[test]
fn nobody_forges_the_certificate_of_a_client() {
    for (name, plane) in data_planes() {
        let bench = Bench::start(&plane, "x-envoy", &listeners());
        let field = "x-forwarded-client-cert";
        for (listener, passes) in [
            (STRANGER, false),
            (TRUSTED, false),
            (BEHIND, false),
            // Only what comes over mutual TLS is forwarded.
            ("forward only", false),
            ("always forward", true),
        ] {
            for fields in [&[(field, "Hash=1")][..], &[(field, "Hash=1"), (field, "Hash=1")]] {
                let outcome = bench.send(listener, &request(fields));
                let passed = !outcome.fields(field).is_empty();
                assert_eq!((outcome.status, passed), (200, passes), "{name}, {listener}");
            }
        }
    }
}

#[test]
fn connection_does_not_take_away_who_asked_for_what() {
    for (name, plane) in data_planes() {
        let bench = Bench::start(&plane, "x-envoy", &listeners());
        for (value, status) in [
            ("x-forwarded-for", 400),
            ("close, X-Forwarded-Host", 400),
            ("x-forwarded-proto", 400),
            ("host", 400),
            (":path", 400),
            ("a,b,c,d,e,f,g,h,i,j", 400),
            ("a,b,c,d,e,f,g,h,i", 200),
            ("close", 200),
        ] {
            for listener in [STRANGER, TRUSTED, BEHIND] {
                let outcome = bench.send(listener, &request(&[("connection", value)]));
                let got = (outcome.status, outcome.seen.is_some());
                assert_eq!(got, (status, status == 200), "{name}, {listener}: {value}");
            }
        }
        for field in ["x-a", "x-forwarded-port", "cookie", "x-forwarded-client-cert"] {
            let outcome = bench.send("always forward", &request(&[("connection", field), (field, "1")]));
            assert!(outcome.fields(field).is_empty(), "{name}: {field}");
        }
    }
}

#[test]
fn backends_are_told_who_takes_trailers() {
    for (name, plane) in data_planes() {
        let bench = Bench::start(&plane, "x-envoy", &listeners());
        for (value, passed) in [
            ("trailers", &["trailers"][..]),
            ("gzip, trailers", &["trailers"]),
            ("gzip", &[]),
            ("gzip;q=0.5, trailers;q=0.5", &[]),
        ] {
            // It is the option that RFC 9110 §10.1.4 asks for, not one that takes the field away.
            for connection in ["close", "te"] {
                let outcome = bench.send(STRANGER, &request(&[("te", value), ("connection", connection)]));
                assert_eq!(outcome.fields("te"), passed, "{name}: {value}, {connection}");
                assert!(outcome.fields("connection").is_empty(), "{name}: {value}, {connection}");
            }
        }
    }
}

#[test]
fn empty_and_repeated_fields_say_nothing() {
    for (name, plane) in data_planes() {
        let bench = Bench::start(&plane, "x-envoy", &listeners());
        let forwarded = |values: &[&str]| {
            let fields: Vec<_> = values.iter().map(|value| ("x-forwarded-for", *value)).collect();
            let outcome = bench.send(STRANGER, &request(&fields));
            let line = outcome.fields("x-forwarded-for").join("|");
            // Envoy names an address of the machine where the client's is 127.0.0.1.
            let at = line.rfind(',').map_or(0, |at| at + 1);
            format!("{}ADDRESS", &line[..at])
        };
        assert_eq!(forwarded(&[""]), "ADDRESS", "{name}");
        assert_eq!(forwarded(&["1.1.1.1", ""]), "1.1.1.1,ADDRESS", "{name}");
        assert_eq!(forwarded(&["", "1.1.1.1"]), "1.1.1.1,ADDRESS", "{name}");
        let id = |listener, values: &[&str]| {
            let fields: Vec<_> = values.iter().map(|value| ("x-request-id", *value)).collect();
            bench.send(listener, &request(&fields)).fields("x-request-id").join("|")
        };
        for listener in [TRUSTED, BEHIND] {
            assert_eq!(id(listener, &["mine"]), "mine", "{name}");
            assert_eq!(id(listener, &[""]).len(), 36, "{name}");
        }
        assert_eq!(id(STRANGER, &["mine"]).len(), 36, "{name}");
        if name == "edge-proxy" {
            // Envoy sends "a,b".
            assert_eq!(id(TRUSTED, &["a", "b"]).len(), 36);
        }
    }
}
