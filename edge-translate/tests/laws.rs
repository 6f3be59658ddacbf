//! The laws of translation, over worlds in which everything collides and much is broken.
//!
//! A history of edits is generated, the engine follows it, and a translation from scratch of the plain world says what
//! is right. Worlds are small and dense on purpose: two namespaces, two or three names a kind, so that conflicts,
//! dangling references, moved endpoints and ties are the rule.
//!
//! Every run looks at the same worlds: `.cargo/config.toml` has the seed. `cargo xtask laws` looks at others, and at
//! many more. A failing case is written to `tests/laws/regressions.txt` (check it in) and tried first from then on.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on should stop where it stands"
)]

#[path = "laws/attached.rs"]
mod attached;
#[path = "laws/check.rs"]
mod check;
#[path = "laws/compare.rs"]
mod compare;
#[path = "laws/cost.rs"]
mod cost;
#[path = "laws/edited.rs"]
mod edited;
#[path = "laws/executors.rs"]
mod executors;
#[path = "laws/guards.rs"]
mod guards;
#[path = "laws/history.rs"]
mod history;
#[path = "laws/meaning.rs"]
mod meaning;
#[path = "laws/minimal.rs"]
mod minimal;
#[path = "laws/overlaps.rs"]
mod overlaps;
#[path = "laws/patches.rs"]
mod patches;
#[path = "laws/platform.rs"]
mod platform;
#[path = "laws/pools.rs"]
mod pools;
#[path = "laws/rivals.rs"]
mod rivals;
#[path = "laws/router.rs"]
mod router;
#[path = "laws/routes.rs"]
mod routes;
#[path = "laws/small.rs"]
mod small;
#[path = "laws/words.rs"]
mod words;

use edge_translate::api::{self, Kind, Object, ObjectKey};
use edited::{annotated, owner, with_listener, with_rule};
use history::{Configuration, Edit, Engine, World, edit, history};
use minimal::{Touched, touched};
use patches::patching;
use proptest::{collection::vec, prelude::*, sample, strategy::ValueTree, test_runner::FileFailurePersistence};
use std::sync::Arc;

/// As many cases as the law is cheap, and so many times that when a longer look is asked for.
fn cases(usual: u32) -> ProptestConfig {
    #[expect(
        clippy::disallowed_methods,
        reason = "how long to look is the caller's choice, and changes no outcome"
    )]
    let times = std::env::var("EDGE_LAWS_TIMES").map_or(1, |text| text.parse().unwrap());
    ProptestConfig {
        cases: usual * times,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/laws/regressions.txt"))),
        max_shrink_iters: 4000,
        ..ProptestConfig::default()
    }
}

/// An engine that followed a history, translating once at its end.
fn follow(edits: &[Edit]) -> Engine {
    let mut engine = Engine::new(Configuration::Cluster);
    for edit in edits {
        engine.take(edit);
    }
    engine.translate();
    engine
}

