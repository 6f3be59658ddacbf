//! Generated objects around routes: classes, Gateways, backends with endpoints, secrets, permissions, policies.

use super::words::{
    AUTHORITIES, BACKENDS, CLASSES, CUSTOM, CUSTOM_GROUP, GATEWAYS, HOSTNAMES, LISTENER_PORTS, LISTENERS, NAMESPACES,
    PROXIES, SECRETS, SERVICE_PORTS, SERVICES, SETS, maybe, metadata, number, one_of,
};
use proptest::{bool, collection::vec, option, prelude::*};
use serde_json::{Value, json};

pub(crate) fn gateway_class() -> impl Strategy<Value = Value> {
    let parameters = prop_oneof![
        2 => Just(Value::Null),
        4 => (one_of(PROXIES), one_of(NAMESPACES)).prop_map(|(name, namespace)| {
            json!({"group": "gateway.edge", "kind": "EdgeProxy", "name": name, "namespace": namespace})
        }),
        1 => Just(json!({"group": "gateway.edge", "kind": "EdgeProxy", "name": "p0"})),
        1 => Just(json!({"group": "", "kind": "ConfigMap", "name": "p0", "namespace": "a"})),
    ];
    let controller = one_of(&[
        "gateway.edge/gatewayclass-controller",
        "gateway.edge/gatewayclass-controller",
        "gateway.edge/gatewayclass-controller",
        "gateway.edge/gatewayclass-controller",
        "gateway.edge/gatewayclass-controller",
        "gateway.edge/gatewayclass-controller",
        "example.com/other",
    ]);
    (one_of(&["plain", "merged"]), controller, parameters).prop_map(|(name, controller, parameters)| {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": name},
            "spec": {"controllerName": controller, "parametersRef": parameters},
        })
    })
}

pub(crate) fn edge_proxy() -> impl Strategy<Value = Value> {
    (
        metadata(PROXIES),
        maybe(&["Service", "Endpoint"]),
        bool::weighted(0.5),
        bool::weighted(0.3),
        maybe(&["IPv4", "IPv6", "DualStack"]),
        bool::weighted(0.1),
    )
        .prop_map(|(metadata, routing, merge, keep_order, family, broken)| {
            let cycle = json!([{"name": "x", "before": "y"}, {"name": "y", "before": "x"}]);
            json!({
                "apiVersion": "gateway.edge/v1alpha1", "kind": "EdgeProxy", "metadata": metadata,
                "spec": {
                    "routingType": routing, "mergeGateways": merge.then_some(true), "ipFamily": family,
                    "preserveRouteOrder": keep_order.then_some(true), "filterOrder": broken.then_some(cycle),
                },
            })
        })
}

fn certificate_refs() -> impl Strategy<Value = Vec<Value>> {
    let reference = (
        one_of(SECRETS),
        option::weighted(0.3, one_of(NAMESPACES)),
        maybe(&["Secret"]),
    )
        .prop_map(|(name, namespace, kind)| json!({"name": name, "namespace": namespace, "kind": kind}));
    vec(
        prop_oneof![9 => reference.boxed(), 1 => Just(json!({"kind": "ConfigMap", "name": "c0"})).boxed()],
        0..3,
    )
}

fn tls() -> impl Strategy<Value = Value> {
    (
        one_of(&["Terminate", "Terminate", "Terminate", "Passthrough"]),
        certificate_refs(),
    )
        .prop_map(|(mode, refs)| json!({"mode": mode, "certificateRefs": refs}))
}

fn allowed_routes() -> impl Strategy<Value = Value> {
    let selector = prop_oneof![
        Just(json!({"matchLabels": {"team": "x"}})),
        Just(json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["y"]}]})),
        Just(json!({"matchExpressions": [{"key": "team", "operator": "In", "values": []}]})),
        Just(json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]})),
        Just(json!({"matchExpressions": [{"key": "team", "operator": "Unheard"}]})),
        Just(Value::Null),
    ];
    let namespaces = prop_oneof![
        2 => Just(Value::Null),
        8 => Just(json!({"from": "All"})),
        1 => Just(json!({"from": "Same"})),
        1 => Just(json!({"from": "None"})),
        2 => selector.prop_map(|selector| json!({"from": "Selector", "selector": selector})),
    ];
    let kinds = prop_oneof![
        15 => Just(Value::Null),
        1 => Just(json!([{"kind": "HTTPRoute"}])),
        1 => Just(json!([{"kind": "GRPCRoute"}, {"kind": "UDPRoute"}])),
        1 => Just(json!([{"group": "example.com", "kind": "HTTPRoute"}])),
    ];
    (namespaces, kinds).prop_map(|(namespaces, kinds)| json!({"namespaces": namespaces, "kinds": kinds}))
}

