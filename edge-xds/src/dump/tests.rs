use super::*;
use crate::{
    bootstrap::{BootstrapSettings, default_bootstrap},
    lower::Lowering,
    sample,
};
use edge_ir::{FilterChain, FilterId, FilterKind, Network};
use serde_json::json;

fn dump(kind: DumpKind, fleet: &edge_ir::Fleet) -> Value {
    let bootstrap = default_bootstrap(&BootstrapSettings::default());
    let snapshot = Lowering::new().lower(fleet);
    let codec = codec([&bootstrap], [&snapshot]).unwrap();
    Dump::new(&codec, kind, &fleet.key, &snapshot, &bootstrap)
        .unwrap()
        .to_value()
        .unwrap()
}

fn fleet() -> edge_ir::Fleet {
    let mut fleet = sample::fleet(
        vec![sample::host("a.example", vec![sample::route("r", "/a", "c")])],
        &["c"],
    );
    fleet.secrets = std::sync::Arc::new(vec![sample::secret("default/cert")]);
    fleet
}

#[test]
fn a_route_dump_names_its_fleet_and_tables_with_dashes() {
    let dump = dump(DumpKind::Route, &fleet());
    assert_eq!(
        (&dump["configKey"], &dump["resourceType"]),
        (&json!("default-gw"), &json!("route"))
    );
    assert_eq!(dump["@type"], "type.googleapis.com/envoy.admin.v3.RoutesConfigDump");
    let table = &dump["dynamicRouteConfigs"][0]["routeConfig"];
    assert_eq!(
        table["@type"],
        "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
    );
    assert_eq!(table["name"], "default-gw-http");
    assert_eq!(table["ignorePortInHostMatching"], true);
    assert_eq!(table["virtualHosts"][0]["name"], "default/gw/http/a_example");
    assert_eq!(
        table["virtualHosts"][0]["routes"][0]["match"],
        json!({"pathSeparatedPrefix": "/a"})
    );
}

#[test]
fn a_table_in_pieces_is_written_like_one_that_is_whole() {
    let hosts = ["*", "a.example", "b.example"].map(|domain| sample::host(domain, vec![sample::route("r", "/a", "c")]));
    for hosts in [hosts.to_vec(), Vec::new()] {
        let fleet = sample::fleet(hosts, &["c"]);
        let snapshot = Lowering::new().lower(&fleet);
        let codec = codec([], [&snapshot]).unwrap();
        let table = &snapshot.section(ResourceType::Routes).entries()[0];
        let whole = codec.serialize_any(
            ResourceType::Routes.type_url(),
            &table.body.contiguous(),
            Names::Camel,
            Some("default-gw-http"),
            serde_json::value::Serializer,
        );
        assert_eq!(
            dump(DumpKind::Route, &fleet)["dynamicRouteConfigs"][0]["routeConfig"].to_string(),
            whole.unwrap().to_string()
        );
    }
}

#[test]
fn a_fleet_without_routes_has_an_empty_dump() {
    let empty = edge_ir::Fleet {
        route_tables: Default::default(),
        ..fleet()
    };
    assert_eq!(
        dump(DumpKind::Route, &empty),
        json!({
            "configKey": "default-gw",
            "@type": "type.googleapis.com/envoy.admin.v3.RoutesConfigDump",
            "resourceType": "route",
        })
    );
}

#[test]
fn all_holds_every_part_and_no_secret() {
    let dump = dump(DumpKind::All, &fleet());
    assert_eq!(dump["resourceType"], "all");
    let types: Vec<&str> = dump["configs"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|part| part["@type"].as_str())
        .collect();
    let names = ["Bootstrap", "Endpoints", "Clusters", "Listeners", "Routes"];
    assert_eq!(
        types,
        names.map(|name| format!("type.googleapis.com/envoy.admin.v3.{name}ConfigDump"))
    );
    assert_eq!(dump["configs"][0]["bootstrap"]["headerPrefix"], "x-edge");
    assert_eq!(
        dump["configs"][1]["dynamicEndpointConfigs"][0]["endpointConfig"]["clusterName"],
        "c"
    );
    assert_eq!(dump["configs"][2]["dynamicActiveClusters"][0]["cluster"]["name"], "c");
    let listener = &dump["configs"][3]["dynamicListeners"][1]["activeState"]["listener"];
    let manager = &listener["defaultFilterChain"]["filters"][0]["typedConfig"];
    assert_eq!(manager["rds"]["routeConfigName"], "default-gw-http");
    assert!(!dump.to_string().contains("inlineBytes"));
}

#[test]
fn every_lowered_type_is_known_to_the_small_codec() {
    let mut fleet = fleet();
    fleet.listeners = std::sync::Arc::new(vec![sample::tls_listener(443, "default/gw/http", "default/cert")]);
    let h2 = edge_ir::Cluster {
        protocol: edge_ir::AppProtocol::Http2,
        ..(*sample::cluster("h2")).clone()
    };
    let dns = edge_ir::Cluster {
        discovery: edge_ir::Discovery::Dns(Vec::new()),
        load_balancing: edge_ir::LoadBalancing::RoundRobin,
        ..(*sample::cluster("x-dns")).clone()
    };
    fleet.clusters = std::sync::Arc::new(vec![h2.into(), dns.into()]);
    let dump = dump(DumpKind::Cluster, &fleet);
    assert_eq!(dump["dynamicActiveClusters"].as_array().unwrap().len(), 2);
}

#[test]
fn kinds_are_read_by_name() {
    assert_eq!("endpoint".parse(), Ok(DumpKind::Endpoint));
    assert!(
        "endpoints"
            .parse::<DumpKind>()
            .unwrap_err()
            .to_string()
            .contains("endpoint, cluster")
    );
}

/// Two writers must agree: the dump's own, and the reflection library's.
#[test]
fn what_is_written_is_what_the_library_would_write() {
    let snapshot = Lowering::new().lower(&fleet());
    let codec = codec([], [&snapshot]).unwrap();
    for kind in [
        ResourceType::Listener,
        ResourceType::Routes,
        ResourceType::Cluster,
        ResourceType::Endpoints,
    ] {
        for entry in snapshot.section(kind).entries() {
            let body = entry.body.contiguous();
            for names in [Names::Camel, Names::Proto] {
                let serializer = serde_json::value::Serializer;
                let ours = codec
                    .serialize_any(kind.type_url(), &body, names, None, serializer)
                    .unwrap();
                let mut theirs = codec.bytes_to_json(kind.type_url(), &body, names).unwrap();
                theirs["@type"] = kind.type_url().into();
                assert_eq!(ours, theirs, "{}", entry.name);
            }
        }
    }
}

#[test]
fn every_filter_of_a_manager_can_be_shown() {
    let mut fleet = fleet();
    let mut listener = (*fleet.listeners[0]).clone();
    let kinds = [
        FilterKind::Cors,
        FilterKind::StatefulSession,
        FilterKind::GrpcWeb,
        FilterKind::GrpcStats,
    ];
    if let Some(FilterChain {
        network: Network::Http(manager),
        ..
    }) = &mut listener.default_chain
    {
        let shared = |kind| edge_ir::FilterInstance {
            id: FilterId::shared(kind),
            settings: edge_ir::FilterSettings::OfRoutes,
        };
        manager.filters = kinds.map(shared).to_vec();
    }
    fleet.listeners = std::sync::Arc::new(vec![std::sync::Arc::new(listener)]);
    let dump = dump(DumpKind::Listener, &fleet).to_string();
    for kind in kinds {
        assert!(
            dump.contains(&format!("envoy.filters.http.{}", kind.word())),
            "{kind:?}"
        );
    }
}
