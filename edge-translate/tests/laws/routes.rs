//! Generated routes: all matches, all filters, all kinds of references, good and bad.

use super::words::{
    BACKENDS, CUSTOM, CUSTOM_GROUP, GATEWAYS, HOSTNAMES, LISTENERS, NAMESPACES, SERVICE_PORTS, SERVICES, SETS, maybe,
    metadata, number, one_of,
};
use proptest::{collection::vec, option, prelude::*};
use serde_json::{Value, json};

/// Names of routes, which policies point at too.
pub(crate) const ROUTES: &[&str] = &["r0", "r1", "r2"];

fn parent_ref() -> impl Strategy<Value = Value> {
    let section = option::weighted(0.15, one_of(LISTENERS));
    let port = option::weighted(0.1, number(&[80, 443, 9]));
    let odd = option::weighted(0.05, Just("Service"));
    // Two of the Gateways and a ListenerSet are there from the beginning.
    let parent = prop_oneof![
        4 => Just(("g0", Some("a"), None)),
        4 => Just(("g1", Some("b"), None)),
        4 => (one_of(GATEWAYS), option::of(one_of(NAMESPACES)), Just(None)),
        1 => Just(("t0", Some("b"), Some("ListenerSet"))),
        2 => (one_of(SETS), option::of(one_of(NAMESPACES)), Just(Some("ListenerSet"))),
    ];
    (parent, section, port, odd).prop_map(|((name, namespace, kind), section, port, odd)| {
        let kind = odd.or(kind);
        json!({"name": name, "namespace": namespace, "sectionName": section, "port": port, "kind": kind})
    })
}

/// What an HTTPRoute's rule asks of a request.
pub(crate) fn matches() -> impl Strategy<Value = Value> {
    let path = prop_oneof![
        6 => Just(Value::Null),
        6 => one_of(&["/", "/a", "/a/", "/a/b"]).prop_map(|value| json!({"type": "PathPrefix", "value": value})),
        4 => one_of(&["/a", "/a/b"]).prop_map(|value| json!({"type": "Exact", "value": value})),
        1 => one_of(&["/a.*", "/a.*", "/(", "/[0-9]+"]).prop_map(|value| json!({"type": "RegularExpression", "value": value})),
        1 => Just(json!({"type": "PathPrefix", "value": "no-slash"})),
        1 => Just(json!({"type": "Unheard", "value": "/a"})),
    ];
    let named = || {
        (
            maybe(&["Exact", "RegularExpression"]),
            one_of(&["x", "X", "y"]),
            one_of(&["1", "1", "2", "2", "3", "["]),
        )
            .prop_map(|(kind, name, value)| json!({"type": kind, "name": name, "value": value}))
    };
    (path, few(named()), few(named()), option::weighted(0.2, one_of(&["GET", "GET", "POST", "POST", "ODD"]))).prop_map(
        |(path, headers, query, method)| json!({"path": path, "headers": headers, "queryParams": query, "method": method}),
    )
}

/// Mostly none, sometimes up to two.
fn few(one: impl Strategy<Value = Value>) -> impl Strategy<Value = Vec<Value>> {
    option::weighted(0.3, vec(one, 1..3)).prop_map(Option::unwrap_or_default)
}

fn target() -> impl Strategy<Value = Value> {
    let service = (one_of(SERVICES), option::weighted(0.9, number(SERVICE_PORTS)))
        .prop_map(|(name, port)| json!({"name": name, "port": port}));
    let own = one_of(BACKENDS).prop_map(|name| json!({"group": "gateway.edge", "kind": "Backend", "name": name}));
    let import = number(SERVICE_PORTS).prop_map(
        |port| json!({"group": "multicluster.x-k8s.io", "kind": "ServiceImport", "name": "s0", "port": port}),
    );
    let odd = Just(json!({"group": "example.com", "kind": "Bucket", "name": "s0"}));
    let target = prop_oneof![8 => service, 3 => own, 1 => import, 3 => custom(), 1 => odd];
    (target, option::weighted(0.4, one_of(NAMESPACES))).prop_map(|(mut target, namespace)| {
        target["namespace"] = json!(namespace);
        target
    })
}