proptest! {
    #![proptest_config(cases(150))]

    /// Law 1: whatever the world, there is a translation, and its fleets are whole.
    #[test]
    fn translation_is_total(edits in history(0..50)) {
        let engine = World::after(&edits).translate();
        for (key, fleet) in engine.fleets() {
            let wrong = check::wholeness(fleet);
            prop_assert!(wrong.is_empty(), "{key}: {wrong:#?}");
        }
        let without_fleet: Vec<_> = engine.infra().keys().filter(|key| !engine.fleets().contains_key(*key)).collect();
        prop_assert!(without_fleet.is_empty(), "infrastructure for {without_fleet:?}");
    }

    /// What a policy protects that can't be honoured yet is closed, whatever the history.
    #[test]
    fn what_is_protected_is_closed(edits in history(0..50)) {
        let mut world = World::empty();
        let mut engine = Engine::new(Configuration::Cluster);
        for batch in edits.chunks(5) {
            batch.iter().for_each(|edit| {
                world.apply(edit);
                engine.take(edit);
            });
            engine.translate();
            for (key, fleet) in engine.fleets() {
                let wrong = guards::open(fleet, &world.objects);
                prop_assert!(wrong.is_empty(), "{key}: {wrong:#?}");
            }
        }
    }

    /// The tables mean what the objects say: whoever answers a request is who should, or nobody.
    #[test]
    fn requests_go_where_the_api_says(edits in history(0..50), requests in vec(meaning::request(), 40)) {
        let mut world = World::after(&edits);
        let tamed: Vec<_> = world.objects.values().filter_map(meaning::tame).map(words::read).collect();
        world.objects = tamed.into_iter().map(|object| (object.key(), object)).collect();
        let wrong = rivals::wrong(&world, &requests);
        prop_assert!(wrong.is_empty(), "{wrong}");
    }

    /// Law 2: the order in which objects come doesn't matter.
    #[test]
    fn translation_is_order_free((world, order) in history(0..50).prop_flat_map(|edits| {
        let world = World::after(&edits);
        let objects: Vec<Object> = world.objects.values().cloned().collect();
        (Just(world), Just(objects).prop_shuffle())
    })) {
        let mut engine = Engine::new(world.configuration);
        world.outside().for_each(|edit| engine.take(&edit));
        for object in order {
            engine.take(&Edit::Put(object));
        }
        engine.translate();
        let scratch = world.translate();
        prop_assert_eq!(engine.difference(&scratch), None);
        prop_assert_eq!(engine.fleet_text(), scratch.fleet_text());
    }

    /// Law 2: neither does what was there before.
    #[test]
    fn translation_is_history_free(
        past in history(0..25),
        edits in history(0..25),
        pauses in vec(any::<bool>(), 25),
    ) {
        let (before, world) = (World::after(&past), World::after(&edits));
        let mut engine = follow(&past);
        let gone = before.objects.keys().filter(|key| !world.objects.contains_key(*key)).cloned().map(Edit::Remove);
        let come = world.objects.values().rev().cloned().map(Edit::Put);
        let released = before.held.iter().map(|port| Edit::Hold(*port, false));
        let frame = released.chain([Edit::Configure(world.configuration)]).chain(world.outside());
        let steps = gone.chain(frame).chain(come);
        for (step, pause) in steps.zip(pauses.iter().cycle()) {
            engine.take(&step);
            if *pause {
                engine.translate();
            }
        }
        engine.translate();
        let scratch = world.translate();
        prop_assert_eq!(engine.difference(&scratch), None);
        prop_assert_eq!(engine.fleet_text(), scratch.fleet_text());
    }

    /// Law 3: after each edit the engine says what a translation from scratch says, and told of every change.
    #[test]
    fn incremental_equals_from_scratch(edits in history(0..25)) {
        let (mut world, mut engine) = (World::empty(), Engine::new(Configuration::Cluster));
        for (i, edit) in edits.iter().enumerate() {
            world.apply(edit);
            engine.take(edit);
            engine.translate();
            let difference = engine.difference(&world.translate());
            prop_assert!(difference.is_none(), "after edit {i}, {edit:?}: {}", difference.unwrap_or_default());
            let statuses = engine.translator.statuses();
            prop_assert_eq!(&engine.heard, &statuses, "changes of status after edit {}", i);
        }
    }

    /// Law 3, of patches: a fleet carries those of its policies, and they say what is so, whatever came before.
    #[test]
    fn patches_equal_from_scratch(edits in vec(patching(), 0..25)) {
        let (mut world, mut engine) = (World::empty(), Engine::new(Configuration::Cluster));
        let seed = history::seed().into_iter().map(Edit::Put);
        for edit in seed.chain(edits) {
            world.apply(&edit);
            engine.take(&edit);
            engine.translate();
            prop_assert_eq!(engine.difference(&world.translate()), None, "after {:?}", edit);
            prop_assert_eq!(&engine.heard, &engine.translator.statuses());
        }
    }

    /// Law 3, batched: so does an engine that takes many edits before it translates.
    #[test]
    fn many_edits_at_once_equal_from_scratch(batches in vec(vec(edit(), 1..12), 1..5)) {
        let seed: Vec<Edit> = history::seed().into_iter().map(Edit::Put).collect();
        let (mut world, mut engine) = (World::empty(), Engine::new(Configuration::Cluster));
        for batch in std::iter::once(&seed).chain(&batches) {
            for edit in batch {
                world.apply(edit);
                engine.take(edit);
            }
            engine.translate();
            prop_assert_eq!(engine.difference(&world.translate()), None);
            prop_assert_eq!(&engine.heard, &engine.translator.statuses());
        }
    }

    /// Law 4: objects that come again as they were change nothing.
    #[test]
    fn equal_objects_change_nothing(edits in history(0..50)) {
        let world = World::after(&edits);
        let mut engine = world.translate();
        let before = engine.translation.clone();
        for object in world.objects.values() {
            engine.take(&Edit::Put(words::read(object.to_value().unwrap())));
        }
        engine.take(&Edit::Configure(world.configuration));
        engine.take(&Edit::Tell(world.now));
        engine.translate();
        prop_assert_eq!(touched(&before.fleets, engine.fleets()), Touched::default());
        prop_assert!(before.infra.iter().all(|(key, old)| Arc::ptr_eq(old, &engine.infra()[key])));
        prop_assert!(engine.translation.statuses.is_empty(), "{:?}", engine.translation.statuses);
    }

    /// Law 4: neither do edits of what translation doesn't read.
    #[test]
    fn edits_without_effect_change_nothing(edits in history(0..50)) {
        let world = World::after(&edits);
        let mut engine = world.translate();
        let before = engine.translation.clone();
        for object in world.objects.values() {
            engine.take(&Edit::Put(annotated(object)));
        }
        engine.translate();
        prop_assert_eq!(touched(&before.fleets, engine.fleets()), Touched::default());
        prop_assert!(before.infra.iter().all(|(key, old)| Arc::ptr_eq(old, &engine.infra()[key])));
        prop_assert!(engine.translation.statuses.is_empty(), "{:?}", engine.translation.statuses);
    }

    /// Law 4: pods that come and go touch the endpoints of their backend, and nothing else.
    #[test]
    fn endpoint_slices_touch_endpoints_only(
        edits in history(0..50),
        slices in vec(platform::endpoint_slice(&["IPv4", "IPv6"]).prop_map(words::read), 1..4),
    ) {
        let mut world = World::after(&edits);
        // Names instead of addresses change the kind of cluster, and are no pods.
        world.objects.retain(|_, object| match object {
            Object::EndpointSlice(slice) => slice.address_type != api::AddressFamily::Fqdn,
            _ => true,
        });
        let mut engine = world.translate();
        let before = engine.translation.clone();
        let mut backends = Vec::new();
        for slice in &slices {
            let old = world.objects.get(&slice.key());
            backends.extend(old.into_iter().chain([slice]).filter_map(owner));
            engine.take(&Edit::Put(slice.clone()));
            world.apply(&Edit::Put(slice.clone()));
        }
        engine.translate();
        let touched = touched(&before.fleets, engine.fleets());
        let endpoints = touched.endpoints.clone();
        prop_assert_eq!(Touched { fleets: vec![], endpoints: vec![], ..touched }, Touched::default());
        let strangers: Vec<_> = endpoints.iter().filter(|set| !backends.iter().any(|b| set.contains(b))).collect();
        prop_assert!(strangers.is_empty(), "endpoints {strangers:?} for slices of {backends:?}");
        prop_assert!(before.infra.iter().all(|(key, old)| Arc::ptr_eq(old, &engine.infra()[key])));
        let routes = [Kind::HttpRoute, Kind::GrpcRoute, Kind::TlsRoute, Kind::TcpRoute, Kind::UdpRoute];
        prop_assert!(engine.translation.statuses.iter().all(|(key, _)| routes.contains(&key.kind)));
    }

    /// Law 4: a rule that is put in renames nothing, and touches only the hosts of its route.
    #[test]
    fn an_inserted_rule_touches_its_own_hosts_only(
        edits in history(0..50),
        route in routes::http_route().prop_map(words::read),
        rule in routes::rule(),
        place in any::<sample::Index>(),
    ) {
        let mut world = World::after(&edits);
        world.apply(&Edit::Put(route.clone()));
        let (engine, before) = world.edited(&Edit::Put(with_rule(&route, rule, place)));
        let prefix = format!("httproute/{}/{}/rule/", route.metadata().namespace, route.metadata().name);
        assert_touches_route_only(&before, &engine, &prefix)?;
    }

    /// Law 4: so does a new route.
    #[test]
    fn a_new_route_touches_its_own_hosts_only(
        edits in history(0..50),
        route in routes::http_route().prop_map(words::read),
    ) {
        let mut world = World::after(&edits);
        world.apply(&Edit::Remove(route.key()));
        let (engine, before) = world.edited(&Edit::Put(route.clone()));
        let prefix = format!("httproute/{}/{}/rule/", route.metadata().namespace, route.metadata().name);
        assert_touches_route_only(&before, &engine, &prefix)?;
    }

    /// Law 4: a listener on a port of its own is a socket of its own; connections elsewhere go on.
    #[test]
    fn a_new_port_touches_its_own_socket_only(edits in history(0..50)) {
        let mut world = World::after(&edits);
        let gateway = ObjectKey::new(Kind::Gateway, "a", "g0");
        let seed = history::seed().into_iter().find(|object| object.key() == gateway).unwrap();
        world.objects.entry(gateway.clone()).or_insert(seed);
        let (engine, before) = world.edited(&Edit::Put(with_listener(&world.objects[&gateway])));
        let Touched { listeners, settings, hosts, .. } = touched(&before.fleets, engine.fleets());
        prop_assert!(settings.is_empty(), "{settings:?}");
        prop_assert!(listeners.iter().all(|name| name.ends_with(" tcp-9999")), "{listeners:?}");
        prop_assert!(hosts.iter().all(|name| name.ends_with(" table a/g0/extra")), "{hosts:?}");
        for (key, old) in &before.fleets {
            let new = &engine.fleets()[key];
            let kept = old.clusters.iter().all(|c| new.clusters.iter().any(|n| Arc::ptr_eq(c, n)));
            prop_assert!(kept, "a cluster of {key} moved");
            // New ones may come with the clusters that name them.
            let kept = old.secrets.iter().all(|s| new.secrets.iter().any(|n| Arc::ptr_eq(s, n)));
            prop_assert!(kept, "a secret of {key} moved");
        }
    }

    /// Law 5: every piece of a fleet leads back to an object that exists.
    #[test]
    fn translation_is_explainable(edits in history(0..50)) {
        let mut world = World::empty();
        let mut engine = Engine::new(Configuration::Cluster);
        for batch in edits.chunks(8) {
            batch.iter().for_each(|edit| {
                world.apply(edit);
                engine.take(edit);
            });
            engine.translate();
            for (key, fleet) in engine.fleets() {
                let wrong = check::unexplained(fleet, &world.objects);
                prop_assert!(wrong.is_empty(), "{key}: {wrong:#?}");
            }
        }
    }

    /// Memory is the world's: an engine whose world was deleted remembers nothing. (Interned names stay, by design.)
    #[test]
    fn a_deleted_world_is_forgotten(edits in history(0..50), pauses in vec(any::<bool>(), 40)) {
        let mut engine = Engine::new(Configuration::Cluster);
        for (edit, pause) in edits.iter().zip(pauses.iter().cycle()) {
            engine.take(edit);
            if *pause {
                engine.translate();
            }
        }
        for key in World::after(&edits).objects.into_keys() {
            engine.take(&Edit::Remove(key));
        }
        engine.translate();
        prop_assert!(engine.fleets().is_empty() && engine.infra().is_empty());
        prop_assert!(engine.translator.statuses().is_empty() && engine.heard.is_empty());
        prop_assert_eq!(engine.translator.memo_size(), 0);
        prop_assert!(engine.asked.is_empty(), "{:?}", engine.asked);
    }
}