/// Usually a listener that makes sense, sometimes any combination.
fn listener() -> impl Strategy<Value = Value> {
    let secret = json!({"certificateRefs": [{"name": "c0"}]});
    let kind = prop_oneof![
        6 => Just(("HTTP", Value::Null)).boxed(),
        2 => Just(("HTTPS", secret.clone())).boxed(),
        2 => Just(("TLS", secret)).boxed(),
        1 => Just(("TLS", json!({"mode": "Passthrough"}))).boxed(),
        2 => one_of(&["TCP", "UDP"]).prop_map(|protocol| (protocol, Value::Null)).boxed(),
        3 => tls().prop_map(|tls| ("HTTPS", tls)).boxed(),
        2 => (one_of(&["HTTP", "HTTPS", "TLS", "TCP", "UDP", "example.com/odd"]), prop_oneof![Just(Value::Null), tls()]).boxed(),
    ];
    let hostname = (option::weighted(0.6, one_of(HOSTNAMES)), bool::weighted(0.1));
    (kind, number(LISTENER_PORTS), hostname, allowed_routes()).prop_map(
        |((protocol, tls), port, (hostname, always), allowed)| {
            let hostname = hostname.filter(|_| always || !matches!(protocol, "TCP" | "UDP"));
            json!({"protocol": protocol, "tls": tls, "port": port, "hostname": hostname, "allowedRoutes": allowed})
        },
    )
}

pub(crate) fn gateway() -> impl Strategy<Value = Value> {
    let parameters = prop_oneof![
        12 => Just(Value::Null),
        2 => one_of(PROXIES).prop_map(|name| json!({"group": "gateway.edge", "kind": "EdgeProxy", "name": name})),
        1 => Just(json!({"group": "", "kind": "ConfigMap", "name": "p0"})),
    ];
    let tls = prop_oneof![
        8 => Just(Value::Null),
        1 => one_of(SECRETS).prop_map(|name| json!({"backend": {"clientCertificateRef": {"name": name}}})),
        1 => Just(json!({"frontend": {"default": {"validation": {"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca0"}]}}}})),
    ];
    let addresses = prop_oneof![
        8 => Just(Value::Null),
        1 => Just(json!([{"value": "192.0.2.1"}])),
        1 => Just(json!([{"type": "example.com/odd", "value": "x"}])),
    ];
    (
        metadata(GATEWAYS),
        one_of(CLASSES),
        vec(listener(), 0..5),
        parameters,
        tls,
        addresses,
        allowed_listeners(),
    )
        .prop_map(
            |(metadata, class, mut listeners, parameters, tls, addresses, allowed)| {
                for (listener, name) in listeners.iter_mut().zip(LISTENERS) {
                    listener["name"] = json!(name);
                }
                let infrastructure = (!parameters.is_null()).then(|| json!({"parametersRef": parameters}));
                json!({
                    "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": metadata,
                    "spec": {
                        "gatewayClassName": class, "listeners": listeners, "infrastructure": infrastructure,
                        "tls": tls, "addresses": addresses, "allowedListeners": allowed,
                    },
                })
            },
        )
}

