//! Which answer a request gets, and what the backend and the client see.

use std::sync::Arc;

use edge_proxy::config::ClusterId;
use edge_proxy::config::filter::RouteFilters;
use edge_proxy::config::header::{HeaderStep, HeaderTemplate, PutAction, TemplatePart};
use edge_proxy::config::route::{
    Action, ClusterChoice, DirectResponse, Fraction, HostRewrite, Mirror, PathCondition, PathRewrite, Redirect,
    RedirectScheme, WeightedCluster, WeightedClusters,
};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;

use crate::support::{
    Backend, Config, Proxy, catch_all, cluster, entry, forward, get, nobody, route, run, simple, snapshot, table,
    with_forward, with_routes,
};

#[test]
fn an_unknown_host_gets_404_without_body() {
    run(async {
        let backend = Backend::named("a").await;
        let config = Config {
            snapshot: snapshot(
                table("www.example.com", vec![catch_all(forward(0))]),
                vec![entry(0, cluster(0), &[backend.address])],
                |_| {},
            ),
            workers: 1,
        };
        let proxy = Proxy::start(config);
        let reply = proxy.get("nobody.example", "/").await;
        assert_eq!(
            (reply.status, reply.header("content-length"), reply.text()),
            (404, "0", "")
        );
        assert_eq!(reply.header("server"), "edge");
        assert!(reply.headers.contains_key("date"));
        for host in ["www.example.com", "WWW.example.com:8888"] {
            assert_eq!(proxy.get(host, "/").await.text(), "a", "{host}");
        }
        assert_eq!(backend.requests(), 2);
    });
}

#[test]
fn the_backend_sees_the_headers_of_the_contract() {
    run(async {
        let backend = Backend::named("a").await;
        let proxy = Proxy::start(simple(backend.address));
        let reply = proxy.get("www.example.com", "/x?y=1").await;
        let seen = backend.last();
        let header = |name: &str| seen.headers().get(name).map_or("", |value| value.to_str().unwrap());
        assert_eq!(seen.uri(), "/x?y=1");
        assert_eq!(header("host"), "www.example.com");
        assert_eq!(header("x-forwarded-for"), "127.0.0.1");
        assert_eq!(header("x-forwarded-proto"), "http");
        assert_eq!(header("x-edge-internal"), "true");
        assert_eq!(header("x-edge-expected-rq-timeout-ms"), "15000");
        assert_eq!(header("x-request-id").len(), 36);
        assert_eq!((reply.status, reply.text()), (200, "a"));
        assert!(reply.header("x-edge-upstream-service-time").parse::<u64>().is_ok());
        assert_eq!(reply.header("server"), "edge");
    });
}