/// Nothing outside the hosts of a route moves, and clusters and endpoints only come or go with it.
fn assert_touches_route_only(
    before: &edge_translate::Translation,
    engine: &Engine,
    prefix: &str,
) -> Result<(), TestCaseError> {
    let moved = touched(&before.fleets, engine.fleets());
    // Calls and cross-origin rules need filters on the listener.
    let is_call = prefix.starts_with("grpcroute/");
    let asks_for_filters = before.fleets.values().chain(engine.fleets().values()).any(|fleet| {
        check::routes(fleet).any(|(_, route)| {
            route.name.to_string().starts_with(prefix) && (is_call || !route.effect.filters.is_empty())
        })
    });
    prop_assert!(
        moved.settings.is_empty() && (moved.listeners.is_empty() || asks_for_filters),
        "{moved:#?}"
    );
    prop_assert!(
        before
            .infra
            .iter()
            .all(|(key, old)| Arc::ptr_eq(old, &engine.infra()[key]))
    );
    for (key, fleet) in engine.fleets() {
        let old = &before.fleets[key];
        for cluster in old.clusters.iter() {
            let kept = fleet.clusters.iter().find(|c| c.name == cluster.name);
            prop_assert!(
                kept.is_some_and(|c| Arc::ptr_eq(c, cluster)),
                "cluster {} moved",
                cluster.name
            );
        }
        for secret in old.secrets.iter() {
            let kept = fleet.secrets.iter().any(|s| Arc::ptr_eq(s, secret));
            prop_assert!(kept, "secret {} moved", secret.name);
        }
        for set in old.endpoints.iter() {
            let kept = fleet.endpoints.iter().find(|e| e.name == set.name);
            prop_assert!(
                kept.is_some_and(|e| Arc::ptr_eq(e, set)),
                "endpoints {} moved",
                set.name
            );
        }
        let of_route = |fleet: &edge_ir::Fleet| -> Vec<String> {
            let mine = check::routes(fleet).filter(|(_, route)| route.name.to_string().starts_with(prefix));
            mine.map(|(host, _)| format!("{key} {}", host.name)).collect()
        };
        let own = [of_route(old), of_route(fleet)].concat();
        let here = format!("{key} ");
        let strangers: Vec<_> = moved
            .hosts
            .iter()
            .filter(|h| h.starts_with(&here) && !own.contains(h))
            .collect();
        let empty = |name: &str| {
            fleet
                .route_tables
                .iter()
                .flat_map(|t| t.hosts.iter())
                .any(|h| *h.name == *name && h.routes.is_empty())
        };
        let strangers: Vec<_> = strangers
            .into_iter()
            .filter(|h| !empty(h.trim_start_matches(&here)))
            .collect();
        prop_assert!(strangers.is_empty(), "hosts {strangers:?} moved");
    }
    Ok(())
}