/// Which ListenerSets a Gateway takes; absent means none.
fn allowed_listeners() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        4 => Just(json!({"namespaces": {"from": "All"}})),
        1 => Just(json!({"namespaces": {"from": "Same"}})),
        1 => Just(json!({"namespaces": {"from": "None"}})),
        2 => Just(json!({"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "x"}}}})),
    ]
}

/// Listeners that are in the way of each other and of those of Gateways.
pub(crate) fn listener_set() -> impl Strategy<Value = Value> {
    let parent = (
        one_of(GATEWAYS),
        option::of(one_of(NAMESPACES)),
        option::weighted(0.05, Just("Service")),
    );
    (metadata(SETS), parent, vec(listener(), 1..4)).prop_map(|(metadata, (name, namespace, kind), mut listeners)| {
        for (listener, name) in listeners.iter_mut().zip(LISTENERS) {
            listener["name"] = json!(name);
        }
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ListenerSet", "metadata": metadata,
            "spec": {"parentRef": {"name": name, "namespace": namespace, "kind": kind}, "listeners": listeners},
        })
    })
}

fn service_ports() -> impl Strategy<Value = Value> {
    let protocol = one_of(&["TCP", "TCP", "TCP", "UDP"]);
    let app = maybe(&["kubernetes.io/h2c", "kubernetes.io/ws", "kubernetes.io/wss", "http"]);
    let port = (number(SERVICE_PORTS), one_of(&["x", "y"]), protocol, option::weighted(0.3, app)).prop_map(
        |(port, name, protocol, app)| json!({"port": port, "name": name, "protocol": protocol, "appProtocol": app.flatten()}),
    );
    let usual = json!([{"port": 80, "name": "x"}, {"port": 81, "name": "y"}]);
    prop_oneof![2 => Just(usual), 1 => vec(port, 0..3).prop_map(|ports| json!(ports))]
}

pub(crate) fn service() -> impl Strategy<Value = Value> {
    (
        metadata(SERVICES),
        service_ports(),
        maybe(&["10.0.0.1", "10.0.0.2", "None"]),
        option::weighted(0.05, Just("ExternalName")),
    )
        .prop_map(|(metadata, ports, ip, kind)| {
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": metadata,
                "spec": {"ports": ports, "clusterIP": ip, "type": kind},
            })
        })
}

pub(crate) fn service_import() -> impl Strategy<Value = Value> {
    (
        metadata(&["s0"]),
        service_ports(),
        vec(one_of(&["10.1.0.1", "10.1.0.2"]), 0..3),
    )
        .prop_map(|(metadata, ports, ips)| {
            json!({
                "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport", "metadata": metadata,
                "spec": {"type": "ClusterSetIP", "ports": ports, "ips": ips},
            })
        })
}

/// Every combination of conditions, a few addresses, and an owner that changes from one edit to the next.
pub(crate) fn endpoint_slice(families: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let address = |family: &str, n: u8| match family {
        "IPv6" => format!("2001:db8::{n}"),
        "FQDN" => format!("pod{n}.example.net"),
        _ => format!("10.2.0.{n}"),
    };
    let condition = || option::of(bool::ANY);
    let endpoint = (0..4_u8, condition(), condition(), condition());
    let owner = prop_oneof![
        8 => one_of(SERVICES).prop_map(|name| json!({"kubernetes.io/service-name": name})),
        1 => Just(json!({"multicluster.kubernetes.io/service-name": "s0"})),
        1 => Just(Value::Null),
    ];
    let port = (
        maybe(&["x", "y"]),
        option::weighted(0.9, number(&[8080, 8081])),
        one_of(&["TCP", "TCP", "UDP"]),
    )
        .prop_map(|(name, port, protocol)| json!({"name": name, "port": port, "protocol": protocol}));
    let usual = json!([{"name": "x", "port": 8080}, {"name": "y", "port": 8081}]);
    let ports = prop_oneof![2 => Just(usual), 1 => vec(port, 0..3).prop_map(|ports| json!(ports))];
    (
        metadata(&["e0", "e1", "e2"]),
        owner,
        one_of(families),
        vec(endpoint, 0..4),
        ports,
    )
        .prop_map(move |(mut metadata, owner, family, endpoints, ports)| {
            metadata["labels"] = owner;
            let endpoints: Vec<Value> = endpoints
                .into_iter()
                .map(|(n, ready, serving, terminating)| {
                    json!({
                        "addresses": [address(family, n)],
                        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
                    })
                })
                .collect();
            json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
                "addressType": family, "endpoints": endpoints, "ports": ports,
            })
        })
}

