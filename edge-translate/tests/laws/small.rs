//! Law 4 for changes that are no edits of an HTTPRoute: what they touch follows from what they are.

use super::{
    assert_touches_route_only, cases, check,
    history::{Edit, World, history},
    minimal::{Touched, touched},
    platform, routes, words,
};
use edge_translate::api::{Kind, Object, ObjectKey};
use proptest::{prelude::*, sample};
use serde_json::json;
use std::sync::Arc;

proptest! {
    #![proptest_config(cases(100))]

    /// A renewed certificate is a secret, and nothing else.
    #[test]
    fn a_renewed_certificate_touches_its_secret_only(edits in history(0..50)) {
        let mut world = World::after(&edits);
        let with = |data: serde_json::Value| {
            words::read(json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c0", "namespace": "a"}, "stringData": data,
            }))
        };
        let mut data = platform::good_certificate();
        world.apply(&Edit::Put(with(data.clone())));
        // The same leaf, with one more certificate behind it.
        let chain = data["tls.crt"].as_str().unwrap_or_default().repeat(2);
        data["tls.crt"] = json!(chain);
        let (engine, before) = world.edited(&Edit::Put(with(data)));
        let moved = touched(&before.fleets, engine.fleets());
        let secrets = moved.secrets.clone();
        prop_assert_eq!(Touched { fleets: vec![], secrets: vec![], ..moved }, Touched::default());
        prop_assert!(secrets.iter().all(|name| name.ends_with(" a/c0")), "{secrets:?}");
        prop_assert!(before.infra.iter().all(|(key, old)| Arc::ptr_eq(old, &engine.infra()[key])));
        prop_assert!(engine.translation.statuses.is_empty(), "{:?}", engine.translation.statuses);
    }

    /// A grant touches hosts with routes that it speaks of, and what backends come or go with it.
    #[test]
    fn a_grant_touches_what_it_speaks_of(edits in history(0..50), name in sample::select(vec!["s0", "s1"])) {
        let mut world = World::after(&edits);
        let grant = words::read(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
            "metadata": {"name": "extra", "namespace": "a"},
            "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "b"}],
                     "to": [{"group": "", "kind": "Service", "name": name}]},
        }));
        world.apply(&Edit::Remove(grant.key()));
        let (engine, before) = world.edited(&Edit::Put(grant));
        let moved = touched(&before.fleets, engine.fleets());
        prop_assert!(moved.settings.is_empty() && moved.listeners.is_empty(), "{moved:#?}");
        prop_assert!(before.infra.iter().all(|(key, old)| Arc::ptr_eq(old, &engine.infra()[key])));
        for (key, fleet) in engine.fleets() {
            let spoken_of = |host: &str| {
                let here = check::routes(fleet).filter(|(h, _)| format!("{key} {}", h.name) == host);
                here.into_iter().any(|(_, route)| route.name.to_string().starts_with("httproute/b/"))
            };
            let here = format!("{key} ");
            let strangers: Vec<_> = moved.hosts.iter().filter(|h| h.starts_with(&here) && !spoken_of(h)).collect();
            prop_assert!(strangers.is_empty(), "hosts {strangers:?} moved");
            let old = &before.fleets[key];
            let kept = old.clusters.iter().all(|c| fleet.clusters.iter().any(|n| Arc::ptr_eq(c, n)));
            prop_assert!(kept, "a cluster of {key} moved");
        }
        let statuses = engine.translation.statuses.iter();
        let strangers: Vec<_> = statuses.filter(|(key, _)| !is_told_of(key)).collect();
        prop_assert!(strangers.is_empty(), "{strangers:?}");
    }

    /// A new GRPCRoute touches its own hosts.
    #[test]
    fn a_new_call_touches_its_own_hosts_only(
        edits in history(0..50),
        route in routes::grpc_route().prop_map(words::read),
    ) {
        let mut world = World::after(&edits);
        world.apply(&Edit::Remove(route.key()));
        let (engine, before) = world.edited(&Edit::Put(route.clone()));
        let prefix = format!("grpcroute/{}/{}/rule/", route.metadata().namespace, route.metadata().name);
        assert_touches_route_only(&before, &engine, &prefix)?;
    }

    /// A route that takes whole connections or datagrams touches sockets, and no host.
    #[test]
    fn a_new_stream_touches_no_host(
        edits in history(0..50),
        route in prop_oneof![routes::stream_route(), routes::tls_route()].prop_map(words::read),
    ) {
        let mut world = World::after(&edits);
        world.apply(&Edit::Remove(route.key()));
        let (engine, before) = world.edited(&Edit::Put(route.clone()));
        let moved = touched(&before.fleets, engine.fleets());
        prop_assert!(moved.settings.is_empty() && moved.hosts.is_empty(), "{moved:#?}");
        let ports = |object: &Object| -> Vec<u16> {
            match object {
                Object::Gateway(gateway) => gateway.spec.listeners.iter().map(|l| l.port).collect(),
                Object::ListenerSet(set) => set.spec.listeners.iter().map(|l| l.port).collect(),
                _ => Vec::new(),
            }
        };
        let all: Vec<String> = world.objects.values().flat_map(ports).map(|port| format!("-{port}")).collect();
        prop_assert!(moved.listeners.iter().all(|name| all.iter().any(|port| name.ends_with(port))));
        prop_assert!(before.infra.iter().all(|(key, old)| Arc::ptr_eq(old, &engine.infra()[key])));
    }
}

/// Whose status a grant for HTTPRoutes of namespace b may change: theirs, and that of policies on what they lead to.
fn is_told_of(key: &ObjectKey) -> bool {
    (key.kind == Kind::HttpRoute && &*key.namespace == "b") || key.kind == Kind::BackendTlsPolicy
}
