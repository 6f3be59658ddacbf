//! Clusters that the route tables of static listeners name: Envoy doesn't start when one of them isn't there
//! (`validate_clusters`, which is true of such tables unless they say otherwise).

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::{ClusterSpecifier, RequestMirrorPolicy};
use envoy_types::pb::envoy::config::route::v3::{Route, RouteConfiguration};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use prost::Message as _;

/// What is wrong with a static listener that can be compiled: a route of its tables to a cluster that isn't known.
pub fn unknown_cluster(listener: &Listener, known: &BTreeSet<&str>) -> Option<String> {
    let chains = listener.filter_chains.iter().chain(&listener.default_filter_chain);
    let filters = chains.flat_map(|chain| &chain.filters);
    let managers = filters.filter_map(|filter| match &filter.config_type {
        Some(ConfigType::TypedConfig(any)) if any.type_url.ends_with(".HttpConnectionManager") => {
            HttpConnectionManager::decode(&*any.value).ok()
        }
        _ => None,
    });
    let mut tables = managers.filter_map(|manager| match manager.route_specifier {
        Some(RouteSpecifier::RouteConfig(table)) => Some(table),
        _ => None,
    });
    tables.find_map(|table| of_table(&table, known))
}

fn of_table(table: &RouteConfiguration, known: &BTreeSet<&str>) -> Option<String> {
    if table.validate_clusters.is_some_and(|validate| !validate.value) {
        return None;
    }
    table.virtual_hosts.iter().find_map(|host| {
        // The nearest ones are in force, and no others.
        let mirrors = match host.request_mirror_policies.as_slice() {
            [] => &table.request_mirror_policies,
            own => own,
        };
        host.routes.iter().find_map(|route| of_route(route, mirrors, known))
    })
}

fn of_route(route: &Route, mirrors: &[RequestMirrorPolicy], known: &BTreeSet<&str>) -> Option<String> {
    let Some(Action::Route(action)) = &route.action else {
        return None;
    };
    let mirrors = match action.request_mirror_policies.as_slice() {
        [] => mirrors,
        own => own,
    };
    // One that a header names is looked for with each request.
    let is_unknown = |name: &&str| !name.is_empty() && !known.contains(name);
    let (word, mut named) = match &action.cluster_specifier {
        Some(ClusterSpecifier::Cluster(name)) => ("cluster", vec![name.as_str()]),
        Some(ClusterSpecifier::WeightedClusters(weighted)) => (
            "weighted cluster",
            weighted.clusters.iter().map(|cluster| cluster.name.as_str()).collect(),
        ),
        _ => ("cluster", Vec::new()),
    };
    named.retain(is_unknown);
    let shadow = mirrors.iter().map(|mirror| mirror.cluster.as_str()).find(is_unknown);
    let unknown = named
        .first()
        .map(|name| (word, *name))
        .or(shadow.map(|name| ("shadow cluster", name)));
    unknown.map(|(word, name)| format!("route: unknown {word} {name:?}"))
}
