//! Requests of other origins: the answers are those of stock Envoy 1.40 to the same requests under the same policies.

use edge_proxy::config::filter::cors::{CorsPolicy, Granted, OtherPreflights};
use edge_proxy::config::filter::{FilterKind, FilterSettings, HttpFilter, HttpFilters};
use edge_proxy::config::header::StringCondition;
use edge_proxy::config::route::Route;
use http::{HeaderValue, Method};

use crate::support::{
    Backend, Config, Proxy, Reply, catch_all, cluster, entry, forward, get, run, says, snapshot, table,
};

const CORS: &str = "envoy.filters.http.cors";

fn chain() -> HttpFilter {
    HttpFilter::on(CORS, FilterKind::Cors)
}

const ALLOWED: &str = "https://a.example";
const OTHER: &str = "https://x.example";

/// Everything is listed, and preflights of others are answered here.
fn listed() -> CorsPolicy {
    let value = |text| HeaderValue::from_static(text);
    CorsPolicy {
        origins: [StringCondition::Exact(ALLOWED.into())].into(),
        methods: Granted::Listed(value("GET, PUT")),
        headers: Granted::Listed(value("x-a")),
        exposed_headers: Some(value("x-c")),
        max_age: Some(value("36")),
        credentials: true,
        others: OtherPreflights::Answer,
    }
}

/// Whatever is asked for, and others are forwarded.
fn requested() -> CorsPolicy {
    CorsPolicy {
        origins: [StringCondition::Exact(ALLOWED.into())].into(),
        methods: Granted::Requested,
        headers: Granted::Requested,
        exposed_headers: None,
        max_age: None,
        credentials: false,
        others: OtherPreflights::Forward,
    }
}

struct Asked {
    proxy: Proxy,
    backend: Backend,
}

impl Asked {
    async fn with(policy: CorsPolicy, filter: Option<HttpFilter>) -> Self {
        let backend = Backend::named("a").await;
        let route = Route {
            filters: says(CORS, FilterSettings::Cors(policy)),
            ..catch_all(forward(0))
        };
        let clusters = vec![entry(0, cluster(0), &[backend.address])];
        let snapshot = snapshot(table("*", vec![route]), clusters, |manager| {
            manager.filters = HttpFilters::new(filter.into_iter().collect());
        });
        let proxy = Proxy::start(Config { snapshot, workers: 1 });
        Self { proxy, backend }
    }

    async fn ask(&self, method: Method, fields: &[(&'static str, &'static str)]) -> Reply {
        let mut request = get("www.example.com", "/");
        *request.method_mut() = method;
        for (name, value) in fields {
            request.headers_mut().insert(*name, HeaderValue::from_static(value));
        }
        self.proxy.http1().await.send(request).await
    }
}

/// The fields about origins, without their common prefix, sorted.
fn said(reply: &Reply) -> Vec<String> {
    let mut said: Vec<String> = reply
        .headers
        .iter()
        .filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix("access-control-")?;
            Some(format!("{name}: {}", value.to_str().unwrap()))
        })
        .collect();
    said.sort();
    said
}

const PUT: (&str, &str) = ("access-control-request-method", "PUT");

#[test]
fn a_preflight_is_answered_by_the_policy() {
    run(async {
        let asked = Asked::with(listed(), Some(chain())).await;
        let reply = asked.ask(Method::OPTIONS, &[("origin", ALLOWED), PUT]).await;
        assert_eq!(
            (reply.status, reply.text(), reply.header("content-length")),
            (200, "", "0")
        );
        assert_eq!(
            said(&reply),
            [
                "allow-credentials: true",
                "allow-headers: x-a",
                "allow-methods: GET, PUT",
                "allow-origin: https://a.example",
                "expose-headers: x-c",
                "max-age: 36",
            ]
        );
        // Others get no leave.
        let reply = asked.ask(Method::OPTIONS, &[("origin", OTHER), PUT]).await;
        assert_eq!(
            said(&reply),
            [
                "allow-credentials: true",
                "allow-headers: x-a",
                "allow-methods: GET, PUT",
                "max-age: 36"
            ]
        );
        assert_eq!(asked.backend.requests(), 0);
    });
}

#[test]
fn a_star_grants_what_is_asked_for() {
    run(async {
        let asked = Asked::with(requested(), Some(chain())).await;
        let headers = ("access-control-request-headers", "x-z,x-y");
        let reply = asked.ask(Method::OPTIONS, &[("origin", ALLOWED), PUT, headers]).await;
        assert_eq!(
            said(&reply),
            [
                "allow-headers: x-z,x-y",
                "allow-methods: PUT",
                "allow-origin: https://a.example"
            ]
        );
        assert_eq!(asked.backend.requests(), 0);
        let reply = asked.ask(Method::OPTIONS, &[("origin", OTHER), PUT]).await;
        assert_eq!((reply.text(), said(&reply)), ("a", vec![]));
        assert_eq!(asked.backend.requests(), 1);
    });
}

#[test]
fn responses_say_who_may_read_them() {
    run(async {
        let asked = Asked::with(listed(), Some(chain())).await;
        let leave = [
            "allow-credentials: true",
            "allow-origin: https://a.example",
            "expose-headers: x-c",
        ];
        // OPTIONS without the method that it is about is no preflight.
        for method in [Method::GET, Method::OPTIONS] {
            let reply = asked.ask(method, &[("origin", ALLOWED)]).await;
            assert_eq!((reply.text(), said(&reply)), ("a", leave.map(str::to_owned).to_vec()));
        }
        for fields in [
            &[("origin", OTHER)][..],
            &[("origin", "https://A.example")],
            &[PUT],
            &[],
        ] {
            let reply = asked.ask(Method::GET, fields).await;
            assert_eq!((reply.text(), said(&reply)), ("a", vec![]), "{fields:?}");
        }
    });
}

#[test]
fn an_answer_of_the_proxy_itself_may_be_read_too() {
    run(async {
        let route = Route {
            filters: says(CORS, FilterSettings::Cors(listed())),
            ..catch_all(forward(0))
        };
        let nobody = entry(0, cluster(0), &[]);
        let snapshot = snapshot(table("*", vec![route]), vec![nobody], |manager| {
            manager.filters = HttpFilters::new(vec![chain()]);
        });
        let proxy = Proxy::start(Config { snapshot, workers: 1 });
        let mut request = get("www.example.com", "/");
        request
            .headers_mut()
            .insert("origin", HeaderValue::from_static(ALLOWED));
        let reply = proxy.http1().await.send(request).await;
        assert_eq!(
            (reply.status, reply.header("access-control-allow-origin")),
            (503, ALLOWED)
        );
    });
}

#[test]
fn without_the_filter_a_policy_does_nothing() {
    run(async {
        let asked = Asked::with(listed(), None).await;
        let reply = asked.ask(Method::OPTIONS, &[("origin", ALLOWED), PUT]).await;
        assert_eq!((reply.text(), said(&reply)), ("a", vec![]));
    });
}
