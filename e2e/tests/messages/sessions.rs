//! Sessions: which host a request of one reaches, and what the client keeps for it. Both data planes stand in front of
//! the same hosts, so that what one has told a client can be shown to the other.

use crate::bench::{Bench, backend, cluster, data_planes, endpoint};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use e2e::http::{self, Request, Response};
use serde_json::{Value, json};
use std::{net::SocketAddr, sync::mpsc};

const FILTERS: &str = "type.googleapis.com/envoy.extensions.filters.http";
const STATES: &str = "type.googleapis.com/envoy.extensions.http.stateful_session";

/// A route for a prefix with what it says about sessions.
fn route(prefix: &str, session: &Value) -> Value {
    json!({
        "match": {"prefix": prefix},
        "route": {"cluster": "backend"},
        "typed_per_filter_config": {"envoy.filters.http.stateful_session": session},
    })
}

/// Sessions with a state of this type.
fn session(kind: &str, state: &Value, strict: &Value) -> Value {
    let mut config = json!({"@type": format!("{STATES}.{kind}")});
    config
        .as_object_mut()
        .unwrap()
        .extend(state.as_object().unwrap().clone());
    let name = format!("envoy.http.stateful_session.{}", kind.split('.').next().unwrap());
    let mut session = json!({"session_state": {"name": name, "typed_config": config}});
    session
        .as_object_mut()
        .unwrap()
        .extend(strict.as_object().unwrap().clone());
    json!({"@type": format!("{FILTERS}.stateful_session.v3.StatefulSessionPerRoute"), "stateful_session": session})
}

fn settings() -> Value {
    let cookie = |cookie: Value| {
        session(
            "cookie.v3.CookieBasedSessionState",
            &json!({"cookie": cookie}),
            &json!({}),
        )
    };
    let header = |strict: Value| session("header.v3.HeaderBasedSessionState", &json!({"name": "x-host"}), &strict);
    let off = json!({"@type": format!("{FILTERS}.stateful_session.v3.StatefulSessionPerRoute"), "disabled": true});
    let attributes = json!([{"name": "Secure"}, {"name": "SameSite", "value": "Lax"}]);
    let routes = [
        route("/cookie", &cookie(json!({"name": "host", "path": "/cookie"}))),
        route(
            "/day",
            &cookie(json!({"name": "host", "path": "/", "ttl": "86400s", "attributes": attributes})),
        ),
        route("/deep", &cookie(json!({"name": "host", "path": "/deep/er"}))),
        route("/header", &header(json!({}))),
        route("/strict", &header(json!({"strict": true}))),
        route(
            "/gone",
            &header(json!({"strict": true, "status_on_strict_destination_not_found": 410})),
        ),
        route("/off", &off),
    ];
    json!({
        "http_filters": [
            {"name": "envoy.filters.http.stateful_session",
             "typed_config": {"@type": format!("{FILTERS}.stateful_session.v3.StatefulSession")}},
            {"name": "router", "typed_config": {"@type": format!("{FILTERS}.router.v3.Router")}},
        ],
        "route_config": {"name": "r", "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
    })
}

/// Two hosts that tell their names, and one that is out of service.
struct Hosts {
    addresses: [SocketAddr; 3],
    _seen: [mpsc::Receiver<Vec<String>>; 3],
}

impl Hosts {
    fn start() -> Self {
        let ((a, seen_a), (b, seen_b), (c, seen_c)) = (backend("a"), backend("b"), backend("c"));
        Self {
            addresses: [a, b, c],
            _seen: [seen_a, seen_b, seen_c],
        }
    }

    fn bench(&self) -> Vec<(&'static str, Bench)> {
        let [a, b, c] = self.addresses.map(endpoint);
        let mut c = c;
        c["health_status"] = json!("DRAINING");
        let clusters = [cluster("backend", &[a, b, c])];
        let start = |(name, plane)| {
            (
                name,
                Bench::with_clusters(&clusters, &plane, "x-envoy", &[("all", settings())]),
            )
        };
        data_planes().map(start).into()
    }
}

fn ask(bench: &Bench, path: &str, headers: &[(&str, &str)]) -> Response {
    let request = Request {
        headers,
        ..Request::get("h", path)
    };
    http::exchange(bench.connect("all"), &request).unwrap()
}

/// The name and value of the cookie that a response sets, and the rest of the field.
fn cookie(response: &Response) -> (&str, &str) {
    response.header("set-cookie").unwrap().split_once("; ").unwrap()
}

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

#[test]
fn a_cookie_leads_back_whichever_proxy_set_it() {
    let hosts = Hosts::start();
    let benches = hosts.bench();
    for (path, attributes) in [
        ("/cookie/a", "Path=/cookie; HttpOnly"),
        ("/cookie?x", "Path=/cookie; HttpOnly"),
        ("/day", "Max-Age=86400; Path=/; Secure; SameSite=Lax; HttpOnly"),
    ] {
        for (name, bench) in &benches {
            let first = ask(bench, path, &[]);
            let (pair, rest) = cookie(&first);
            assert_eq!(rest, attributes, "{name} {path}");
            for (other, bench) in benches.iter().chain(&benches) {
                let next = ask(bench, path, &[("cookie", &format!("x=y; {pair}"))]);
                assert_eq!(next.body, first.body, "{other} {path}: the cookie is of {name}");
                assert_eq!(next.header("set-cookie"), None, "{other} {path}");
            }
        }
    }
    for (name, bench) in &benches {
        for path in ["/cookies", "/deep", "/off"] {
            assert_eq!(ask(bench, path, &[]).header("set-cookie"), None, "{name} {path}");
        }
        // Until the year 1970.
        let host = hosts.addresses[0].to_string();
        let stub = [&[10, u8::try_from(host.len()).unwrap()][..], host.as_bytes(), &[16, 1]].concat();
        let old = format!("host={}", STANDARD.encode(stub));
        let told = [(); 2].map(|()| ask(bench, "/day", &[("cookie", &old)]).header("set-cookie").is_some());
        assert_eq!(told, [true; 2], "{name}: a cookie that has expired");
    }
}

#[test]
fn a_header_leads_back_and_may_not_be_strict_about_it() {
    let hosts = Hosts::start();
    let [a, b, drained] = hosts.addresses.map(|address| encoded(&address.to_string()));
    let gone = encoded("192.0.2.1:80");
    for (name, bench) in &hosts.bench() {
        for path in ["/header", "/strict", "/gone"] {
            let first = ask(bench, path, &[]);
            let host = if first.body == b"a" { &a } else { &b };
            assert_eq!(first.header("x-host"), Some(host.as_str()), "{name} {path}");
            for (host, text) in [(&a, b"a"), (&b, b"b"), (&a, b"a")] {
                let next = ask(bench, path, &[("x-host", host)]);
                assert_eq!(
                    (next.body.as_slice(), next.header("x-host")),
                    (&text[..], None),
                    "{name} {path}"
                );
            }
            let new = ask(bench, path, &[("x-host", "???")]);
            assert!(
                new.status == 200 && new.header("x-host").is_some(),
                "{name} {path}: no Base64"
            );
        }
        for (path, host, status) in [
            ("/header", &drained, 200),
            ("/header", &gone, 200),
            ("/strict", &drained, 503),
            ("/strict", &gone, 503),
            ("/strict", &encoded("x"), 503),
            ("/gone", &drained, 503),
            ("/gone", &gone, 410),
        ] {
            let answer = ask(bench, path, &[("x-host", host)]);
            let moved = answer.header("x-host").is_some();
            assert_eq!((answer.status, moved), (status, status == 200), "{name} {path} {host}");
        }
    }
}
