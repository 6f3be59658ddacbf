//! gRPC-Web requests: told that there is no bridge where one is asked for, and like any other elsewhere.

use edge_proxy::config::cors::{CorsPolicy, Granted, OtherPreflights};
use edge_proxy::config::header::StringCondition;
use edge_proxy::config::listener::HttpFilter;
use edge_proxy::config::route::Route;
use http::{HeaderValue, Method};

use crate::support::{Backend, Config, Proxy, Reply, catch_all, cluster, entry, forward, get, run, snapshot, table};

const PAGE: &str = "https://page.example";

/// A route that pages may call from, behind filters.
async fn proxy_with(filters: Vec<HttpFilter>) -> Proxy {
    let backend = Backend::named("a").await;
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
        cors: Some(Box::new(policy)),
        ..catch_all(forward(0))
    };
    let clusters = vec![entry(0, cluster(0), &[backend.address])];
    let snapshot = snapshot(table("*", vec![route]), clusters, |manager| manager.filters = filters);
    Proxy::start(Config { snapshot, workers: 1 })
}

async fn call(proxy: &Proxy, content_type: &'static str) -> Reply {
    let mut request = get("www.example.com", "/pkg.Service/Call");
    *request.method_mut() = Method::POST;
    for (name, value) in [("content-type", content_type), ("origin", PAGE)] {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    proxy.http1().await.send(request).await
}

#[test]
fn a_page_is_told_that_there_is_no_bridge() {
    run(async {
        let proxy = proxy_with(vec![HttpFilter::Cors, HttpFilter::GrpcWeb]).await;
        for content_type in [
            "application/grpc-web",
            "application/grpc-web+proto",
            "application/grpc-web-text",
            "Application/gRPC-Web-Text+proto; charset=utf-8",
        ] {
            let reply = call(&proxy, content_type).await;
            assert_eq!(reply.status, 415, "{content_type}");
            assert!(
                reply.text().starts_with("gRPC-Web is not supported"),
                "{}",
                reply.text()
            );
            // Otherwise the page couldn't read it.
            assert_eq!(reply.header("access-control-allow-origin"), PAGE);
        }
        for content_type in [
            "application/grpc",
            "application/grpc+proto",
            "application/json",
            "text/plain",
        ] {
            let reply = call(&proxy, content_type).await;
            assert_eq!((reply.status, reply.text()), (200, "a"), "{content_type}");
        }
    });
}

#[test]
fn where_nobody_asks_for_the_bridge_requests_go_on_as_they_are() {
    run(async {
        let proxy = proxy_with(vec![HttpFilter::Cors]).await;
        let reply = call(&proxy, "application/grpc-web+proto").await;
        assert_eq!((reply.status, reply.text()), (200, "a"));
    });
}