/// A backend that extension services know; objects of the second kind are none, and nobody knows the third.
pub(crate) fn custom() -> impl Strategy<Value = Value> {
    let kind = one_of(&["Pool", "Pool", "Pool", "Pool", "Cache", "Unheard"]);
    (kind, one_of(CUSTOM), option::of(number(SERVICE_PORTS)))
        .prop_map(|(kind, name, port)| json!({"group": CUSTOM_GROUP, "kind": kind, "name": name, "port": port}))
}

fn header_modifier() -> impl Strategy<Value = Value> {
    let header = || {
        (
            one_of(&["x-a", "x-a", "X-A", "X-A", "x-b", "x-b", "host", ""]),
            one_of(&["1", "1", "2", "2", "3", "\u{7f}"]),
        )
    };
    let list = || {
        vec(
            header().prop_map(|(name, value)| json!({"name": name, "value": value})),
            0..3,
        )
    };
    (list(), list(), vec(one_of(&["x-a", "X-A", "x-c", "x-d", "host"]), 0..2))
        .prop_map(|(set, add, remove)| json!({"set": set, "add": add, "remove": remove}))
}

fn path_modifier() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => Just(Value::Null),
        1 => Just(json!({"type": "ReplaceFullPath", "replaceFullPath": "/new"})),
        1 => Just(json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"})),
        1 => Just(json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": "/new"})),
        1 => Just(json!({"type": "ReplacePrefixMatch", "replaceFullPath": "/new"})),
        1 => Just(json!({"type": "ReplaceFullPath"})),
    ]
}

fn filter() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => header_modifier().prop_map(|m| json!({"type": "RequestHeaderModifier", "requestHeaderModifier": m})),
        2 => header_modifier().prop_map(|m| json!({"type": "ResponseHeaderModifier", "responseHeaderModifier": m})),
        2 => (maybe(&["http", "https", "ftp"]), maybe(&["to.example.com", "Bad!"]), option::of(number(&[301, 302, 200])), path_modifier())
            .prop_map(|(scheme, hostname, code, path)| {
                json!({"type": "RequestRedirect", "requestRedirect": {"scheme": scheme, "hostname": hostname, "statusCode": code, "path": path}})
            }),
        2 => (maybe(&["to.example.com", "Bad!"]), path_modifier())
            .prop_map(|(hostname, path)| json!({"type": "URLRewrite", "urlRewrite": {"hostname": hostname, "path": path}})),
        2 => (target(), option::of(number(&[0, 50, 100]))).prop_map(|(target, percent)| {
            json!({"type": "RequestMirror", "requestMirror": {"backendRef": target, "percent": percent}})
        }),
        1 => Just(json!({"type": "ExtensionRef", "extensionRef": {"group": "example.com", "kind": "Odd", "name": "x"}})),
        1 => (one_of(&["Cache", "Cache", "Pool"]), one_of(CUSTOM)).prop_map(|(kind, name)| {
            json!({"type": "ExtensionRef", "extensionRef": {"group": CUSTOM_GROUP, "kind": kind, "name": name}})
        }),
        2 => (one_of(&["*", "https://a.example", "https://*.example", "odd"]), option::of(proptest::bool::ANY), one_of(&["*", "GET", "bad name"]))
            .prop_map(|(origin, credentials, method)| {
                json!({"type": "CORS", "cors": {"allowOrigins": [origin], "allowCredentials": credentials, "allowMethods": [method]}})
            }),
        1 => Just(json!({"type": "RequestMirror"})),
        1 => Just(json!({"type": "Unheard"})),
    ]
}

/// One rule, most of the time without filters so that traffic flows.
pub(crate) fn rule() -> impl Strategy<Value = Value> {
    let filters = || prop_oneof![4 => Just(Vec::new()), 1 => vec(filter(), 1..3)];
    let reference =
        (target(), option::of(number(&[0, 1, 1, 3])), filters()).prop_map(|(mut target, weight, filters)| {
            target["weight"] = json!(weight);
            target["filters"] = json!(filters);
            target
        });
    let timeouts = (maybe(&["10s", "10s", "0s", "0s", "many"]), maybe(&["1s", "500ms"]))
        .prop_map(|(request, backend)| json!({"request": request, "backendRequest": backend}));
    let retry = Just(json!({"attempts": 2, "codes": [503], "backoff": "1s"}));
    (
        option::weighted(0.3, one_of(&["one", "two"])),
        vec(matches(), 0..3),
        filters(),
        vec(reference, 0..3),
        option::weighted(0.2, timeouts),
        option::weighted(0.2, retry),
    )
        .prop_map(|(name, matches, filters, references, timeouts, retry)| {
            json!({
                "name": name, "matches": matches, "filters": filters, "backendRefs": references, "timeouts": timeouts,
                "retry": retry,
            })
        })
}

