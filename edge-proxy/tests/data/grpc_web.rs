//! Calls of scripts in the framing of gRPC-Web: what the backend gets of them, and what comes back. (End to end, with
//! trailers and beside Envoy, they are tried in the scenarios.)

use edge_proxy::config::cluster::{Cluster, UpstreamProtocol};
use edge_proxy::config::filter::cors::{CorsPolicy, Granted, OtherPreflights};
use edge_proxy::config::filter::{FilterKind, FilterSettings, HttpFilter, HttpFilters};
use edge_proxy::config::header::StringCondition;
use edge_proxy::config::route::Route;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::Full;

use crate::support::{
    Backend, Config, Proxy, Reply, Speaks, catch_all, cluster, entry, forward, get, nobody, run, says, snapshot, table,
};

const PAGE: &str = "https://page.example";

/// A route that pages may call from, behind filters.
fn proxy_with(filters: Vec<HttpFilter>, backend: std::net::SocketAddr, protocol: UpstreamProtocol) -> Proxy {
    let policy = CorsPolicy {
        origins: [StringCondition::Exact(PAGE.into())].into(),
        methods: Granted::Requested,
        headers: Granted::Requested,
        exposed_headers: None,
        max_age: None,
        credentials: false,
        others: OtherPreflights::Forward,
    };
    let route = Route {
        filters: says("cors", FilterSettings::Cors(policy)),
        ..catch_all(forward(0))
    };
    let cluster = Cluster { protocol, ..cluster(0) };
    let clusters = vec![entry(0, cluster, &[backend])];
    let snapshot = snapshot(table("*", vec![route]), clusters, |manager| {
        manager.filters = HttpFilters::new(filters)
    });
    Proxy::start(Config { snapshot, workers: 1 })
}

fn bridging() -> Vec<HttpFilter> {
    vec![
        HttpFilter::on("cors", FilterKind::Cors),
        HttpFilter::on("grpc_web", FilterKind::GrpcWeb),
    ]
}

/// A call with a media type, the one that it wants back, and content.
async fn call(proxy: &Proxy, media_type: &'static str, accept: &'static str, content: &'static str) -> Reply {
    let request = get("www.example.com", "/pkg.Service/Call");
    let (mut parts, _) = request.into_parts();
    parts.method = Method::POST;
    for (name, value) in [("content-type", media_type), ("accept", accept), ("origin", PAGE)] {
        parts.headers.insert(name, HeaderValue::from_static(value));
    }
    let request = Request::from_parts(parts, Full::from(content));
    proxy.http1().await.send(request).await
}

#[test]
fn a_backend_gets_calls_of_grpc_and_a_script_gets_what_it_reads() {
    run(async {
        let backend = Backend::start(Speaks::Http2, |_| {
            let response = Response::builder().header("content-type", "application/grpc");
            response.body(Full::from("answer")).unwrap()
        })
        .await;
        let proxy = proxy_with(bridging(), backend.address, UpstreamProtocol::Http2);
        let (binary, text) = ("application/grpc-web+proto", "application/grpc-web-text+proto");
        for (media_type, content, accept, returned, answer) in [
            ("application/grpc-web", "abc", "*/*", binary, "answer"),
            (
                "application/grpc-web+proto",
                "abc",
                "application/grpc-web",
                binary,
                "answer",
            ),
            ("application/grpc-web-text", "YWJj", "*/*", binary, "answer"),
            (
                "application/grpc-web-text+proto",
                "YWI=Yw==",
                "application/grpc-web-text",
                text,
                "YW5zd2Vy",
            ),
            (
                "application/grpc-web",
                "abc",
                "application/grpc-web-text+proto",
                text,
                "YW5zd2Vy",
            ),
        ] {
            let reply = call(&proxy, media_type, accept, content).await;
            assert_eq!((reply.status, reply.text()), (200, answer), "{media_type} {accept}");
            assert_eq!(reply.header("content-type"), returned);
            assert_eq!(reply.header("access-control-allow-origin"), PAGE);
            let seen = backend.last();
            assert_eq!(seen.body(), "abc", "{media_type} {content}");
            for (name, value) in [
                ("content-type", "application/grpc"),
                ("te", "trailers"),
                ("grpc-accept-encoding", "identity"),
            ] {
                assert_eq!(seen.headers()[name], value);
            }
        }
    });
}

#[test]
fn what_isnt_of_grpc_is_told_as_a_status_too() {
    run(async {
        let backend = Backend::named("100% no gRPC").await;
        let web = "application/grpc-web";
        let proxy = proxy_with(bridging(), backend.address, UpstreamProtocol::Http1);
        let reply = call(&proxy, web, "*/*", "abc").await;
        assert_eq!(
            (reply.status, reply.header("grpc-status"), reply.text()),
            (200, "2", "")
        );
        assert_eq!(reply.header("grpc-message"), "100%25 no gRPC");
        assert_eq!(reply.header("content-length"), "0");
        assert_eq!(
            reply.header("access-control-allow-origin"),
            PAGE,
            "otherwise no page could read it"
        );
        let n_requests = backend.requests();
        for content in ["YWJ", "YW=j", "no base64", "YWJj\n"] {
            let reply = call(&proxy, "application/grpc-web-text", "*/*", content).await;
            assert_eq!(
                (reply.status, reply.header("grpc-status"), reply.text()),
                (400, "13", "")
            );
            assert_eq!(
                reply.header("grpc-message"),
                "Bad gRPC-web request, invalid base64 data."
            );
            assert_eq!(reply.header("content-type"), "application/grpc-web+proto");
        }
        assert_eq!(backend.requests(), n_requests, "none came in whole");

        let proxy = proxy_with(bridging(), nobody(), UpstreamProtocol::Http1);
        let reply = call(&proxy, web, "application/grpc-web-text", "abc").await;
        assert_eq!((reply.status, reply.header("grpc-status")), (503, "14"));
        assert_eq!(reply.header("content-type"), "application/grpc-web-text+proto");
        let message =
            "upstream connect error or disconnect/reset before headers. reset reason: remote connection failure";
        assert_eq!(reply.header("grpc-message"), message);
    });
}

#[test]
fn other_media_types_and_listeners_without_the_filter_are_left_alone() {
    run(async {
        let backend = Backend::named("a").await;
        let proxy = proxy_with(bridging(), backend.address, UpstreamProtocol::Http1);
        for media_type in [
            "application/grpc",
            "application/json",
            "application/grpc-web+json",
            "application/grpc-website",
            "Application/gRPC-Web",
            "application/grpc-web; charset=utf-8",
        ] {
            let reply = call(&proxy, media_type, "*/*", "abc").await;
            assert_eq!((reply.status, reply.text()), (200, "a"), "{media_type}");
            assert_eq!(backend.last().headers()["content-type"], media_type);
        }
        let proxy = proxy_with(
            vec![HttpFilter::on("cors", FilterKind::Cors)],
            backend.address,
            UpstreamProtocol::Http1,
        );
        let reply = call(&proxy, "application/grpc-web", "*/*", "abc").await;
        assert_eq!((reply.status, reply.text()), (200, "a"));
        assert_eq!(backend.last().headers()["content-type"], "application/grpc-web");
    });
}