pub(crate) fn backend() -> impl Strategy<Value = Value> {
    let endpoint = prop_oneof![
        8 => (0..3_u8).prop_map(|n| json!({"ip": {"address": format!("10.3.0.{n}"), "port": 3000}})),
        4 => (0..2_u8).prop_map(|n| json!({"fqdn": {"hostname": format!("host{n}.example.net"), "port": 443}})),
        1 => Just(json!({"unix": {"path": "/run/x.sock"}})),
        1 => Just(json!({"ip": {"address": "127.0.0.1", "port": 3000}})),
        1 => Just(json!({"ip": {"address": "not an address", "port": 3000}})),
        1 => Just(json!({"fqdn": {"hostname": "one-label", "port": 80}})),
        1 => Just(json!({})),
    ];
    let app = one_of(&["gateway.edge/h2c", "gateway.edge/ws", "gateway.edge/wss"]);
    let tls = option::weighted(0.1, Just(json!({"insecureSkipVerify": true})));
    let kind = option::weighted(0.1, Just("DynamicResolver"));
    (
        metadata(BACKENDS),
        kind,
        vec(endpoint, 0..3),
        option::weighted(0.3, app),
        tls,
    )
        .prop_map(|(metadata, kind, endpoints, app, tls)| {
            let apps = app.map(|app| json!([app]));
            json!({
                "apiVersion": "gateway.edge/v1alpha1", "kind": "Backend", "metadata": metadata,
                "spec": {"type": kind, "endpoints": endpoints, "appProtocols": apps, "tls": tls},
            })
        })
}

/// What only extension services know: of kinds that the configuration names as backends or for rules, or not at all.
pub(crate) fn custom() -> impl Strategy<Value = Value> {
    let kind = one_of(&["Pool", "Pool", "Pool", "Cache", "Unheard"]);
    (metadata(CUSTOM), kind, 0..3_u8).prop_map(|(metadata, kind, size)| {
        json!({
            "apiVersion": format!("{CUSTOM_GROUP}/v1"), "kind": kind, "metadata": metadata, "spec": {"size": size},
        })
    })
}

macro_rules! pem {
    ($name:literal) => {
        include_str!(concat!("../data/", $name))
    };
}

fn pair(certificate: &str, key: &str) -> Value {
    json!({"tls.crt": certificate, "tls.key": key})
}

/// For `a.example.com`, with an elliptic key.
pub(crate) fn good_certificate() -> Value {
    pair(pem!("exact-ec.crt"), pem!("exact-ec.key"))
}

/// Certificates that work, keys of others, text that is none, and what points to servers, or nowhere.
pub(crate) fn secret() -> impl Strategy<Value = Value> {
    let data = prop_oneof![
        4 => Just(good_certificate()),
        2 => Just(pair(pem!("wildcard-ec.crt"), pem!("wildcard-ec.key"))),
        1 => Just(pair(pem!("exact-rsa.crt"), pem!("exact-rsa.key"))),
        1 => Just(pair(pem!("exact-ec.crt"), pem!("wildcard-ec.key"))),
        1 => Just(pair("no certificate", pem!("exact-ec.key"))),
        1 => Just(pair("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", pem!("exact-ec.key"))),
        1 => Just(json!({"tls.crt": pem!("exact-ec.crt")})),
    ];
    let held = data.prop_map(|data| ("kubernetes.io/tls", data));
    let url = prop_oneof![4 => Just("/run/sds.sock"), 2 => Just("unix:/run/other.sock"), 1 => Just("https://sds")];
    let pointed = (url, maybe(&["x", "y"])).prop_map(|(url, name)| {
        let data = json!({"url": url, "secretName": name});
        ("gateway.edge/sds", data)
    });
    (metadata(SECRETS), prop_oneof![4 => held, 1 => pointed]).prop_map(|(metadata, (kind, data))| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "stringData": data})
    })
}

pub(crate) fn namespace() -> impl Strategy<Value = Value> {
    (one_of(NAMESPACES), maybe(&["x", "y"])).prop_map(|(name, team)| {
        let labels = team.map(|team| json!({"team": team}));
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    })
}

