//! Policies in force over worlds in which they conflict, override each other, merge, dangle and are wrong: whatever
//! comes and goes in whatever order, the engine says what a translation from scratch says.

use super::{
    cases, check,
    history::{self, Configuration, Edit, Engine, World},
    platform, routes,
    words::{GATEWAYS, LISTENERS, NAMESPACES, SETS, metadata, one_of, read},
};
use edge_translate::api::{Kind, ObjectKey};
use proptest::{collection::vec, option, prelude::*, sample};
use serde_json::{Value, json};

const GROUP: &str = "gateway.networking.k8s.io";
const NAMES: &[&str] = &["t0", "t1", "t2"];

/// What a policy is for: wholes and parts, some of which aren't there.
fn target() -> impl Strategy<Value = Value> {
    let of = |kind: &'static str, names: &'static [&'static str], sections: &'static [&'static str]| {
        (one_of(names), option::weighted(0.4, one_of(sections))).prop_map(
            move |(name, section)| json!({"group": GROUP, "kind": kind, "name": name, "sectionName": section}),
        )
    };
    prop_oneof![
        4 => of("HTTPRoute", routes::ROUTES, &["a", "b", "absent"]),
        1 => of("GRPCRoute", routes::ROUTES, &["absent"]),
        1 => of("TLSRoute", routes::ROUTES, &["absent"]),
        1 => of("TCPRoute", routes::ROUTES, &["absent"]),
        3 => of("Gateway", GATEWAYS, LISTENERS),
        2 => of("ListenerSet", SETS, LISTENERS),
        1 => of("Service", &["s0"], &["x"]),
    ]
}

/// Secrets that guards ask for, where there are any.
const HELD: &[&str] = &["users", "keys"];

/// What a policy says, and of which kind it is.
fn says() -> impl Strategy<Value = (&'static str, Value)> {
    prop_oneof![
        4 => traffic().prop_map(|spec| ("BackendTrafficPolicy", spec)),
        4 => guards().prop_map(|spec| ("SecurityPolicy", spec)),
        2 => scripts().prop_map(|spec| ("EdgeExtensionPolicy", spec)),
        1 => clients().prop_map(|spec| ("ClientTrafficPolicy", spec)),
    ]
}

fn merge() -> impl Strategy<Value = Option<&'static str>> {
    option::weighted(0.4, one_of(&["StrategicMerge", "JSONMerge"]))
}

/// Users and keys, whose Secrets may be missing or hold something else; rules and headers, which may be wrong.
fn guards() -> impl Strategy<Value = Value> {
    let users = one_of(HELD).prop_map(|name| json!({"users": {"name": name}}));
    let keys = (one_of(HELD), one_of(&["x-key", "x-other"]))
        .prop_map(|(name, header)| json!({"credentialRefs": [{"name": name}], "extractFrom": [{"headers": [header]}]}));
    let rules = one_of(&["10.0.0.0/8", "10.0.0.0/99"]).prop_map(
        |range| json!({"defaultAction": "Deny", "rules": [{"action": "Allow", "principal": {"clientCIDRs": [range]}}]}),
    );
    let origins = one_of(&["https://a.example", "https://b.example"]);
    (
        option::weighted(0.5, users),
        option::weighted(0.3, keys),
        option::weighted(0.4, rules),
        option::weighted(0.3, origins.prop_map(|origin| json!({"allowOrigins": [origin]}))),
        merge(),
    )
        .prop_map(|(users, keys, rules, cors, merge)| {
            json!({"basicAuth": users, "apiKeyAuth": keys, "authorization": rules, "cors": cors, "mergeType": merge})
        })
}

/// Scripts, some of which nobody can run.
fn scripts() -> impl Strategy<Value = Value> {
    let script = one_of(&[
        "function envoy_on_request(handle) end",
        "function envoy_on_response(handle) end",
        "function without an end",
    ]);
    (
        vec(script.prop_map(|text| json!({"type": "Inline", "inline": text})), 0..3),
        merge(),
    )
        .prop_map(|(scripts, merge)| json!({"lua": scripts, "mergeType": merge}))
}

fn clients() -> impl Strategy<Value = Value> {
    one_of(&["1s", "2s", "2 parsecs"]).prop_map(|text| json!({"timeout": {"http": {"idleTimeout": text}}}))
}

/// Of use to users, to keys, or to nobody.
fn held() -> impl Strategy<Value = Value> {
    let data = prop_oneof![
        3 => Just(json!({".htpasswd": "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="})),
        2 => Just(json!({"ann": "key-of-ann"})),
        1 => Just(json!({".htpasswd": "no hash"})),
    ];
    (metadata(HELD), data).prop_map(
        |(metadata, data)| json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}),
    )
}

