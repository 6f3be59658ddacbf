//! Routes that stand at their last good version, and the filters that guard them.

use super::{Applied, Hook, ResourceType, Rig, failing_over, fleet, one_host, same};
use edge_ir::{FilterId, FilterInstance, FilterKind, FilterSettings, Fleet, Network};
use envoy_types::pb::envoy::{
    config::listener::v3::{Listener, filter::ConfigType},
    extensions::filters::network::http_connection_manager::v3::HttpConnectionManager,
};
use prost::Message as _;
use std::sync::Arc;

/// A fleet whose one chain has a filter, behind guards that are called so, and whose route leads there.
fn guarded(kind: FilterKind, guards: &str, cluster: &str) -> Fleet {
    let mut fleet = fleet(vec![one_host(&[("x", "/x", cluster)])], &[cluster]);
    let listeners = Arc::make_mut(&mut fleet.listeners);
    let chain = Arc::make_mut(&mut listeners[0]).default_chain.as_mut().unwrap();
    let Network::Http(manager) = &mut chain.network else {
        panic!("no HTTP")
    };
    manager.filters = vec![FilterInstance {
        id: FilterId::shared(kind),
        settings: FilterSettings::OfRoutes,
    }];
    manager.guards = guards.into();
    Arc::make_mut(&mut Arc::make_mut(&mut fleet.route_tables)[0]).guards = guards.into();
    fleet
}

/// The filters of the chain, but the last.
fn filters(applied: &Applied) -> Vec<String> {
    let entry = &applied.snapshot.section(ResourceType::Listener).get("tcp-80").unwrap();
    let listener = Listener::decode(entry.body.contiguous()).unwrap();
    let chain = listener.default_filter_chain.unwrap();
    let Some(ConfigType::TypedConfig(config)) = &chain.filters[0].config_type else {
        panic!("{chain:?}")
    };
    let manager = HttpConnectionManager::decode(config.value.as_slice()).unwrap();
    let names = manager.http_filters.into_iter().map(|filter| filter.name);
    let mut names: Vec<_> = names.map(|name| name.replace("envoy.filters.http.", "")).collect();
    assert_eq!(names.pop().as_deref(), Some("router"));
    names
}

#[test]
fn a_route_that_stays_as_it_was_keeps_its_guards() {
    let mut rig = Rig::new(&[Hook::Route], &[]);
    let first = rig.settle(&guarded(FilterKind::BasicAuth, "users", "c0"));
    assert_eq!(filters(&first), ["basic_auth"]);
    rig.says(failing_over("/x/"));

    // Not answered yet, and then refused: the route stands as it was.
    let other = guarded(FilterKind::ApiKeyAuth, "keys", "c1");
    assert_eq!(filters(&rig.look(&other)), ["basic_auth", "api_key_auth"]);
    let held = rig.settle(&other);
    assert_eq!(held.held.len(), 1);
    assert_eq!(filters(&held), ["basic_auth", "api_key_auth"]);
    let again = rig.look(&other);
    let listeners = |applied: &Applied| Arc::clone(applied.snapshot.section(ResourceType::Listener));
    assert!(
        Arc::ptr_eq(&listeners(&held), &listeners(&again)),
        "nothing is sent again"
    );

    // Guards may come and go meanwhile.
    let third = rig.settle(&guarded(FilterKind::Csrf, "", "c2"));
    assert_eq!(filters(&third).len(), 3);

    rig.says(|question| Ok(same(question)));
    let last = rig.again(&guarded(FilterKind::Csrf, "", "c2"));
    assert_eq!(filters(&last), ["csrf"]);
}
