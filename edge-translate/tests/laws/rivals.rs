//! What answers a request, where many routes compete for it: worlds of one Gateway, whose routes differ in nothing but
//! what precedence is about. In worlds of everything a tie that one criterion decides is rare.

use super::{
    cases,
    history::World,
    meaning::{self, Request},
    router,
    routes::{ROUTES, matches},
    words::{self, HOSTNAMES, metadata, one_of},
};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};
use std::fmt::Write;

/// Where the tables answer something that the objects don't say: a line each.
pub(crate) fn wrong(world: &World, requests: &[Request]) -> String {
    let engine = world.translate();
    let mut wrong = String::new();
    for fleet in engine.fleets().values() {
        for socket in fleet.listeners.iter() {
            for request in requests {
                let found = meaning::by_tables(fleet, socket, request);
                let wanted = router::by_objects(&world.objects, socket, request);
                if !wanted.contains(&found) {
                    let (fleet, socket) = (&fleet.key, &socket.name);
                    writeln!(wrong, "{fleet} {socket}: {request:?}: {found:?} instead of {wanted:?}").unwrap();
                }
            }
        }
    }
    wrong
}

/// A class, and a Gateway with listeners that isolate each other.
fn gateway() -> [Value; 2] {
    let listener = |name: &str, hostname: Value| {
        json!({"name": name, "protocol": "HTTP", "port": 80, "hostname": hostname,
               "allowedRoutes": {"namespaces": {"from": "All"}}})
    };
    let listeners = [
        listener("l0", Value::Null),
        listener("l1", json!("*.example.com")),
        listener("l2", json!("a.example.com")),
    ];
    [
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "plain"},
               "spec": {"controllerName": "gateway.edge/gatewayclass-controller"}}),
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "g0", "namespace": "a"},
               "spec": {"gatewayClassName": "plain", "listeners": listeners}}),
    ]
}

/// Routes of the Gateway without filters, mostly for the same few names.
fn route() -> impl Strategy<Value = Value> {
    let hostnames = prop_oneof![
        2 => vec(one_of(&["a.example.com", "*.example.com"]), 1..3),
        1 => vec(one_of(HOSTNAMES), 0..3),
    ];
    let rule = vec(matches(), 1..4).prop_map(|matches| json!({"matches": matches}));
    (metadata(ROUTES), hostnames, vec(rule, 1..3)).prop_map(|(metadata, hostnames, rules)| {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": metadata,
            "spec": {"parentRefs": [{"name": "g0", "namespace": "a"}], "hostnames": hostnames, "rules": rules},
        })
    })
}

proptest! {
    #![proptest_config(cases(150))]

    /// Of the routes that match, the one answers that the Gateway API's precedence names.
    #[test]
    fn of_rivals_the_first_by_precedence_answers(
        routes in vec(route(), 2..7), requests in vec(meaning::request(), 40)
    ) {
        let mut world = World::empty();
        for value in gateway().into_iter().chain(routes) {
            let object = words::read(meaning::tame(&words::read(value)).unwrap());
            world.objects.insert(object.key(), object);
        }
        let wrong = wrong(&world, &requests);
        prop_assert!(wrong.is_empty(), "{wrong}");
    }
}