pub(crate) fn reference_grant() -> impl Strategy<Value = Value> {
    let from = prop_oneof![
        3 => Just("HTTPRoute"),
        3 => Just("Gateway"),
        1 => Just("ListenerSet"),
        1 => Just("GRPCRoute"),
        1 => Just("TLSRoute"),
        1 => Just("TCPRoute"),
        1 => Just("UDPRoute"),
        1 => Just("SecurityPolicy"),
        1 => Just("EdgeExtensionPolicy"),
    ];
    let to = prop_oneof![
        Just(json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"})),
        Just(json!({"group": "", "kind": "Service"})),
        Just(json!({"group": "", "kind": "Service", "name": "s0"})),
        Just(json!({"group": "", "kind": "Secret"})),
        Just(json!({"group": "gateway.edge", "kind": "Backend"})),
        Just(json!({"group": CUSTOM_GROUP, "kind": "Pool"})),
        Just(json!({"group": CUSTOM_GROUP, "kind": "Pool", "name": "q0"})),
    ];
    (metadata(&["r0", "r1"]), from, one_of(NAMESPACES), vec(to, 1..3)).prop_map(|(metadata, kind, namespace, to)| {
        let group = match kind {
            "SecurityPolicy" | "EdgeExtensionPolicy" => "gateway.edge",
            _ => "gateway.networking.k8s.io",
        };
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant", "metadata": metadata,
            "spec": {"from": [{"group": group, "kind": kind, "namespace": namespace}], "to": to},
        })
    })
}