#[test]
fn external_clients_cannot_set_our_headers() {
    run(async {
        let backend = Backend::named("a").await;
        let mut config = simple(backend.address);
        config.snapshot = snapshot(
            table("*", vec![catch_all(forward(0))]),
            vec![entry(0, cluster(0), &[backend.address])],
            |manager| manager.client_address.internal_ranges.clear(),
        );
        let proxy = Proxy::start(config);
        let mut request = get("h", "/");
        for (name, value) in [
            ("x-edge-internal", "true"),
            ("x-edge-upstream-rq-timeout-ms", "1"),
            ("x-edge-original-path", "/lie"),
            ("x-forwarded-for", "9.9.9.9"),
            ("x-forwarded-proto", "https"),
            ("x-request-id", "mine"),
        ] {
            request.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        assert_eq!(proxy.http1().await.send(request).await.status, 200);
        let seen = backend.last();
        let header = |name: &str| seen.headers().get(name).map_or("", |value| value.to_str().unwrap());
        assert_eq!(header("x-edge-external-address"), "127.0.0.1");
        for gone in [
            "x-edge-internal",
            "x-edge-upstream-rq-timeout-ms",
            "x-edge-original-path",
        ] {
            assert_eq!(header(gone), "", "{gone}");
        }
        assert_eq!(header("x-forwarded-for"), "9.9.9.9,127.0.0.1");
        assert_eq!(header("x-forwarded-proto"), "http");
        assert_eq!(header("x-request-id").len(), 36);
    });
}

#[test]
fn hop_by_hop_fields_stay_on_their_hop() {
    run(async {
        let backend = Backend::start(crate::support::Speaks::Http1, |_| {
            http::Response::builder()
                .header("connection", "x-back, keep-alive")
                .header("x-back", "1")
                .header("keep-alive", "timeout=5")
                .header("x-end", "2")
                .body(Full::from("a"))
                .unwrap()
        })
        .await;
        let proxy = Proxy::start(simple(backend.address));
        let mut request = get("h", "/");
        for (name, value) in [
            ("connection", "x-hop, close"),
            ("x-hop", "1"),
            ("keep-alive", "1"),
            ("te", "gzip"),
            ("proxy-connection", "x"),
            ("x-end", "2"),
        ] {
            request
                .headers_mut()
                .insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let reply = proxy.http1().await.send(request).await;
        let seen = backend.last();
        for gone in ["x-hop", "keep-alive", "te", "proxy-connection", "connection"] {
            assert!(!seen.headers().contains_key(gone), "{gone}");
        }
        assert_eq!(seen.headers()["x-end"], "2");
        assert_eq!(seen.headers()["x-forwarded-for"], "127.0.0.1");
        assert!(!reply.headers.contains_key("x-back") && !reply.headers.contains_key("keep-alive"));
        assert_eq!(reply.header("x-end"), "2");
    });
}

#[test]
fn redirects_and_direct_responses_need_no_backend() {
    run(async {
        let redirect = Action::Redirect(Box::new(Redirect {
            status: StatusCode::MOVED_PERMANENTLY,
            scheme: Some(RedirectScheme::Https),
            host: Some("new.example".into()),
            port: None,
            path: None,
            strip_query: false,
        }));
        let direct = Action::Direct(Box::new(DirectResponse {
            status: StatusCode::IM_A_TEAPOT,
            body: edge_proxy::config::route::DirectBody::Constant("short and stout".into()),
            content_type: None,
        }));
        let mut teapot = route(PathCondition::Exact("/teapot".into()), direct);
        teapot.response_headers = Arc::from([HeaderStep::Put {
            name: HeaderName::from_static("x-tip"),
            value: HeaderTemplate::Literal(HeaderValue::from_static("over")),
            action: PutAction::Append,
            keep_empty: false,
        }]);
        let routes = vec![teapot, route(PathCondition::Prefix("/".into()), redirect)];
        let proxy = Proxy::start(with_routes(nobody(), routes));
        let reply = proxy.get("old.example:8080", "/p?q=1").await;
        assert_eq!(
            (reply.status, reply.header("location")),
            (301, "https://new.example/p?q=1")
        );
        assert_eq!(reply.header("content-length"), "0");
        let reply = proxy.get("old.example", "/teapot").await;
        assert_eq!(
            (reply.status, reply.text(), reply.header("x-tip")),
            (418, "short and stout", "over")
        );
        assert_eq!(reply.header("content-type"), "text/plain");
    });
}

/// As in Envoy: whoever calls would take another type for no answer.
#[test]
fn a_call_is_answered_as_a_call_whatever_type_a_route_says() {
    run(async {
        let direct = Action::Direct(Box::new(DirectResponse {
            status: StatusCode::SERVICE_UNAVAILABLE,
            body: edge_proxy::config::route::DirectBody::Constant("{}".into()),
            content_type: None,
        }));
        let mut route = route(PathCondition::Prefix("/".into()), direct);
        route.response_headers = Arc::from([HeaderStep::Put {
            name: HeaderName::from_static("content-type"),
            value: HeaderTemplate::Literal(HeaderValue::from_static("application/json")),
            action: PutAction::Overwrite,
            keep_empty: false,
        }]);
        let proxy = Proxy::start(with_routes(nobody(), vec![route]));
        let reply = proxy.get("h", "/").await;
        assert_eq!((reply.status, reply.header("content-type")), (503, "application/json"));
        let mut call = get("h", "/");
        let grpc = HeaderValue::from_static("application/grpc");
        call.headers_mut().insert("content-type", grpc);
        let reply = proxy.http1().await.send(call).await;
        assert_eq!((reply.status, reply.header("content-type")), (200, "application/grpc"));
        assert_eq!(reply.header("grpc-status"), "14");
    });
}

#[test]
fn paths_and_hosts_are_rewritten_and_the_old_ones_told() {
    run(async {
        let backend = Backend::named("a").await;
        let mut settings = forward(0);
        settings.path_rewrite = Some(PathRewrite::Prefix("/one".into()));
        settings.host_rewrite = Some(HostRewrite::Literal(HeaderValue::from_static("inner.example")));
        settings.append_x_forwarded_host = true;
        let routes = vec![route(
            PathCondition::Separated("/prefix/one".into()),
            Action::Forward(Box::new(settings)),
        )];
        let proxy = Proxy::start(with_routes(backend.address, routes));
        assert_eq!(proxy.get("outer.example", "/prefix/one/two?q").await.status, 200);
        let seen = backend.last();
        assert_eq!(seen.uri(), "/one/two?q");
        assert_eq!(seen.headers()["host"], "inner.example");
        assert_eq!(seen.headers()["x-forwarded-host"], "outer.example");
        assert_eq!(seen.headers()["x-edge-original-host"], "outer.example");
        assert_eq!(seen.headers()["x-edge-original-path"], "/prefix/one/two?q");
    });
}

#[test]
fn header_edits_are_made_in_order_with_values_of_the_request() {
    run(async {
        let backend = Backend::named("a").await;
        let put = |name, value, action| HeaderStep::Put {
            name: HeaderName::from_static(name),
            value,
            action,
            keep_empty: false,
        };
        let text = |value| HeaderTemplate::Literal(HeaderValue::from_static(value));
        let mut route = catch_all(forward(0));
        route.request_headers = Arc::from([
            put("x-add", text("two"), PutAction::Append),
            put("x-set", text("new"), PutAction::Overwrite),
            HeaderStep::Remove(HeaderName::from_static("x-gone")),
        ]);
        let parts = [
            TemplatePart::Text("from ".into()),
            TemplatePart::RemoteAddressWithoutPort,
        ];
        route.response_headers = Arc::from([put(
            "x-who",
            HeaderTemplate::Parts(Box::new(parts)),
            PutAction::Overwrite,
        )]);
        let proxy = Proxy::start(with_routes(backend.address, vec![route]));
        let mut request = get("h", "/");
        for (name, value) in [("x-add", "one"), ("x-set", "old"), ("x-gone", "1")] {
            request
                .headers_mut()
                .insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let reply = proxy.http1().await.send(request).await;
        let seen = backend.last();
        let added: Vec<_> = seen.headers().get_all("x-add").iter().collect();
        assert_eq!(added, ["one", "two"]);
        assert_eq!(seen.headers()["x-set"], "new");
        assert!(!seen.headers().contains_key("x-gone"));
        assert_eq!(reply.header("x-who"), "from 127.0.0.1");
    });
}

#[test]
fn weights_are_kept_and_an_undefined_cluster_answers_for_its_share() {
    run(async {
        let (a, b) = (Backend::named("a").await, Backend::named("b").await);
        let weighted = |cluster, weight| WeightedCluster {
            cluster: ClusterId(cluster),
            weight,
            request_headers: Arc::from([]),
            response_headers: Arc::from([]),
            host_rewrite: None,
            filters: RouteFilters::default(),
        };
        let mut settings = forward(0);
        settings.cluster_not_found = StatusCode::INTERNAL_SERVER_ERROR;
        settings.clusters = ClusterChoice::Weighted(WeightedClusters {
            total: 100,
            entries: Box::new([weighted(0, 60), weighted(1, 20), weighted(2, 20)]),
            says_of_filters: false,
        });
        let clusters = vec![
            entry(0, cluster(0), &[a.address]),
            entry(1, cluster(1), &[b.address]),
            None,
        ];
        let config = Config {
            snapshot: snapshot(table("*", vec![catch_all(settings)]), clusters, |_| {}),
            workers: 1,
        };
        let proxy = Proxy::start(config);
        let mut client = proxy.http1().await;
        let mut counts = [0; 3];
        for _ in 0..500 {
            let reply = client.get("h", "/").await;
            match (reply.status, reply.text()) {
                (200, "a") => counts[0] += 1,
                (200, "b") => counts[1] += 1,
                (500, "") => counts[2] += 1,
                other => panic!("{other:?}"),
            }
        }
        // Six standard deviations of a binomial distribution.
        assert!((235..=365).contains(&counts[0]), "{counts:?}");
        assert!(
            (47..=153).contains(&counts[1]) && (47..=153).contains(&counts[2]),
            "{counts:?}"
        );
    });
}

#[test]
fn mirrors_get_a_copy_with_its_body_and_change_nothing() {
    run(async {
        let (main, copy) = (Backend::named("main").await, Backend::named("copy").await);
        let mut settings = forward(0);
        settings.mirrors = Box::new([Mirror {
            cluster: ClusterId(1),
            fraction: Fraction {
                numerator: 100,
                denominator: 100,
            },
            keep_host: true,
            is_sampled: None,
        }]);
        let clusters = vec![
            entry(0, cluster(0), &[main.address]),
            entry(1, cluster(1), &[copy.address]),
        ];
        let config = Config {
            snapshot: snapshot(table("*", vec![catch_all(settings)]), clusters, |_| {}),
            workers: 1,
        };
        let proxy = Proxy::start(config);
        let body = vec![b'x'; 20_000];
        let request = Request::post("/p?q")
            .header("host", "h")
            .body(Full::from(body.clone()))
            .unwrap();
        assert_eq!(proxy.http1().await.send(request).await.text(), "main");
        let seen = copy.wait_for(1).await;
        assert_eq!(
            (seen.method(), seen.uri().to_string().as_str()),
            (&Method::POST, "/p?q")
        );
        assert_eq!(seen.headers()["host"], "h");
        assert_eq!(seen.body().as_ref(), body);
        assert_eq!(main.last().body().as_ref(), body);
    });
}

#[test]
fn malformed_and_refused_requests_do_not_reach_the_backend() {
    run(async {
        let backend = Backend::named("a").await;
        let proxy = Proxy::start(simple(backend.address));
        let mut request = get("h", "/");
        request.headers_mut().insert("x_y", HeaderValue::from_static("1"));
        assert_eq!(proxy.http1().await.send(request).await.status, 400);
        // The rule is about names of fields: an authority may have an underscore.
        assert_eq!(proxy.get("a_b.example", "/").await.status, 200);
        let reply = proxy.get("h", "/a%2Fb?q=%2F").await;
        assert_eq!((reply.status, reply.header("location")), (307, "/a/b?q=%2F"));
        assert_eq!(proxy.get("h", "/x/../y//z").await.status, 200);
        assert_eq!(backend.last().uri(), "/y/z");
        assert_eq!(backend.requests(), 2);
    });
}

#[test]
fn responses_without_body_keep_their_length() {
    run(async {
        let backend = Backend::start(crate::support::Speaks::Http1, |seen| {
            let builder = http::Response::builder();
            match seen.uri().path() {
                "/none" => builder.status(204).body(Full::default()).unwrap(),
                _ => builder.body(Full::from("seven b")).unwrap(),
            }
        })
        .await;
        let proxy = Proxy::start(with_forward(backend.address, forward(0)));
        let mut client = proxy.http1().await;
        let head = Request::head("/").header("host", "h").body(Full::default()).unwrap();
        let reply = client.send(head).await;
        assert_eq!(
            (reply.status, reply.header("content-length"), reply.text()),
            (200, "7", "")
        );
        assert_eq!(client.get("h", "/none").await.status, 204);
        assert_eq!(client.get("h", "/").await.text(), "seven b");
        assert_eq!(backend.connections(), 1);
    });
}
