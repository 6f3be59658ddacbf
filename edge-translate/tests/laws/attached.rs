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

/// What a policy says; -1 is no limit of a proxy.
fn says() -> impl Strategy<Value = Value> {
    let limits = prop_oneof![8 => 1..4_i64, 1 => Just(-1)].prop_map(|n| json!({"maxConnections": n}));
    let timeout = one_of(&["1s", "2s", "2 parsecs"]).prop_map(|text| json!({"http": {"requestTimeout": text}}));
    let balancer = prop_oneof![
        Just(json!({"type": "Random"})),
        Just(json!({"type": "RoundRobin", "slowStart": {"window": "3s"}})),
        Just(json!({"type": "ConsistentHash", "consistentHash": {"type": "SourceIP"}})),
    ];
    let merge = option::weighted(0.4, one_of(&["StrategicMerge", "JSONMerge"]));
    (
        option::of(limits),
        option::weighted(0.4, timeout),
        option::weighted(0.4, balancer),
        merge,
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
        .prop_map(|(metadata, targets, selectors, mut spec)| {
            spec["targetRefs"] = json!(targets);
            spec["targetSelectors"] = json!(selectors);
            json!({"apiVersion": "gateway.edge/v1alpha1", "kind": "BackendTrafficPolicy",
                   "metadata": metadata, "spec": spec})
        })
}

/// Lets policies of one namespace choose routes of another.
fn grant() -> impl Strategy<Value = Value> {
    (metadata(&["r0"]), one_of(NAMESPACES)).prop_map(|(metadata, from)| {
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant", "metadata": metadata, "spec": {
            "from": [{"group": "gateway.edge", "kind": "BackendTrafficPolicy", "namespace": from}],
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
    let gone = (sample::select(NAMESPACES), sample::select(NAMES))
        .prop_map(|(ns, name)| Edit::Remove(ObjectKey::new(Kind::BackendTrafficPolicy, ns, name)));
    let put = prop_oneof![
        10 => policy().boxed(),
        4 => routes::http_route().prop_map(named_rules).boxed(),
        1 => routes::grpc_route().boxed(),
        1 => routes::stream_route().boxed(),
        2 => platform::gateway().boxed(),
        1 => platform::listener_set().boxed(),
        1 => grant().boxed(),
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