/// What is said of traffic; -1 is no limit of a proxy.
fn traffic() -> impl Strategy<Value = Value> {
    let limits = prop_oneof![8 => 1..4_i64, 1 => Just(-1)].prop_map(|n| json!({"maxConnections": n}));
    let timeout = one_of(&["1s", "2s", "2 parsecs"]).prop_map(|text| json!({"http": {"requestTimeout": text}}));
    let balancer = prop_oneof![
        Just(json!({"type": "Random"})),
        Just(json!({"type": "RoundRobin", "slowStart": {"window": "3s"}})),
        Just(json!({"type": "ConsistentHash", "consistentHash": {"type": "SourceIP"}})),
    ];
    (
        option::of(limits),
        option::weighted(0.4, timeout),
        option::weighted(0.4, balancer),
        merge(),
    )
        .prop_map(|(limits, timeout, balancer, merge)| {
            json!({"circuitBreaker": limits, "timeout": timeout, "loadBalancer": balancer, "mergeType": merge})
        })
}

fn policy() -> impl Strategy<Value = Value> {
    let selector = (
        one_of(&["HTTPRoute", "HTTPRoute", "Gateway", "ListenerSet"]),
        option::of(one_of(&["Same", "All"])),
    )
        .prop_map(|(kind, from)| {
            let namespaces = from.map(|from| json!({"from": from}));
            json!([{"kind": kind, "matchLabels": {"team": "x"}, "namespaces": namespaces}])
        });
    (
        metadata(NAMES),
        vec(target(), 0..3),
        option::weighted(0.3, selector),
        says(),
    )
        .prop_map(|(metadata, targets, selectors, (kind, mut spec))| {
            spec["targetRefs"] = json!(targets);
            spec["targetSelectors"] = json!(selectors);
            json!({"apiVersion": "gateway.edge/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
        })
}

/// Lets policies of one namespace choose routes of another.
fn grant() -> impl Strategy<Value = Value> {
    let kind = one_of(&["BackendTrafficPolicy", "SecurityPolicy", "EdgeExtensionPolicy"]);
    (metadata(&["r0"]), kind, one_of(NAMESPACES)).prop_map(|(metadata, kind, from)| {
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant", "metadata": metadata, "spec": {
            "from": [{"group": "gateway.edge", "kind": kind, "namespace": from}],
            "to": [{"group": GROUP, "kind": "HTTPRoute"}, {"group": GROUP, "kind": "Gateway"}]}})
    })
}

/// A route whose rules have names, so that policies find them.
fn named_rules(mut route: Value) -> Value {
    let rules = route["spec"]["rules"].as_array_mut().into_iter().flatten();
    for (rule, name) in rules.zip(["a", "b", "c"]) {
        rule["name"] = json!(name);
    }
    route
}

fn edit() -> impl Strategy<Value = Edit> {
    let kinds = &[
        Kind::BackendTrafficPolicy,
        Kind::SecurityPolicy,
        Kind::EdgeExtensionPolicy,
        Kind::ClientTrafficPolicy,
    ];
    let policy_gone = (sample::select(kinds), sample::select(NAMESPACES), sample::select(NAMES));
    let secret_gone = (sample::select(NAMESPACES), sample::select(HELD));
    let gone = prop_oneof![
        3 => policy_gone.prop_map(|(kind, ns, name)| Edit::Remove(ObjectKey::new(kind, ns, name))),
        1 => secret_gone.prop_map(|(ns, name)| Edit::Remove(ObjectKey::new(Kind::Secret, ns, name))),
    ];
    let put = prop_oneof![
        10 => policy().boxed(),
        4 => routes::http_route().prop_map(named_rules).boxed(),
        1 => routes::grpc_route().boxed(),
        1 => routes::stream_route().boxed(),
        2 => platform::gateway().boxed(),
        1 => platform::listener_set().boxed(),
        1 => grant().boxed(),
        3 => held().boxed(),
    ];
    prop_oneof![8 => put.prop_map(|value| Edit::Put(read(value))), 2 => gone]
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn policies_say_the_same_however_they_came(edits in vec(edit(), 0..20)) {
        let (mut world, mut engine) = (World::empty(), Engine::new(Configuration::Cluster));
        for edit in history::seed().into_iter().map(Edit::Put) {
            world.apply(&edit);
            engine.take(&edit);
        }
        for (i, edit) in edits.iter().enumerate() {
            world.apply(edit);
            engine.take(edit);
            engine.translate();
            let difference = engine.difference(&world.translate());
            prop_assert!(difference.is_none(), "after edit {i}, {edit:?}: {}", difference.unwrap_or_default());
            prop_assert_eq!(&engine.heard, &engine.translator.statuses(), "changes of status after edit {}", i);
            for (key, fleet) in engine.fleets() {
                let wrong = check::wholeness(fleet);
                prop_assert!(wrong.is_empty(), "{key}: {wrong:#?}");
            }
        }
    }
}
