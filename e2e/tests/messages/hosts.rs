//! Where requests go that say so themselves, or where hosts say how busy they are; and what is tried again.

use crate::bench::{Bench, cluster, data_planes, endpoint, listen};
use e2e::{
    http::{self, Request},
    process::wait_for,
    stack::PATIENCE,
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

const FILTERS: &str = "type.googleapis.com/envoy.extensions.filters.http";
const POLICIES: &str = "type.googleapis.com/envoy.extensions.load_balancing_policies";
const CLUSTERS: &str = "type.googleapis.com/envoy.extensions.clusters";

/// A backend that answers each head with this one and counts them.
fn answering(head: &'static str) -> (SocketAddr, Arc<AtomicUsize>) {
    let count = Arc::<AtomicUsize>::default();
    let asked = Arc::clone(&count);
    let address = listen(move |stream| {
        // It ends where the connection does.
        let _ = answer(&stream, head, &asked);
    });
    (address, count)
}

fn answer(stream: &TcpStream, head: &str, asked: &AtomicUsize) -> Option<()> {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            (reader.read_line(&mut line).ok()? > 0).then_some(())?;
        }
        asked.fetch_add(1, Ordering::SeqCst);
        write!(writer, "HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n").ok()?;
    }
}

/// A listener's settings with these routes, and filters before the router.
fn manager(routes: &Value, filters: &[Value]) -> Value {
    let router = json!({"name": "router", "typed_config": {"@type": format!("{FILTERS}.router.v3.Router")}});
    let filters: Vec<_> = filters.iter().cloned().chain([router]).collect();
    json!({
        "http_filters": filters,
        "route_config": {"name": "r", "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
    })
}

fn everything_to(cluster: &str) -> Value {
    json!([{"match": {"prefix": "/"}, "route": {"cluster": cluster}}])
}

/// A cluster of two hosts with this policy.
fn balanced(name: &str, hosts: [SocketAddr; 2], policy: &Value) -> Value {
    let mut cluster = cluster(name, &hosts.map(endpoint));
    cluster["load_balancing_policy"] = json!({"policies": [
        {"typed_extension_config": {"name": "policy", "typed_config": policy}},
    ]});
    cluster
}

#[test]
fn requests_name_their_host_and_hosts_tell_their_load() {
    let (calm, calms) = answering("200 OK\r\nendpoint-load-metrics: TEXT rps_fractional=90,cpu_utilization=0.1");
    let busy = "200 OK\r\nendpoint-load-metrics: JSON {\"rpsFractional\": 90, \"cpuUtilization\": 0.9}";
    let (busy, busies) = answering(busy);
    let by_load = json!({
        "@type": format!("{POLICIES}.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin"),
        "blackout_period": "0.001s", "weight_update_period": "0.1s",
    });
    let named = json!({
        "@type": format!("{POLICIES}.override_host.v3.OverrideHost"),
        "override_host_sources": [{"header": "x-endpoint"}],
        "fallback_policy": {"policies": [{"typed_extension_config": {"name": "f", "typed_config": {
            "@type": format!("{POLICIES}.round_robin.v3.RoundRobin"),
        }}}]},
    });
    let clusters = [
        balanced("load", [calm, busy], &by_load),
        balanced("named", [calm, busy], &named),
    ];
    for (name, plane) in data_planes() {
        let settings = [
            ("load", manager(&everything_to("load"), &[])),
            ("named", manager(&everything_to("named"), &[])),
        ];
        let bench = Bench::with_clusters(&clusters, &plane, "x-edge", &settings);
        let ask = |listener: &str, endpoint: &str| {
            let request = Request {
                headers: &[("x-endpoint", endpoint)],
                ..Request::get("h", "/")
            };
            assert_eq!(
                http::send(bench.address(listener), &request).unwrap().status,
                200,
                "{name}"
            );
        };
        let count = |asked: &AtomicUsize, asking: &dyn Fn()| {
            let before = asked.load(Ordering::SeqCst);
            asking();
            asked.load(Ordering::SeqCst) - before
        };
        for (endpoint, share) in [
            (busy.to_string(), 6),
            (format!("192.0.2.1:80, {busy}"), 6),
            (calm.to_string(), 0),
            ("nobody".to_owned(), 3),
        ] {
            let times = count(&busies, &|| (0..6).for_each(|_| ask("named", &endpoint)));
            assert_eq!(times, share, "{name}: {endpoint}");
        }
        let settled = wait_for("shares by load", PATIENCE, || {
            let times = count(&busies, &|| (0..100).for_each(|_| ask("load", "")));
            // A tenth, where it would be half by turns.
            Ok((5..=15).contains(&times).then_some(()))
        });
        settled.unwrap_or_else(|error| panic!("{name}: {error:#}"));
    }
    assert!(calms.load(Ordering::SeqCst) > 0);
}

/// A cluster of whom requests ask for, and the filter that looks for them.
fn of_requests(cache: &Value) -> (Value, Value) {
    let dynamic = json!({
        "name": "dynamic", "connect_timeout": "1s", "lb_policy": "CLUSTER_PROVIDED",
        "cluster_type": {"name": "envoy.clusters.dynamic_forward_proxy", "typed_config": {
            "@type": format!("{CLUSTERS}.dynamic_forward_proxy.v3.ClusterConfig"), "dns_cache_config": cache,
        }},
    });
    let filter = json!({"name": "names", "typed_config": {
        "@type": format!("{FILTERS}.dynamic_forward_proxy.v3.FilterConfig"), "dns_cache_config": cache,
    }});
    (dynamic, filter)
}

/// By whatever name, in whatever form, whether the answer or a copy is asked for.
#[test]
fn nobody_is_found_at_addresses_that_are_refused() {
    let (backend, asked) = answering("200 OK");
    let (other, _) = answering("200 OK");
    let ranges = [("127.0.0.0", 8), ("0.0.0.0", 8), ("::", 127), ("::ffff:127.0.0.0", 104)];
    let ranges = ranges.map(|(prefix, len)| json!({"address_prefix": prefix, "prefix_len": len}));
    let (dynamic, filter) = of_requests(&json!({
        "name": "names", "dns_lookup_family": "V4_PREFERRED", "resolved_address_filter": {"ranges": ranges},
    }));
    let routes = json!([
        {"match": {"prefix": "/copied"}, "route": {
            "cluster": "other", "request_mirror_policies": [{"cluster": "dynamic"}],
        }},
        {"match": {"prefix": "/"}, "route": {"cluster": "dynamic"}},
    ]);
    let clusters = [dynamic, cluster("other", &[endpoint(other)])];
    let port = backend.port();
    for (name, plane) in data_planes() {
        let settings = [("names", manager(&routes, std::slice::from_ref(&filter)))];
        let bench = Bench::with_clusters(&clusters, &plane, "x-edge", &settings);
        for host in [
            format!("127.0.0.1:{port}"),
            format!("localhost:{port}"),
            format!("localhost.:{port}"),
            format!("0.0.0.0:{port}"),
            format!("[::ffff:127.0.0.1]:{port}"),
            format!("127.0.0.1]:{port}"),
            format!("[127.0.0.1:{port}"),
            format!("localhost:+{port}"),
        ] {
            for (path, expected) in [("/", 503), ("/copied", 200)] {
                let answer = http::send(bench.address("names"), &Request::get(&host, path)).unwrap();
                assert_eq!(answer.status, expected, "{name}: {host}{path}");
            }
        }
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[test]
fn hosts_are_resolved_that_requests_ask_for() {
    let (backend, _) = answering("200 OK");
    let port = backend.port();
    let (dynamic, filter) = of_requests(&json!({"name": "names", "dns_lookup_family": "V4_PREFERRED"}));
    let routes = json!([
        {
            "match": {"prefix": "/other"}, "route": {"cluster": "dynamic"},
            "typed_per_filter_config": {"names": {
                "@type": format!("{FILTERS}.dynamic_forward_proxy.v3.PerRouteConfig"),
                "host_rewrite_literal": format!("localhost:{port}"),
            }},
        },
        {"match": {"prefix": "/"}, "route": {"cluster": "dynamic"}},
    ]);
    for (name, plane) in data_planes() {
        let settings = [
            ("names", manager(&routes, std::slice::from_ref(&filter))),
            ("nobody", manager(&everything_to("dynamic"), &[])),
        ];
        let bench = Bench::with_clusters(std::slice::from_ref(&dynamic), &plane, "x-edge", &settings);
        let (address, local) = (format!("127.0.0.1:{port}"), format!("localhost:{port}"));
        for (listener, host, path, expected) in [
            ("names", address.as_str(), "/", (200, "")),
            ("names", local.as_str(), "/", (200, "")),
            ("names", "www.example.com", "/other", (200, "")),
            ("names", "nobody.invalid", "/", (503, "DNS resolution failure")),
        ] {
            let answer = http::send(bench.address(listener), &Request::get(host, path)).unwrap();
            let body = String::from_utf8_lossy(&answer.body);
            assert_eq!((answer.status, &*body), expected, "{name}: {listener} {host}{path}");
        }
        // Without the filter edge-proxy asks nobody, where the cluster of stock Envoy would resolve the host by itself.
        let answer = http::send(bench.address("nobody"), &Request::get("127.0.0.2:1", "/")).unwrap();
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        let expected = match name {
            "Envoy" => {
                "upstream connect error or disconnect/reset before headers. reset reason: remote connection failure"
            }
            _ => "no healthy upstream",
        };
        assert_eq!((answer.status, &*body), (503, expected), "{name}");
    }
}

/// A backend that says a word and sends back what comes.
fn echo() -> SocketAddr {
    listen(|mut stream| {
        let _ = stream.write_all(b"heard ");
        let _ = std::io::copy(&mut stream.try_clone().unwrap(), &mut stream);
    })
}

#[test]
fn connect_ends_at_the_proxy_where_a_route_says_so() {
    let (other, others) = answering("200 OK");
    let clusters = [
        cluster("echo", &[endpoint(echo())]),
        cluster("other", &[endpoint(other)]),
    ];
    let routes = json!([
        {"match": {"prefix": "/"}, "route": {"cluster": "other"}},
        {"match": {"connect_matcher": {}}, "route": {
            "cluster": "echo", "upgrade_configs": [{"upgrade_type": "CONNECT", "connect_config": {}}],
        }},
    ]);
    for (name, plane) in data_planes() {
        let settings = [
            ("ends", manager(&routes, &[])),
            ("passes", manager(&everything_to("other"), &[])),
        ];
        let bench = Bench::with_clusters(&clusters, &plane, "x-edge", &settings);
        let status = |listener: &str, fields: &str| {
            let mut stream = bench.connect(listener);
            write!(stream, "CONNECT h:80 HTTP/1.1\r\nhost: h:80\r\n{fields}\r\n").unwrap();
            http::read_response(&mut BufReader::new(stream)).unwrap().status
        };
        assert_eq!(status("passes", ""), 404, "{name}");
        assert_eq!(status("ends", "content-length: 5\r\n"), 400, "{name}");
        assert_eq!(status("ends", "transfer-encoding: chunked\r\n"), 501, "{name}");
        let mut stream = bench.connect("ends");
        stream
            .write_all(b"CONNECT h:80 HTTP/1.1\r\nhost: h:80\r\n\r\nhello")
            .unwrap();
        let text = read_to(&mut stream, "heard hello");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{name}: {text}");
        assert!(text.ends_with("\r\n\r\nheard hello"), "{name}: {text}");
        stream.shutdown(Shutdown::Both).unwrap();
    }
    assert_eq!(others.load(Ordering::SeqCst), 0);
}

/// Reads a stream that stays open, as far as these words.
fn read_to(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        text.push(byte[0].into());
    }
    text
}

/// A backend that is a proxy: it grants tunnels to `h:80` alone, and sends back what comes through.
fn proxy() -> SocketAddr {
    listen(|stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && reader.read_until(b'\n', &mut head).is_ok_and(|read| read > 0) {}
        let mut stream = stream;
        if head.starts_with(b"CONNECT h:80 HTTP/1.1\r\n") && !head.windows(7).any(|part| part == b"upgrade") {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nx-proxy: 1\r\n\r\nheard ");
            let _ = std::io::copy(&mut reader, &mut stream);
        } else {
            let _ = stream.write_all(b"HTTP/1.1 407 No\r\ncontent-length: 4\r\n\r\nwho?");
        }
    })
}

#[test]
fn connect_goes_on_to_a_backend_that_is_a_proxy() {
    let clusters = [cluster("proxy", &[endpoint(proxy())])];
    let routes = json!([{"match": {"connect_matcher": {}}, "route": {
        "cluster": "proxy", "upgrade_configs": [{"upgrade_type": "CONNECT"}],
    }}]);
    for (name, plane) in data_planes() {
        let bench = Bench::with_clusters(&clusters, &plane, "x-edge", &[("passes", manager(&routes, &[]))]);
        let ask = |authority: &str| {
            let mut stream = bench.connect("passes");
            write!(stream, "CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n\r\nhello").unwrap();
            stream
        };
        let mut stream = ask("h:80");
        let text = read_to(&mut stream, "heard hello");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{name}: {text}");
        assert!(text.contains("\r\nx-proxy: 1\r\n"), "{name}: {text}");
        assert!(text.ends_with("\r\n\r\nheard hello"), "{name}: {text}");
        stream.shutdown(Shutdown::Both).unwrap();
        let refused = http::read_response(&mut BufReader::new(ask("other:80"))).unwrap();
        assert_eq!((refused.status, &refused.body[..]), (407, &b"who?"[..]), "{name}");
    }
}

#[test]
fn headers_decide_what_is_tried_again() {
    let (limited, limits) = answering("503 Service Unavailable\r\nx-edge-ratelimited: true");
    let (again, agains) = answering("200 OK\r\nx-again: yes");
    let clusters = [
        cluster("limited", &[endpoint(limited)]),
        cluster("again", &[endpoint(again)]),
    ];
    let retry = |path: &str, cluster: &str, policy: Value| json!({"match": {"prefix": path}, "route": {"cluster": cluster, "retry_policy": policy}});
    let routes = json!([
        retry("/never", "limited", json!({"retry_on": "5xx", "num_retries": 2})),
        retry(
            "/limited",
            "limited",
            json!({"retry_on": "envoy-ratelimited", "num_retries": 2})
        ),
        retry(
            "/again",
            "again",
            json!({
                "retry_on": "retriable-headers", "num_retries": 2,
                "retriable_headers": [{"name": "x-again", "string_match": {"exact": "yes"}}],
                "retriable_request_headers": [{"name": "x-try", "string_match": {"exact": "hard"}}],
            })
        ),
    ]);
    for (name, plane) in data_planes() {
        let bench = Bench::with_clusters(&clusters, &plane, "x-edge", &[("all", manager(&routes, &[]))]);
        for (path, tries, asked, times) in [
            ("/never", "hard", &limits, 1),
            ("/limited", "hard", &limits, 3),
            ("/again", "hard", &agains, 3),
            ("/again", "little", &agains, 1),
        ] {
            let before = asked.load(Ordering::SeqCst);
            let request = Request {
                headers: &[("x-try", tries)],
                ..Request::get("h", path)
            };
            http::send(bench.address("all"), &request).unwrap();
            assert_eq!(asked.load(Ordering::SeqCst) - before, times, "{name}: {path} {tries}");
        }
    }
}

/// The first form of a name counts, and names of responses are small.
#[test]
fn names_of_headers_go_on_as_they_were_written_where_that_is_said() {
    for (name, plane) in data_planes() {
        let formatter = json!({"name": "case", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.http.header_formatters.preserve_case.v3.PreserveCaseFormatterConfig",
        }});
        let settings = json!({"http_protocol_options": {
            "header_key_format": {"stateful_formatter": formatter},
            "ignore_http_11_upgrade": [{"prefix": "TLS/"}],
        }});
        let bench = Bench::start(&plane, "x-edge", &[("kept", settings)]);
        let sent = "GET / HTTP/1.1\r\nHost: h\r\nX-MiXed: 1\r\nx-mixed: 2\r\nplain: 3\r\n\r\n";
        let outcome = bench.send("kept", sent);
        assert_eq!(outcome.fields("Host"), ["h"], "{name}: {outcome:?}");
        assert_eq!(outcome.fields("X-MiXed"), ["1", "2"], "{name}: {outcome:?}");
        assert_eq!(outcome.fields("plain"), ["3"], "{name}: {outcome:?}");
        assert_eq!(outcome.fields("x-forwarded-proto"), ["http"], "{name}: {outcome:?}");
        let sent = "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: TLS/1.2\r\n\r\n";
        assert_eq!(bench.send("kept", sent).status, 200, "{name}");
    }
}
