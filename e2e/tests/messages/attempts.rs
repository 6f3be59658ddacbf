//! How often a service of a filter is asked for one request, by the policy of retries.

use crate::bench::{Bench, Socket, cluster, data_planes, endpoint, listen};
use envoy_types::pb::envoy::service::auth::v3::{
    CheckRequest, CheckResponse,
    authorization_server::{Authorization, AuthorizationServer},
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::runtime::{Builder, Runtime};
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

const FILTERS: &str = "type.googleapis.com/envoy.extensions.filters.http";

/// An HTTP service that always fails; it answers 503, or not at all below `/closed`.
fn failing(asked: &Arc<AtomicUsize>) -> SocketAddr {
    let asked = Arc::clone(asked);
    listen(move |stream| fail(stream, &asked))
}

fn fail(stream: TcpStream, asked: &AtomicUsize) {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(1..) if line != "\r\n" => lines.push(line),
            Ok(1..) => break,
            _ => return,
        }
    }
    asked.fetch_add(1, Ordering::SeqCst);
    if !lines[0].contains("/closed") {
        let answer = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let _ = reader.get_mut().write_all(answer);
    }
}

/// A service of calls that is never available.
struct Unavailable(Arc<AtomicUsize>);

#[tonic::async_trait]
impl Authorization for Unavailable {
    async fn check(&self, _: Request<CheckRequest>) -> Result<Response<CheckResponse>, Status> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Err(Status::unavailable("never"))
    }
}

fn unavailable(asked: &Arc<AtomicUsize>) -> (Runtime, SocketAddr) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let within = runtime.enter();
    let incoming = TcpIncoming::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = incoming.local_addr().unwrap();
    let service = AuthorizationServer::new(Unavailable(Arc::clone(asked)));
    runtime.spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
    drop(within);
    (runtime, address)
}

/// How a service is asked.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// For keys.
    Keys,
    /// For a decision, by a request.
    Request,
    /// For a decision, by a call.
    Call,
}

/// A listener whose requests ask a service, with a policy of retries.
fn socket(name: &'static str, way: Way, path: &str, retries: &Value) -> Socket {
    let uri = json!({"uri": format!("http://service{path}"), "cluster": "service", "timeout": "5s"});
    let (kind, filter, route) = match way {
        Way::Keys => {
            let mut keys = json!({"http_uri": uri});
            if !retries.is_null() {
                keys["retry_policy"] = retries.clone();
            }
            let filter = json!({
                "@type": format!("{FILTERS}.jwt_authn.v3.JwtAuthentication"),
                "providers": {"p": {"issuer": "i", "remote_jwks": keys}},
                "requirement_map": {"r": {"provider_name": "p"}},
            });
            let route = json!({"envoy.filters.http.jwt_authn": {
                "@type": format!("{FILTERS}.jwt_authn.v3.PerRouteConfig"), "requirement_name": "r",
            }});
            ("envoy.filters.http.jwt_authn", filter, route)
        }
        Way::Request | Way::Call => {
            let mut service = match way {
                Way::Call => json!({"envoy_grpc": {"cluster_name": "calls"}, "timeout": "5s"}),
                _ => json!({"server_uri": uri, "path_prefix": path}),
            };
            if !retries.is_null() {
                service["retry_policy"] = retries.clone();
            }
            let field = if matches!(way, Way::Call) {
                "grpc_service"
            } else {
                "http_service"
            };
            let filter = json!({
                "@type": format!("{FILTERS}.ext_authz.v3.ExtAuthz"), "transport_api_version": "V3", field: service,
            });
            ("envoy.filters.http.ext_authz", filter, json!({}))
        }
    };
    let router = json!({"@type": format!("{FILTERS}.router.v3.Router")});
    let routes = json!([{
        "match": {"prefix": "/"}, "direct_response": {"status": 200}, "typed_per_filter_config": route,
    }]);
    Socket {
        manager: json!({
            "http_filters": [{"name": kind, "typed_config": filter}, {"name": "router", "typed_config": router}],
            "route_config": {"name": name, "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        }),
        ..Socket::of(name)
    }
}

/// A listener, how it asks, where, with which policy, and how often.
type Row = (&'static str, Way, &'static str, Value, usize);

fn rows() -> Vec<Row> {
    let back_off = json!({"base_interval": "0.001s", "max_interval": "1s"});
    let on = |words: &str| json!({"num_retries": 2, "retry_on": words, "retry_back_off": back_off});
    let usual = json!({"retry_back_off": back_off, "retry_on": "unavailable"});
    let none = json!({"num_retries": 0, "retry_on": "unavailable"});
    let never = Value::Null;
    vec![
        ("keys-never", Way::Keys, "/", never.clone(), 1),
        ("keys-none", Way::Keys, "/", none.clone(), 1),
        ("keys-usual", Way::Keys, "/", usual.clone(), 2),
        // Of what is said of keys the words don't count.
        ("keys-on-reset", Way::Keys, "/", on("reset"), 3),
        ("keys-closed", Way::Keys, "/closed", on(""), 3),
        ("request-never", Way::Request, "/", never.clone(), 1),
        ("request-none", Way::Request, "/", none.clone(), 1),
        ("request-usual", Way::Request, "/", usual.clone(), 1),
        ("request-on-5xx", Way::Request, "/", on("5xx"), 3),
        ("request-on-reset", Way::Request, "/", on("reset"), 1),
        ("request-closed", Way::Request, "/closed", on(""), 1),
        ("request-closed-on-reset", Way::Request, "/closed", on("reset"), 3),
        ("call-never", Way::Call, "", never, 1),
        ("call-none", Way::Call, "", none, 1),
        ("call-usual", Way::Call, "", usual, 2),
        ("call-unavailable", Way::Call, "", on("unavailable"), 3),
        ("call-cancelled", Way::Call, "", on("cancelled"), 1),
        ("call-without-words", Way::Call, "", on(""), 1),
    ]
}

#[test]
fn services_are_asked_again_as_their_policy_says() {
    let rows = rows();
    for (plane, data_plane) in data_planes() {
        let asked = Arc::new(AtomicUsize::new(0));
        let mut calls = {
            let (runtime, address) = unavailable(&asked);
            (runtime, cluster("calls", &[endpoint(address)]))
        };
        calls.1["http2_protocol_options"] = json!({});
        let clusters = [cluster("service", &[endpoint(failing(&asked))]), calls.1];
        let sockets: Vec<_> = rows
            .iter()
            .map(|(name, way, path, retries, _)| socket(name, *way, path, retries))
            .collect();
        let bench = Bench::with_sockets(&clusters, &data_plane, "x-envoy", &sockets);
        let told: Vec<_> = rows
            .iter()
            .map(|(name, ..)| {
                let before = asked.load(Ordering::SeqCst);
                let token = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJpIn0.c2ln";
                let request = format!("GET / HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {token}\r\n\r\n");
                let status = bench.send(name, &request).status;
                assert_ne!(status, 200, "{plane} {name}");
                (*name, asked.load(Ordering::SeqCst) - before)
            })
            .collect();
        let wanted: Vec<_> = rows.iter().map(|(name, .., times)| (*name, *times)).collect();
        assert_eq!(told, wanted, "{plane}");
        drop(calls.0);
    }
}