pub(crate) fn http_route() -> impl Strategy<Value = Value> {
    (
        metadata(ROUTES),
        vec(parent_ref(), 1..4),
        vec(one_of(HOSTNAMES), 0..3),
        option::weighted(0.95, vec(rule(), 0..3)),
    )
        .prop_map(|(metadata, parents, hostnames, rules)| {
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": metadata,
                "spec": {"parentRefs": parents, "hostnames": hostnames, "rules": rules},
            })
        })
}

/// Matches on calls, alone and mixed, good and bad.
fn call() -> impl Strategy<Value = Value> {
    let method = (
        maybe(&["Exact", "Exact", "RegularExpression", "Unheard"]),
        maybe(&["a.B", "a.B", "a.LongerB", "a|b", "("]),
        maybe(&["C", "C", "D", "C|D"]),
    )
        .prop_map(|(kind, service, method)| json!({"type": kind, "service": service, "method": method}));
    let header = (
        maybe(&["Exact", "RegularExpression"]),
        one_of(&["x", "X"]),
        one_of(&["1", "1", "2", "["]),
    )
        .prop_map(|(kind, name, value)| json!({"type": kind, "name": name, "value": value}));
    (option::weighted(0.8, method), few(header))
        .prop_map(|(method, headers)| json!({"method": method, "headers": headers}))
}

pub(crate) fn grpc_route() -> impl Strategy<Value = Value> {
    let filters = || prop_oneof![4 => Just(Vec::new()), 1 => vec(filter(), 1..3)];
    let reference =
        (target(), option::of(number(&[0, 1, 1, 3])), filters()).prop_map(|(mut target, weight, filters)| {
            target["weight"] = json!(weight);
            target["filters"] = json!(filters);
            target
        });
    let rule = (vec(call(), 0..3), filters(), vec(reference, 0..3)).prop_map(
        |(matches, filters, references)| json!({"matches": matches, "filters": filters, "backendRefs": references}),
    );
    (
        metadata(ROUTES),
        vec(parent_ref(), 1..4),
        vec(one_of(HOSTNAMES), 0..3),
        vec(rule, 0..3),
    )
        .prop_map(|(metadata, parents, hostnames, rules)| {
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GRPCRoute", "metadata": metadata,
                "spec": {"parentRefs": parents, "hostnames": hostnames, "rules": rules},
            })
        })
}

/// Where a stream goes, and with which share.
fn weighted_target() -> impl Strategy<Value = Value> {
    (target(), option::of(number(&[0, 1, 3]))).prop_map(|(mut target, weight)| {
        target["weight"] = json!(weight);
        target
    })
}

/// Names that a TLSRoute may ask for, none at all included.
pub(crate) fn tls_route() -> impl Strategy<Value = Value> {
    let rules = vec(
        vec(weighted_target(), 1..3).prop_map(|references| json!({"backendRefs": references})),
        1..2,
    );
    (
        metadata(ROUTES),
        vec(parent_ref(), 1..3),
        vec(one_of(HOSTNAMES), 0..3),
        rules,
    )
        .prop_map(|(metadata, parents, hostnames, rules)| {
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "TLSRoute", "metadata": metadata,
                "spec": {"parentRefs": parents, "hostnames": hostnames, "rules": rules},
            })
        })
}

/// A TCPRoute or UDPRoute.
pub(crate) fn stream_route() -> impl Strategy<Value = Value> {
    let rules = vec(
        vec(weighted_target(), 0..3).prop_map(|references| json!({"backendRefs": references})),
        0..3,
    );
    (
        one_of(&["TCPRoute", "UDPRoute"]),
        metadata(ROUTES),
        vec(parent_ref(), 1..3),
        rules,
    )
        .prop_map(|(kind, metadata, parents, rules)| {
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1alpha2", "kind": kind, "metadata": metadata,
                "spec": {"parentRefs": parents, "rules": rules},
            })
        })
}
