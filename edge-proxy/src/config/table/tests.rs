use http::{HeaderMap, HeaderValue, StatusCode};
use proptest::prelude::{Just, Strategy, prop};
use proptest::test_runner::Config;
use proptest::{prop_assert_eq, prop_oneof, proptest};
use regex::Regex;

use super::*;
use crate::config::header::{HeaderCondition, HeaderField, HeaderTest, StringCondition};
use crate::config::route::{Action, DirectBody, DirectResponse, PathCondition};

fn route(name: &str, path: PathCondition, headers: Vec<HeaderCondition>) -> Route {
    let direct = DirectResponse {
        status: StatusCode::OK,
        body: DirectBody::Constant(bytes::Bytes::new()),
        content_type: None,
    };
    Route {
        name: name.into(),
        path,
        headers: headers.into(),
        query: Box::default(),
        cookies: Box::default(),
        fraction: None,
        grpc_only: false,
        filters: crate::config::filter::RouteFilters::default(),
        tracing: None,
        action: Action::Direct(Box::new(direct)),
        request_headers: Arc::from([]),
        response_headers: Arc::from([]),
        metadata: Box::default(),
    }
}

fn host(routes: Vec<Route>) -> VirtualHost {
    let index = PathIndex::new(&routes);
    VirtualHost {
        name: "h".into(),
        routes: routes.into(),
        index,
        require_tls: TlsRequirement::None,
    }
}

fn view<'a>(path: &'a str, headers: &'a HeaderMap) -> RequestView<'a> {
    RequestView {
        method: &Method::GET,
        scheme: "http",
        authority: "example.com",
        path_and_query: path,
        headers,
        random: 0,
    }
}

fn found<'a>(host: &'a VirtualHost, path: &str) -> Option<&'a str> {
    host.find(&view(path, &HeaderMap::new())).map(|route| &*route.name)
}

#[test]
fn a_separated_prefix_ends_at_a_segment() {
    let host = host(vec![route("foo", PathCondition::Separated("/foo".into()), vec![])]);
    assert_eq!(found(&host, "/foo"), Some("foo"));
    assert_eq!(found(&host, "/foo/"), Some("foo"));
    assert_eq!(found(&host, "/foo/bar?x=1"), Some("foo"));
    assert_eq!(found(&host, "/foobar"), None);
    assert_eq!(found(&host, "/"), None);
}

#[test]
fn the_order_of_the_list_decides_not_the_kind_of_condition() {
    let host = host(vec![
        route("any", PathCondition::Prefix("/".into()), vec![]),
        route("exact", PathCondition::Exact("/a".into()), vec![]),
    ]);
    assert_eq!(found(&host, "/a"), Some("any"));
}

#[test]
fn a_route_whose_header_condition_fails_leaves_the_request_to_the_next() {
    let condition = HeaderCondition {
        field: HeaderField::Named(http::HeaderName::from_static("x-a")),
        test: HeaderTest::Value(StringCondition::Exact("1".into())),
        invert: false,
        missing_as_empty: false,
    };
    let host = host(vec![
        route("with", PathCondition::Exact("/a".into()), vec![condition]),
        route("without", PathCondition::Separated("/a".into()), vec![]),
    ]);
    assert_eq!(found(&host, "/a"), Some("without"));
    let mut headers = HeaderMap::new();
    headers.insert("x-a", HeaderValue::from_static("1"));
    assert_eq!(host.find(&view("/a", &headers)).map(|route| &*route.name), Some("with"));
    headers.append("x-a", HeaderValue::from_static("2"));
    assert_eq!(
        host.find(&view("/a", &headers)).map(|route| &*route.name),
        Some("with"),
        "each line is asked"
    );
}

/// What Envoy 1.40 does with the same matchers.
#[test]
fn one_line_of_several_is_enough_for_a_condition() {
    let condition = |test: &HeaderTest, invert| HeaderCondition {
        field: HeaderField::Named(http::HeaderName::from_static("x-a")),
        test: test.clone(),
        invert,
        missing_as_empty: false,
    };
    let mut headers = HeaderMap::new();
    for value in ["1", "23"] {
        headers.append("x-a", HeaderValue::from_static(value));
    }
    let exactly = |text: &str| HeaderTest::Value(StringCondition::Exact(text.into()));
    for (test, holds) in [
        (exactly("1"), true),
        (exactly("23"), true),
        (exactly("1,23"), false),
        (HeaderTest::Value(StringCondition::Prefix("2".into())), true),
        (HeaderTest::Range(20, 30), true),
        (HeaderTest::Range(2, 20), false),
        (HeaderTest::Present, true),
        (HeaderTest::Absent, false),
    ] {
        for invert in [false, true] {
            let condition = condition(&test, invert);
            assert_eq!(condition.holds_in(&headers), holds != invert, "{condition:?}");
            assert_eq!(condition.holds(&view("/", &headers)), holds != invert, "{condition:?}");
        }
    }
}

