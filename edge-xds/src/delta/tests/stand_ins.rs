//! Tables of listeners that a proxy refuses.

use super::{ResourceType, Response, Snapshot, Stream, ack, nack, only, sent, settled, subscribe};
use crate::{lower::Lowering, sample};
use edge_ir::{FilterEffect, FilterId, FilterInstance, FilterKind, FilterSettings, Network, Route, RouteFilter};
use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, route::Action};
use prost::Message as _;
use std::sync::Arc;

const BEFORE: &str = "default/gw/http~one";

/// A fleet whose one chain has these guards. Each of its routes has one of them, or none, and leads to a cluster.
fn fleet(guards: &str, filters: &[FilterKind], routes: &[(&str, Option<FilterKind>, &str)]) -> Snapshot {
    let route = |(name, guard, cluster): &(&str, Option<FilterKind>, &str)| {
        let mut route = Route::clone(&sample::route(name, &format!("/{name}"), cluster));
        let filters = guard.iter().map(|kind| RouteFilter {
            id: FilterId::shared(*kind),
            effect: FilterEffect::On,
        });
        Arc::make_mut(&mut route.effect).filters = filters.collect();
        Arc::new(route)
    };
    let host = sample::host("h.example", routes.iter().map(route).collect());
    let mut fleet = sample::fleet(vec![host], &["a", "b"]);
    let listeners = Arc::make_mut(&mut fleet.listeners);
    let chain = Arc::make_mut(&mut listeners[0]).default_chain.as_mut().unwrap();
    let Network::Http(manager) = &mut chain.network else {
        panic!("no HTTP")
    };
    let instance = |kind: &FilterKind| FilterInstance {
        id: FilterId::shared(*kind),
        settings: FilterSettings::OfRoutes,
    };
    manager.filters = filters.iter().map(instance).collect();
    manager.guards = guards.into();
    Arc::make_mut(&mut Arc::make_mut(&mut fleet.route_tables)[0]).guards = guards.into();
    Lowering::new().lower(&fleet)
}

/// A proxy that has the fleet, and has asked for its table.
fn serving(snapshot: Snapshot) -> Stream {
    let (mut stream, _) = settled(snapshot);
    let mut open = sent(stream.on_request(&subscribe(ResourceType::Routes, &[BEFORE]), 1));
    while let Some(response) = open.pop() {
        open.extend(sent(stream.on_request(&ack(&response), 1)));
    }
    stream
}

/// What each route of the only table of a response leads to.
fn leads(response: &Response) -> Vec<(String, String)> {
    let [entry] = &response.resources[..] else {
        panic!("{response:?}")
    };
    let table = RouteConfiguration::decode(entry.body.contiguous()).unwrap();
    assert_eq!((&*entry.name, &*table.name), (BEFORE, BEFORE));
    let routes = table.virtual_hosts.into_iter().flat_map(|host| host.routes);
    let led = routes.map(|route| {
        let to = match route.action.unwrap() {
            Action::Route(action) => format!("{:?}", action.cluster_specifier.unwrap()),
            Action::DirectResponse(response) => response.status.to_string(),
            action => panic!("{action:?}"),
        };
        (route.name.split('/').nth(2).unwrap().to_owned(), to)
    });
    led.collect()
}

fn cluster(name: &str) -> String {
    format!("Cluster({name:?})")
}

#[test]
fn a_table_goes_on_with_a_refused_listener_and_what_lacks_its_guard_is_closed() {
    let first = [("x", Some(FilterKind::BasicAuth), "a"), ("y", None, "a")];
    let mut stream = serving(fleet("one", &[FilterKind::BasicAuth], &first));

    // `y` gets a guard, and the proxy can't have the listener that goes with it.
    let both = [FilterKind::BasicAuth, FilterKind::ApiKeyAuth];
    let guarded = [
        ("x", Some(FilterKind::BasicAuth), "a"),
        ("y", Some(FilterKind::ApiKeyAuth), "a"),
    ];
    let listeners = only(stream.on_snapshot(&fleet("two", &both, &guarded), 2));
    assert_eq!(listeners.kind, ResourceType::Listener);
    let table = only(stream.on_request(&nack(&listeners, "no such module"), 3));
    assert_eq!(leads(&table), [("x".into(), cluster("a")), ("y".into(), "500".into())]);
    stream.on_request(&ack(&table), 4);

    // Others' edits are served meanwhile.
    let edited = [
        ("x", Some(FilterKind::BasicAuth), "b"),
        ("y", Some(FilterKind::ApiKeyAuth), "a"),
    ];
    let table = only(stream.on_snapshot(&fleet("two", &both, &edited), 5));
    assert_eq!(leads(&table), [("x".into(), cluster("b")), ("y".into(), "500".into())]);
    assert!(sent(stream.on_request(&ack(&table), 6)).is_empty());

    // Back to what the proxy has.
    let table = only(stream.on_snapshot(&fleet("one", &[FilterKind::BasicAuth], &first), 7));
    assert_eq!(leads(&table), [("x".into(), cluster("a")), ("y".into(), cluster("a"))]);
    assert!(sent(stream.on_request(&ack(&table), 8)).is_empty());
}

#[test]
fn a_better_listener_ends_the_table_of_before() {
    let first = [("x", Some(FilterKind::BasicAuth), "a"), ("y", None, "a")];
    let mut stream = serving(fleet("one", &[FilterKind::BasicAuth], &first));
    let both = [FilterKind::BasicAuth, FilterKind::ApiKeyAuth];
    let guarded = [
        ("x", Some(FilterKind::BasicAuth), "a"),
        ("y", Some(FilterKind::ApiKeyAuth), "a"),
    ];
    let listeners = only(stream.on_snapshot(&fleet("two", &both, &guarded), 2));
    let table = only(stream.on_request(&nack(&listeners, "no such module"), 3));
    stream.on_request(&ack(&table), 4);

    let better = [FilterKind::BasicAuth, FilterKind::Csrf];
    let guarded = [
        ("x", Some(FilterKind::BasicAuth), "a"),
        ("y", Some(FilterKind::Csrf), "a"),
    ];
    let mut open = sent(stream.on_snapshot(&fleet("three", &better, &guarded), 5));
    let listeners = open
        .iter()
        .find(|response| response.kind == ResourceType::Listener)
        .cloned();
    open.retain(|response| response.kind != ResourceType::Listener);
    for response in &open {
        assert_eq!(leads(response)[1].1, "500");
        stream.on_request(&ack(response), 6);
    }
    let after = sent(stream.on_request(&ack(&listeners.unwrap()), 7));
    let mut open = after;
    open.extend(sent(
        stream.on_request(&subscribe(ResourceType::Routes, &["default/gw/http~three"]), 8),
    ));
    let mut removed = Vec::new();
    while let Some(response) = open.pop() {
        removed.extend(response.removed.iter().map(ToString::to_string));
        open.extend(sent(stream.on_request(&ack(&response), 9)));
    }
    assert_eq!(removed, [BEFORE]);
    assert!(stream.is_settled());
}