/// Words of statuses that some world leads to.
const REASONS: &[&str] = &[
    "HostnameConflict",
    "ProtocolConflict",
    "RefNotPermitted",
    "BackendNotFound",
    "PortNotFound",
    "InvalidCertificateRef",
    "InvalidParameters",
    "NoMatchingParent",
    "NotAllowedByListeners",
    "NoMatchingListenerHostname",
    "EndpointsNotFound",
    "PartiallyInvalid",
    "OverlappingHostnames",
    "UnsupportedAddressType",
    "PortUnavailable",
    "InvalidBackendTLS",
    "NoValidCACertificate",
    "NotAllowed",
    "NoConflicts",
    "No listeners are accepted",
    "Some listeners are invalid",
    "InvalidCACertificateRef",
    "Policy conflicts with",
    "CertificateExpired",
    "CertificateNotYetValid",
    "ustom backend Pool a/q",
    "Backend ref to Pool",
    "InvalidKind",
];

/// The generator makes what the laws are about; else they would hold of nothing.
#[test]
fn generated_worlds_are_worth_looking_at() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = std::collections::BTreeMap::<&str, u32>::new();
    for _ in 0..200 {
        let edits = history(20..50).new_tree(&mut runner).unwrap().current();
        let engine = World::after(&edits).translate();
        let mut note = |what, yes: bool| *seen.entry(what).or_default() += u32::from(yes);
        let fleets: Vec<_> = engine.fleets().values().collect();
        note_shapes(&fleets, &mut note);
        let said = format!("{:?}", engine.translator.statuses());
        for &reason in REASONS {
            note(reason, said.contains(reason));
        }
    }
    let rare: Vec<_> = seen.iter().filter(|(_, times)| **times == 0).collect();
    assert!(rare.is_empty(), "never generated: {rare:?} of {seen:?}");
    assert!(!seen.is_empty());
    let key = ObjectKey::new(Kind::Gateway, "a", "g0");
    assert!(
        World::after(&history::seed().into_iter().map(Edit::Put).collect::<Vec<_>>())
            .objects
            .contains_key(&key)
    );
}