#[test]
fn hosts_are_found_exactly_then_by_the_longest_wildcard() {
    let named = |name: &str| {
        let mut host = host(vec![]);
        host.name = name.into();
        Arc::new(host)
    };
    let mut hosts = HostTable::default();
    hosts.exact.insert("a.example.com".into(), named("exact"));
    for suffix in [".example.com", ".com", "-x.example.com"] {
        hosts
            .suffixes
            .push((suffix.len(), [(suffix.into(), named(suffix))].into_iter().collect()));
    }
    hosts.suffixes.sort_by_key(|(len, _)| std::cmp::Reverse(*len));
    hosts
        .prefixes
        .push((4, [("www.".into(), named("www."))].into_iter().collect()));
    let table = RouteTable {
        name: "t".into(),
        hosts,
        ignore_port: true,
    };
    let name = |authority: &str| table.virtual_host(authority).map(|host| host.name.to_string());
    assert_eq!(name("A.Example.com:8080").as_deref(), Some("exact"));
    assert_eq!(name("b.a.example.com").as_deref(), Some(".example.com"));
    assert_eq!(name("b-x.example.com").as_deref(), Some("-x.example.com"));
    assert_eq!(name("www.example.org").as_deref(), Some("www."));
    assert_eq!(
        name(".com").as_deref(),
        None,
        "a wildcard stands for at least one character"
    );
    assert_eq!(name("example.org"), None);
}

/// Few segments, so that paths and conditions meet often.
fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just("ab"), Just("")], 0..4)
        .prop_map(|parts| format!("/{}", parts.join("/")))
}

fn condition() -> impl Strategy<Value = PathCondition> {
    prop_oneof![
        path().prop_map(|path| PathCondition::Exact(path.into())),
        path().prop_map(|path| PathCondition::Prefix(path.into())),
        Just(PathCondition::Prefix("".into())),
        path().prop_map(|path| match path.trim_end_matches('/') {
            "" => PathCondition::Prefix("/".into()),
            path => PathCondition::Separated(path.into()),
        }),
        path().prop_map(|path| {
            let pattern = format!("^(?:{}.*)$", regex::escape(&path));
            PathCondition::Regex(Box::new(Regex::new(&pattern).expect("escaped")))
        }),
        path().prop_map(|path| PathCondition::ExactIgnoreCase(path.to_uppercase().into())),
        path().prop_map(|path| PathCondition::PrefixIgnoreCase(path.to_uppercase().into())),
        Just(PathCondition::Connect),
    ]
}

fn header_condition() -> impl Strategy<Value = Vec<HeaderCondition>> {
    prop_oneof![
        3 => Just(Vec::new()),
        1 => (prop_oneof![Just("0"), Just("1")], proptest::bool::ANY).prop_map(|(value, invert)| vec![HeaderCondition {
            field: HeaderField::Named(http::HeaderName::from_static("x-a")),
            test: HeaderTest::Value(StringCondition::Exact(value.into())),
            invert,
            missing_as_empty: false,
        }]),
    ]
}

/// What [`VirtualHost::find`] must equal: the list from its start.
fn find_linear<'h>(host: &'h VirtualHost, request: &RequestView<'_>) -> Option<&'h Route> {
    let path = request.path();
    let mut routes = host.routes.iter();
    routes.find(|route| route.path.matches(path, request.method) && route.takes(request))
}

proptest! {
    #![proptest_config(Config { cases: 400, ..Config::default() })]
    /// The law of the table: whatever the list, the answer is that of going through it from its start.
    #[test]
    fn the_index_answers_as_the_linear_scan(
        conditions in prop::collection::vec((condition(), header_condition()), 0..24),
        paths in prop::collection::vec(path(), 1..16),
        value in prop_oneof![Just(None), Just(Some("0")), Just(Some("1"))],
        connects in proptest::bool::ANY,
    ) {
        let routes = conditions
            .into_iter()
            .enumerate()
            .map(|(index, (path, headers))| route(&index.to_string(), path, headers))
            .collect();
        let host = host(routes);
        let mut headers = HeaderMap::new();
        if let Some(value) = value {
            headers.insert("x-a", HeaderValue::from_static(value));
        }
        for path in &paths {
            let mut view = view(path, &headers);
            if connects {
                view.method = &Method::CONNECT;
            }
            let (fast, slow) = (host.find(&view), find_linear(&host, &view));
            prop_assert_eq!(fast.map(|route| &route.name), slow.map(|route| &route.name));
        }
    }
}
