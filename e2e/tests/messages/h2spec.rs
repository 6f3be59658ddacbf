//! HTTP/2 by its specification: h2spec, as `e2e/services` builds it, sends what RFC 9113 and RFC 7541 allow and forbid.
//!
//! The bar is the specification and not Envoy, which passes 134 of its cases. Requests are held up for a moment, so
//! that what a case sends behind a request is there before its response: a stream that is over may be treated
//! otherwise.

use crate::{
    bench::{Bench, Socket, cluster, endpoint},
    certificates::TLS,
};
use e2e::{
    ports,
    process::Process,
    stack::{DataPlane, PATIENCE, program, service},
};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use std::{
    net::{Ipv4Addr, SocketAddr},
    process::Command,
};

/// How many cases it has: with fewer it wouldn't have looked.
const CASES: usize = 145;

/// What it prints of all cases of a listener.
fn judge(address: SocketAddr, path: &str, more: &[&str]) {
    let mut command = Command::new(service("h2spec").unwrap());
    command.args([
        "--host",
        &address.ip().to_string(),
        "--port",
        &address.port().to_string(),
    ]);
    // Seconds that it waits for what must come.
    command.args(["--timeout", "10", "--path", path]).args(more);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let expected = format!("{CASES} tests, {CASES} passed, 0 skipped, 0 failed");
    assert!(text.contains(&expected), "{path} {more:?}: {text}");
}

fn settings(name: &'static str, chain: Value) -> Socket {
    let extension = "type.googleapis.com/envoy.extensions.filters.http";
    let pause = json!({
        "@type": format!("{extension}.fault.v3.HTTPFault"),
        "delay": {"fixed_delay": "0.05s", "percentage": {"numerator": 100}},
    });
    let router = json!({"@type": format!("{extension}.router.v3.Router")});
    let filters = json!([{"name": "pause", "typed_config": pause}, {"name": "router", "typed_config": router}]);
    Socket {
        manager: json!({"http_filters": filters, "codec_type": if name == "tls" { "AUTO" } else { "HTTP2" }, "route_config": {
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
                {"match": {"prefix": "/direct"}, "direct_response": {"status": 200, "body": {"inline_string": "hello world"}}},
                {"match": {"prefix": "/"}, "route": {"cluster": "backend"}},
            ]}],
        }}),
        chain,
        ..Socket::of(name)
    }
}

#[test]
fn http2_is_spoken_as_specified() {
    let folder = tempfile::tempdir().unwrap();
    let [port] = ports::free().unwrap();
    let mut echo = Command::new(program("edgectl").unwrap());
    echo.args(["x", "echo", "--port", &port.to_string()]);
    let mut echo = Process::start("echo", folder.path(), &mut echo).unwrap();
    echo.wait_for_output("echo backend on", PATIENCE).unwrap();
    let backend = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let tls = json!({"transport_socket": {"name": "tls", "typed_config": {
        "@type": format!("{TLS}.DownstreamTlsContext"),
        "common_tls_context": {
            "alpn_protocols": ["h2"],
            "tls_certificates": [{
                "certificate_chain": {"inline_string": certificate.pem()},
                "private_key": {"inline_string": key.serialize_pem()},
            }],
        },
    }}});
    let sockets = [settings("clear", json!({})), settings("tls", tls)];
    let clusters = [cluster("backend", &[endpoint(backend)])];
    let bench = Bench::with_sockets(&clusters, &DataPlane::EdgeProxy, "x-envoy", &sockets);
    for path in ["/", "/direct"] {
        judge(bench.address("clear"), path, &[]);
        judge(bench.address("tls"), path, &["--tls", "--insecure"]);
    }
}
