use super::*;
use crate::sample;
use edge_ir::{
    Cors, FilterEffect, FilterId, FilterKind, Fraction, HeaderEdit, PathMatch, PathRewrite, Redirect, RedirectPort,
    RegexRewrite, RouteEffect, RouteFilter, RouteMatch, Seldom, ValueMatch, ValueMatcher,
};
use prost::Message;
use std::sync::Arc;

fn header(name: &str, value: &str) -> HeaderEdit {
    HeaderEdit {
        name: name.into(),
        value: value.into(),
    }
}

fn to(destination: Destination) -> Forward {
    Forward {
        destination,
        timeout: None,
        retry: None,
        path_rewrite: None,
        host_rewrite: None,
        forwarded_host: Default::default(),
        mirrors: Seldom::default(),
        traffic: None,
    }
}

/// Cross-origin rules, by an instance that all routes share or by one of a policy.
fn cors(owner: &str) -> RouteFilter {
    let rules = Cors {
        origins: vec![ValueMatcher::Exact("https://a.example".into())],
        methods: vec!["GET".into()],
        headers: vec![],
        exposed_headers: vec![],
        max_age: Some(5),
        credentials: true,
    };
    RouteFilter {
        id: FilterId {
            kind: FilterKind::Cors,
            owner: owner.into(),
        },
        effect: FilterEffect::Cors(Arc::new(rules)),
    }
}

/// A route with something in every field, which the edit may replace.
fn full_route() -> Route {
    let edits = || HeaderEdits {
        set: vec![header("x-a", "1"), header("Host", "b.example")],
        add: vec![header("x-empty", ""), header("x-percent", "5%")],
        remove: vec!["x-gone".into()],
    };
    let share = |cluster: &str, host: Option<&str>| BackendShare {
        cluster: cluster.into(),
        weight: 300,
        request_headers: edits(),
        response_headers: edits(),
        host_rewrite: host.map(Into::into),
        filters: Arc::new([cors("")]),
    };
    let mut action = to(Destination::Weighted(Box::new(Shares {
        shares: vec![share("c", None), share("d", Some("d.example"))],
        invalid_weight: 7,
        unresolved: Unresolved::Error,
    })));
    action.timeout = Some(Timeout(1500));
    action.retry = Some(Arc::new(RetryPolicy {
        retries: 2,
        triggers: Vec::new(),
        codes: vec![503],
        backoff: Some(Timeout(100)),
        max_backoff: None,
        per_try_timeout: Some(Timeout(0)),
        attempts_per_priority: None,
    }));
    action.path_rewrite = Some(Box::new(PathRewrite::Full("/b".into())));
    action.mirrors = vec![Mirror {
        cluster: "m".into(),
        fraction: Fraction(5),
    }]
    .into();
    let value = |name: &str, value: ValueMatcher| ValueMatch {
        name: name.into(),
        value,
    };
    let route = (*sample::route_with("r", "/a", Action::Forward(action))).clone();
    Route {
        matches: RouteMatch {
            method: Some("GET".into()),
            headers: [value("x-m", ValueMatcher::Exact("".into()))].into(),
            query: [value("q", ValueMatcher::Regex("a.*".into()))].into(),
            cookies: [value("c", ValueMatcher::Exact("1".into()))].into(),
            ..route.matches
        },
        portion: Some(Fraction(250_000)),
        effect: Arc::new(RouteEffect {
            request_headers: edits().boxed(),
            response_headers: edits().boxed(),
            // A generated map has no order: more than one entry has a test of its own.
            filters: Arc::new([cors("")]),
            // A generated Struct is a map without order.
            origins: Arc::new([]),
            ..RouteEffect::clone(&route.effect)
        }),
        ..route
    }
}

fn encoded(route: &Route) -> Vec<u8> {
    let mut draft = Draft::default();
    let host = sample::host("a.example", Vec::new());
    let sharing = &mut Sharing::default();
    put_route(&mut draft, sharing, &host, route, Method::Any);
    draft.bytes
}

#[test]
fn routes_are_written_as_generated_types_write_them() {
    let edited = |edit: &dyn Fn(&mut Route)| {
        let mut route = full_route();
        edit(&mut route);
        route
    };
    let acting = |action: Action| edited(&|r| Arc::make_mut(&mut r.effect).action = action.clone());
    let by = |path_rewrite| Forward {
        path_rewrite: Some(Box::new(path_rewrite)),
        ..to(Destination::Cluster("c".into()))
    };
    let prefix = PathRewrite::Prefix {
        matched: "/a".into(),
        replacement: "/b".into(),
    };
    let rewrite = RegexRewrite {
        pattern: "^/a/([^/]+)".into(),
        substitution: r"\1".into(),
    };
    let to_host = |host_rewrite| Forward {
        host_rewrite: Some(Box::new(host_rewrite)),
        forwarded_host: ForwardedHost::Untold,
        ..to(Destination::Cluster("c".into()))
    };
    let redirect = Redirect {
        code: 301,
        scheme: Some("https".into()),
        host: Some("b.example".into()),
        port: RedirectPort::Number(8443),
        path: Some(prefix.clone()),
    };
    let respond = |body: Option<ResponseBody>| Action::Respond(DirectResponse { status: 404, body });
    for route in [
        full_route(),
        acting(Action::Forward(by(prefix.clone()))),
        acting(Action::Forward(by(PathRewrite::Regex(rewrite.clone())))),
        acting(Action::Forward(to_host(HostRewrite::Header("x-host".into())))),
        acting(Action::Forward(to_host(HostRewrite::Endpoint))),
        acting(Action::Forward(to_host(HostRewrite::Path(Arc::new(rewrite.clone()))))),
        acting(Action::Redirect(Box::new(redirect.clone()))),
        acting(respond(None)),
        acting(respond(Some("gone".into()))),
        acting(respond(Some(ResponseBody::Format("at %START_TIME%".into())))),
        edited(&|r| r.matches.path = PathMatch::Any),
        edited(&|r| r.matches.path = PathMatch::Exact("/".into())),
        edited(&|r| r.matches.path = PathMatch::Regex("/a+".into())),
        edited(&|r| r.name = "n".repeat(20_000).as_str().into()),
    ] {
        let bytes = encoded(&route);
        let generated = pb::Route::decode(&*bytes).unwrap();
        assert_eq!(generated.encode_to_vec(), bytes, "{route:?}");
    }
}

#[test]
fn a_route_names_every_instance_that_it_uses() {
    let mut route = full_route();
    Arc::make_mut(&mut route.effect).filters = Arc::new([cors(""), cors("securitypolicy/default/p")]);
    let bytes = encoded(&route);
    let settings = pb::Route::decode(&*bytes).unwrap().typed_per_filter_config;
    let mut names: Vec<_> = settings.keys().map(String::as_str).collect();
    names.sort_unstable();
    let own = "envoy.filters.http.cors/securitypolicy/default/p";
    assert_eq!(names, ["envoy.filters.http.cors", own]);
    assert_eq!(settings[own].type_url, settings["envoy.filters.http.cors"].type_url);
}