/// What these fleets have of all that the laws are about.
fn note_shapes(fleets: &[&std::sync::Arc<edge_ir::Fleet>], note: &mut impl FnMut(&'static str, bool)) {
    note("a fleet", !fleets.is_empty());
    note("TLS", fleets.iter().any(|f| !f.secrets.is_empty()));
    note("a merged fleet", fleets.iter().any(|f| !f.key.contains('/')));
    note("forwarding", fleets.iter().any(|f| !f.clusters.is_empty()));
    note(
        "endpoints",
        fleets
            .iter()
            .any(|f| f.endpoints.iter().any(|e| !e.localities.is_empty())),
    );
    note(
        "calls",
        fleets
            .iter()
            .flat_map(|f| check::routes(f))
            .any(|(_, r)| r.name.to_string().starts_with("grpcroute/") && !check::clusters_of(r).is_empty()),
    );
    let chains = || {
        fleets
            .iter()
            .flat_map(|f| f.listeners.iter())
            .flat_map(|l| l.chains.iter().chain(&l.default_chain))
    };
    let serves = |c: &edge_ir::FilterChain| matches!(&c.network, edge_ir::Network::Tcp(s) if !s.shares.is_empty());
    note(
        "TLS passed through",
        chains().any(|c| c.name.contains("/tlsroute/") && c.tls.is_none() && serves(c)),
    );
    note(
        "streams in TLS",
        chains().any(|c| c.name.contains("route/") && c.tls.is_some() && serves(c)),
    );
    let upstream = || {
        fleets
            .iter()
            .flat_map(|f| f.clusters.iter())
            .filter_map(|c| c.tls.as_ref())
    };
    let hosts = || {
        fleets
            .iter()
            .flat_map(|f| f.route_tables.iter())
            .flat_map(|t| t.hosts.iter())
    };
    note(
        "hosts of ListenerSets",
        hosts().any(|h| !h.routes.is_empty() && h.origins.iter().any(|o| &*o.kind == "ListenerSet")),
    );
    let routes = || fleets.iter().flat_map(|f| check::routes(f));
    note(
        "cross-origin rules",
        routes().any(|(_, r)| !r.effect.filters.is_empty()),
    );
    note(
        "misdirected requests",
        routes().any(|(_, r)| r.name == "misdirected-request".into()),
    );
    note("TLS to backends", upstream().next().is_some());
    let mut clusters = fleets.iter().flat_map(|f| f.clusters.iter());
    note("backends of services", clusters.any(|c| c.custom.is_some()));
    note(
        "objects shown with rules",
        routes().any(|(_, r)| r.effect.custom.is_some()),
    );
    note(
        "a certificate shown to backends",
        upstream().any(|t| t.client_certificate.is_some()),
    );
    note(
        "streams",
        fleets.iter().any(|f| check::streams(f).any(|s| !s.shares.is_empty())),
    );
    note(
        "several hosts",
        fleets.iter().any(|f| f.route_tables.iter().any(|t| t.hosts.len() > 1)),
    );
}