/// Policies that can't be honoured.
pub(crate) fn policy() -> impl Strategy<Value = Value> {
    const GROUP: &str = "gateway.networking.k8s.io";
    let target = prop_oneof![
        one_of(&["r0", "r1"]).prop_map(|name| json!({"group": GROUP, "kind": "HTTPRoute", "name": name})),
        one_of(&["r0", "r1"]).prop_map(|name| json!({"group": GROUP, "kind": "GRPCRoute", "name": name})),
        one_of(GATEWAYS).prop_map(|name| json!({"group": GROUP, "kind": "Gateway", "name": name})),
        one_of(SETS).prop_map(|name| json!({"group": GROUP, "kind": "ListenerSet", "name": name})),
    ];
    let chosen = option::weighted(0.4, maybe(&["Same", "All", "All", "Selector"]));
    let says = prop_oneof![3 => Just(("SecurityPolicy", invalid_security())), 2 => extensions()];
    let listless = prop::bool::weighted(0.2);
    let of = one_of(&["HTTPRoute", "HTTPRoute", "GRPCRoute", "Gateway", "ListenerSet"]);
    (
        metadata(&["x0", "x1"]),
        vec(target, 0..2),
        (chosen, of, labels()),
        says,
        listless,
    )
        .prop_map(
            |(metadata, targets, (chosen, of, mut labels), (kind, mut spec), listless)| {
                let selectors = chosen.map(|from| {
                    let namespaces = from.map(|from| json!({"from": from, "selector": {"matchLabels": {"team": "x"}}}));
                    labels["kind"] = json!(of);
                    labels["namespaces"] = json!(namespaces);
                    json!([labels])
                });
                spec["targetRefs"] = match targets.as_slice() {
                    [one] if listless => one.clone(),
                    _ => json!(targets),
                };
                spec["targetSelectors"] = json!(selectors);
                json!({"apiVersion": "gateway.edge/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
            },
        )
}

/// What a SecurityPolicy says that can't be put in force: what it covers is closed.
fn invalid_security() -> Value {
    json!({"authorization": {"defaultAction": "Unheard"}})
}

/// What a selector asks of labels; an operator that nobody knows chooses nothing.
fn labels() -> impl Strategy<Value = Value> {
    let by =
        |operator: &'static str| json!({"matchExpressions": [{"key": "team", "operator": operator, "values": ["x"]}]});
    prop_oneof![
        6 => Just(json!({"matchLabels": {"team": "x"}})),
        2 => Just(by("NotIn")),
        1 => Just(by("Unheard")),
        1 => Just(json!({})),
    ]
}

/// What an EdgeExtensionPolicy adds: what requests may pass without, and what they may not.
fn extensions() -> impl Strategy<Value = (&'static str, Value)> {
    let fails_open = || {
        vec(
            option::of(any::<bool>()).prop_map(|open| json!({"name": "x", "failOpen": open})),
            0..2,
        )
    };
    let lua = vec(Just(json!({"type": "Inline", "inline": "-- nothing"})), 0..2);
    // A list that was forgotten, and what a later version may add.
    let odd = prop_oneof![
        8 => Just(json!({})),
        1 => Just(json!({"wasm": {"name": "x"}})),
        1 => Just(json!({"wasm": {"name": "x", "failOpen": true}})),
        1 => Just(json!({"unheard": [{"failOpen": true}]})),
    ];
    (fails_open(), fails_open(), option::weighted(0.3, lua), odd).prop_map(|(wasm, processors, lua, odd)| {
        let mut spec = json!({"wasm": wasm, "extProc": processors, "lua": lua});
        for (field, value) in odd.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        ("EdgeExtensionPolicy", spec)
    })
}

/// Policies that want TLS to backends: good, broken, and in each other's way.
pub(crate) fn tls_policy() -> impl Strategy<Value = Value> {
    let section = || option::weighted(0.4, one_of(&["x", "y", "absent"]));
    let target = prop_oneof![
        4 => (one_of(SERVICES), section())
            .prop_map(|(name, section)| json!({"group": "", "kind": "Service", "name": name, "sectionName": section})),
        2 => one_of(BACKENDS).prop_map(|name| json!({"group": "gateway.edge", "kind": "Backend", "name": name})),
        1 => section().prop_map(|section| {
            json!({"group": "multicluster.x-k8s.io", "kind": "ServiceImport", "name": "s0", "sectionName": section})
        }),
        1 => Just(json!({"group": "example.com", "kind": "Bucket", "name": "s0"})),
    ];
    let reference = prop_oneof![
        4 => one_of(AUTHORITIES).prop_map(|name| json!({"group": "", "kind": "ConfigMap", "name": name})),
        1 => one_of(SECRETS).prop_map(|name| json!({"group": "", "kind": "Secret", "name": name})),
        1 => Just(json!({"group": "certificates.k8s.io", "kind": "ClusterTrustBundle", "name": "ca0"})),
        1 => Just(json!({"group": "example.com", "kind": "Odd", "name": "ca0"})),
    ];
    let trust = prop_oneof![
        4 => vec(reference, 1..3).prop_map(|refs| (json!(refs), Value::Null)),
        2 => Just((Value::Null, json!("System"))),
        1 => Just((Value::Null, Value::Null)),
    ];
    let name = prop_oneof![
        Just(json!({"type": "Hostname", "hostname": "y.example.com"})),
        Just(json!({"type": "URI", "uri": "spiffe://example.com/y"})),
        Just(json!({"type": "URI"})),
    ];
    let hostname = prop_oneof![9 => Just("x.example.com"), 1 => Just("*.example.com")];
    (
        metadata(&["x0", "x1"]),
        vec(target, 1..3),
        trust,
        hostname,
        option::weighted(0.3, vec(name, 1..3)),
    )
        .prop_map(|(metadata, targets, (refs, known), hostname, names)| {
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy", "metadata": metadata,
                "spec": {"targetRefs": targets, "validation": {
                    "hostname": hostname, "caCertificateRefs": refs, "wellKnownCACertificates": known,
                    "subjectAltNames": names,
                }},
            })
        })
}

pub(crate) fn config_map() -> impl Strategy<Value = Value> {
    let data = prop_oneof![
        4 => Just(json!({"ca.crt": pem!("exact-ec.crt")})),
        1 => Just(json!({"ca.crt": pem!("exact-rsa.crt")})),
        1 => Just(json!({"other": pem!("exact-ec.crt")})),
        1 => Just(json!({"ca.crt": "no certificate"})),
        1 => Just(json!({"a": "1", "b": "2"})),
    ];
    (metadata(AUTHORITIES), data).prop_map(
        |(metadata, data)| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}),
    )
}

pub(crate) fn trust_bundle() -> impl Strategy<Value = Value> {
    one_of(&[pem!("exact-ec.crt"), "no certificate"]).prop_map(|bundle| {
        json!({
            "apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle", "metadata": {"name": "ca0"},
            "spec": {"trustBundle": bundle},
        })
    })
}
