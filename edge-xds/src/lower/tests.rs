use super::*;
use crate::{
    json::{Codec, Names},
    sample,
    snapshot::diff,
};
use edge_ir::{
    BackendShare, Chunk, Destination, DirectResponse, Executor, Forward, HeaderEdit, HeaderEdits, List, PathRewrite,
    RetryPolicy, Route, RouteAction, RouteTable, Seldom, Shares, Timeout, Unresolved, VirtualHost,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn body(snapshot: &Snapshot, kind: ResourceType, name: &str) -> Value {
    let entry = snapshot.section(kind).get(name).unwrap();
    let bytes = entry.body.contiguous();
    Codec::cached()
        .unwrap()
        .bytes_to_json(kind.type_url(), &bytes, Names::Proto)
        .unwrap()
}

fn lower(fleet: &Fleet) -> Snapshot {
    Lowering::new().lower(fleet)
}

fn forward(destination: Destination) -> Forward {
    Forward {
        destination,
        timeout: None,
        retry: None,
        path_rewrite: None,
        host_rewrite: None,
        forwarded_host: Default::default(),
        mirrors: Seldom::default(),
        traffic: None,
    }
}

/// The route that an action becomes.
fn lowered_route(edit: impl FnOnce(&mut Route)) -> Value {
    let mut route = (*sample::route("r", "/a", "c")).clone();
    edit(&mut route);
    let snapshot = lower(&sample::fleet(
        vec![sample::host("a.example", vec![Arc::new(route)])],
        &["c"],
    ));
    let mut table = body(&snapshot, ResourceType::Routes, "default/gw/http");
    table["virtual_hosts"][0]["routes"][0].take()
}

#[test]
fn a_route_carries_its_name_match_action_and_origin() {
    assert_eq!(
        lowered_route(|_| {}),
        json!({
            "name": "httproute/default/r/rule/0/match/0/a_example",
            "match": {"path_separated_prefix": "/a"},
            "route": {"cluster": "c", "upgrade_configs": [{"upgrade_type": "websocket"}]},
            "metadata": {"filter_metadata": {"edge-gateway": {"resources": [
                {"kind": "HTTPRoute", "name": "r", "namespace": "default"},
            ]}}},
        })
    );
}

#[test]
fn a_table_is_its_header_and_its_hosts() {
    let snapshot = lower(&sample::fleet(
        vec![sample::host("*", vec![]), sample::host("a.example", vec![])],
        &[],
    ));
    let table = body(&snapshot, ResourceType::Routes, "default/gw/http");
    assert_eq!(table["name"], "default/gw/http");
    assert_eq!(table["ignore_port_in_host_matching"], true);
    let domains: Vec<&Value> = table["virtual_hosts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|host| &host["domains"])
        .collect();
    assert_eq!(domains, [&json!(["*"]), &json!(["a.example"])]);
    assert_eq!(
        table["virtual_hosts"][1]["metadata"]["filter_metadata"]["edge-gateway"]["resources"][0]["name"],
        "gw"
    );
}

#[test]
fn an_unresolved_share_goes_to_a_cluster_that_is_never_there() {
    let share = BackendShare {
        cluster: "c".into(),
        weight: 3,
        request_headers: HeaderEdits::default(),
        response_headers: HeaderEdits::default(),
        host_rewrite: None,
        filters: Default::default(),
    };
    let route = lowered_route(|route| {
        let destination = Destination::Weighted(Box::new(Shares {
            shares: vec![share],
            invalid_weight: 1,
            unresolved: Unresolved::Error,
        }));
        Arc::make_mut(&mut route.effect).action = RouteAction::Forward(forward(destination));
    });
    assert_eq!(
        route["route"]["cluster_not_found_response_code"],
        "INTERNAL_SERVER_ERROR"
    );
    assert_eq!(
        route["route"]["weighted_clusters"]["clusters"],
        json!([{"name": "c", "weight": 3}, {"name": "invalid-backend-cluster", "weight": 1}])
    );
}

#[test]
fn a_destination_without_shares_answers_500() {
    let destination = Destination::Weighted(Box::new(Shares {
        shares: Vec::new(),
        invalid_weight: 2,
        unresolved: Unresolved::Error,
    }));
    let route =
        lowered_route(|route| Arc::make_mut(&mut route.effect).action = RouteAction::Forward(forward(destination)));
    assert_eq!(route["direct_response"], json!({"status": 500}));
}

#[test]
fn timeouts_retries_and_rewrites_are_lowered() {
    let route = lowered_route(|route| {
        let mut action = forward(Destination::Cluster("c".into()));
        action.timeout = Some(Timeout(1500));
        action.retry = Some(Arc::new(RetryPolicy {
            retries: 2,
            triggers: Vec::new(),
            codes: vec![503],
            backoff: Some(Timeout(100)),
            max_backoff: None,
            per_try_timeout: None,
            attempts_per_priority: None,
        }));
        action.path_rewrite = Some(Box::new(PathRewrite::Full("/b\\1".into())));
        Arc::make_mut(&mut route.effect).action = RouteAction::Forward(action);
    });
    let action = &route["route"];
    assert_eq!(action["timeout"], "1.500s");
    assert_eq!(
        action["regex_rewrite"],
        json!({"pattern": {"regex": "^/.*$"}, "substitution": "/b\\\\1"})
    );
    let retry = &action["retry_policy"];
    assert_eq!(
        retry["retry_on"],
        "connect-failure,refused-stream,unavailable,retriable-status-codes"
    );
    assert_eq!(
        (&retry["num_retries"], &retry["retriable_status_codes"]),
        (&json!(2), &json!([503]))
    );
    assert_eq!(retry["retry_back_off"], json!({"base_interval": "0.100s"}));
}

#[test]
fn header_values_are_literal_and_removal_comes_last() {
    let edit = |name: &str, value: &str| HeaderEdit {
        name: name.into(),
        value: value.into(),
    };
    let route = lowered_route(|route| {
        Arc::make_mut(&mut route.effect).request_headers = HeaderEdits {
            set: vec![edit("x-a", "50%"), edit("Host", "b.example"), edit("x-gone", "1")],
            add: vec![edit("x-empty", "")],
            remove: vec!["X-Gone".into(), ":path".into()],
        }
        .boxed();
    });
    assert_eq!(
        route["request_headers_to_add"],
        json!([
            {"header": {"key": "x-a", "value": "50%%"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"},
            {"header": {"key": "x-empty"}, "keep_empty_value": true},
        ])
    );
    assert_eq!(route["request_headers_to_remove"], json!(["X-Gone"]));
    assert_eq!(route["route"]["host_rewrite_literal"], "b.example");
}

#[test]
fn a_long_direct_response_raises_the_limit_of_its_table() {
    let body_of = |len: usize| {
        let response = DirectResponse {
            status: 200,
            body: Some((*"x".repeat(len)).into()),
        };
        let route = sample::route_with("r", "/", RouteAction::Respond(response));
        let snapshot = lower(&sample::fleet(vec![sample::host("*", vec![route])], &[]));
        body(&snapshot, ResourceType::Routes, "default/gw/http")
    };
    assert_eq!(body_of(4096).get("max_direct_response_body_size_bytes"), None);
    assert_eq!(body_of(5000)["max_direct_response_body_size_bytes"], 5000);
}

#[test]
fn a_plain_listener_has_one_chain_and_waits_for_its_table() {
    let snapshot = lower(&sample::fleet(vec![], &[]));
    let listener = body(&snapshot, ResourceType::Listener, "tcp-80");
    assert_eq!(
        listener["address"]["socket_address"],
        json!({"address": "0.0.0.0", "port_value": 10080})
    );
    let manager = &listener["default_filter_chain"]["filters"][0]["typed_config"];
    assert_eq!(manager["rds"]["route_config_name"], "default/gw/http");
    assert_eq!(
        manager["rds"]["config_source"],
        json!({"ads": {}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"})
    );
    assert_eq!(manager["server_name"], "edge");
    assert_eq!(
        manager["internal_address_config"]["cidr_ranges"][0],
        json!({"address_prefix": "10.0.0.0", "prefix_len": 8})
    );
    assert_eq!(manager["access_log"][0]["typed_config"]["path"], "/dev/stdout");
    assert_eq!(listener.get("listener_filters"), None);
}

#[test]
fn a_tls_listener_inspects_names_and_takes_certificates_from_the_stream() {
    let mut fleet = sample::fleet(vec![], &[]);
    fleet.listeners = Arc::new(vec![sample::tls_listener(443, "default/gw/http", "default/cert")]);
    fleet.secrets = Arc::new(vec![sample::secret("default/cert")]);
    let snapshot = lower(&fleet);
    let listener = body(&snapshot, ResourceType::Listener, "tcp-443");
    assert_eq!(
        listener["listener_filters"][0]["name"],
        "envoy.filters.listener.tls_inspector"
    );
    let chain = &listener["filter_chains"][0];
    assert_eq!(chain["filter_chain_match"], json!({"server_names": ["a.example"]}));
    let tls = &chain["transport_socket"]["typed_config"]["common_tls_context"];
    assert_eq!(tls["tls_certificate_sds_secret_configs"][0]["name"], "default/cert");
    assert_eq!(tls["alpn_protocols"], json!(["h2", "http/1.1"]));
    assert_eq!(tls["tls_params"]["tls_maximum_protocol_version"], "TLSv1_3");
    let secret = body(&snapshot, ResourceType::Secret, "default/cert");
    assert_eq!(secret["tls_certificate"]["private_key"]["inline_bytes"], "a2V5");
}

#[test]
fn streams_go_to_their_backends_and_nowhere_without_one() {
    let proxy = |shares: &[(&str, u32)], invalid_weight| edge_ir::StreamProxy {
        stat_prefix: "tcp-90".into(),
        access: None,
        shares: shares
            .iter()
            .map(|(name, weight)| edge_ir::StreamShare {
                cluster: (*name).into(),
                weight: *weight,
            })
            .collect(),
        invalid_weight,
        hashes_source: false,
        named_at: None,
        origins: Default::default(),
    };
    let tcp_filters = |proxy| {
        let chain = edge_ir::FilterChain {
            network: edge_ir::Network::Tcp(proxy),
            ..sample::chain("t", None)
        };
        let listener = Listener {
            default_chain: Some(chain),
            ..(*sample::listener(90, "t")).clone()
        };
        let fleet = Fleet {
            listeners: Arc::new(vec![listener.into()]),
            ..sample::fleet(vec![], &[])
        };
        let mut listener = body(&lower(&fleet), ResourceType::Listener, "tcp-90");
        match listener["default_filter_chain"]["filters"].take() {
            Value::Array(filters) => filters,
            other => panic!("{other}"),
        }
    };
    let tcp = |proxy| tcp_filters(proxy).pop().unwrap()["typed_config"].take();
    assert_eq!(tcp(proxy(&[], 0))["cluster"], "EmptyCluster");
    assert_eq!(tcp(proxy(&[("c", 1)], 0))["cluster"], "c");
    let weighted = tcp(proxy(&[("c", 1)], 2));
    assert_eq!(
        weighted["weighted_clusters"]["clusters"],
        json!([{"name": "c", "weight": 1}, {"name": "invalid-backend-cluster", "weight": 2}])
    );
    let named = edge_ir::StreamProxy {
        named_at: Some(edge_ir::NamedAt {
            port: 443,
            hosts: edge_ir::NamedHosts::Others,
        }),
        // Of something that no network tells.
        access: Some(Arc::new(edge_ir::AccessRules {
            rules: vec![edge_ir::AccessRule {
                access: edge_ir::Access::Allow,
                conditions: vec![edge_ir::AccessCondition::Method(vec!["GET".into()])],
            }],
            otherwise: edge_ir::Access::Deny,
        })),
        ..proxy(&[("c", 1)], 0)
    };
    let filters = tcp_filters(named);
    let names: Vec<_> = filters.iter().map(|filter| filter["name"].as_str().unwrap()).collect();
    let expected =
        ["rbac", "sni_dynamic_forward_proxy", "tcp_proxy"].map(|name| format!("envoy.filters.network.{name}"));
    assert_eq!(names, expected);
    let named = &filters[1]["typed_config"];
    assert_eq!(named["port_value"], 443);
    assert_eq!(named["dns_cache_config"]["name"], "dynamic_forward_proxy/others");
    let refused = &named["dns_cache_config"]["resolved_address_filter"]["ranges"];
    assert_eq!(refused[0], json!({"address_prefix": "127.0.0.0", "prefix_len": 8}));
    let udp = Listener {
        name: "udp-53".into(),
        carrier: Default::default(),
        udp: Some(proxy(&[("c", 1)], 0)),
        default_chain: None,
        ..(*sample::listener(53, "t")).clone()
    };
    let fleet = Fleet {
        listeners: Arc::new(vec![udp.into()]),
        ..sample::fleet(vec![], &[])
    };
    let listener = body(&lower(&fleet), ResourceType::Listener, "udp-53");
    assert_eq!(listener["address"]["socket_address"]["protocol"], "UDP");
    let action = &listener["listener_filters"][0]["typed_config"]["matcher"]["on_no_match"]["action"];
    assert_eq!(action["typed_config"]["cluster"], "c");
}

#[test]
fn the_ready_listener_answers_500_but_for_its_path() {
    let snapshot = lower(&sample::fleet(vec![], &[]));
    let ready = body(
        &snapshot,
        ResourceType::Listener,
        "edge-gateway-proxy-ready-0.0.0.0-19003",
    );
    let manager = &ready["filter_chains"][0]["filters"][0]["typed_config"];
    assert_eq!(manager["http_filters"][0]["typed_config"]["pass_through_mode"], false);
    // Whether the proxy lives is asked by a header of its own; whoever else comes is refused.
    let routes = &manager["route_config"]["virtual_hosts"][0]["routes"];
    assert_eq!(routes[0]["match"]["headers"][0]["name"], "x-edge-probe");
    assert_eq!(routes[0]["direct_response"]["status"], 200);
    assert_eq!(routes[1]["direct_response"]["status"], 500);
    assert!(routes[2].is_null(), "{routes}");
}

#[test]
fn a_cluster_takes_endpoints_from_the_stream_and_says_what_warms_it() {
    let snapshot = lower(&sample::fleet(vec![], &["service/default/b/80"]));
    let cluster = body(&snapshot, ResourceType::Cluster, "service/default/b/80");
    assert_eq!(cluster["type"], "EDS");
    assert_eq!(cluster["circuit_breakers"]["thresholds"][0]["max_retries"], 1024);
    let policy = &cluster["load_balancing_policy"]["policies"][0]["typed_extension_config"];
    assert_eq!(policy["name"], "envoy.load_balancing_policies.least_request");
    assert_eq!(
        policy["typed_config"]["locality_lb_config"],
        json!({"locality_weighted_lb_config": {}})
    );
    let entry = snapshot
        .section(ResourceType::Cluster)
        .get("service/default/b/80")
        .unwrap();
    assert_eq!(entry.warmed_by.as_deref(), Some("service/default/b/80"));
    let endpoints = body(&snapshot, ResourceType::Endpoints, "service/default/b/80");
    assert_eq!(
        endpoints["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]["socket_address"],
        json!({"address": "127.0.0.1", "port_value": 3000})
    );
}

#[test]
fn one_changed_host_leaves_every_other_resource_the_same_entry() {
    let hosts = |prefix: &str| {
        vec![
            sample::host("a.example", vec![sample::route("a", prefix, "c")]),
            sample::host("b.example", vec![sample::route("b", "/", "c")]),
        ]
    };
    let before = sample::fleet(hosts("/old"), &["c"]);
    let after = Fleet {
        route_tables: sample::fleet(hosts("/new"), &["c"]).route_tables,
        ..before.clone()
    };
    let mut lowering = Lowering::new();
    let (first, second) = (lowering.lower(&before), lowering.lower(&after));
    for kind in ResourceType::ALL {
        let changes = diff(first.section(kind), second.section(kind));
        let expected = usize::from(kind == ResourceType::Routes);
        assert_eq!(
            (changes.changed.len(), changes.removed.len()),
            (expected, 0),
            "{kind:?}"
        );
    }
}

#[test]
fn equal_content_in_new_pointers_keeps_the_section() {
    let build = || {
        sample::fleet(
            vec![sample::host("a.example", vec![sample::route("a", "/", "c")])],
            &["c"],
        )
    };
    let mut lowering = Lowering::new();
    let (first, second) = (lowering.lower(&build()), lowering.lower(&build()));
    for kind in ResourceType::ALL {
        assert!(Arc::ptr_eq(first.section(kind), second.section(kind)), "{kind:?}");
    }
}

/// One step in the life of a fleet.
#[derive(Clone, Debug)]
enum Edit {
    SetHost { host: u8, routes: Vec<(u8, u8)> },
    DropHost(u8),
    MoveTable(bool),
    SetEndpoints { cluster: u8, port: u16 },
    DropCluster(u8),
    Settings(bool),
}

fn edits() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (0..5u8, prop::collection::vec((0..6u8, 0..3u8), 0..6))
            .prop_map(|(host, routes)| Edit::SetHost { host, routes }),
        (0..5u8).prop_map(Edit::DropHost),
        any::<bool>().prop_map(Edit::MoveTable),
        (0..4u8, 1..9u16).prop_map(|(cluster, port)| Edit::SetEndpoints { cluster, port }),
        (0..4u8).prop_map(Edit::DropCluster),
        any::<bool>().prop_map(Edit::Settings),
    ]
}

/// Applies edits the way the translation does: pieces that don't change keep their pointers.
#[derive(Default)]
struct World {
    hosts: std::collections::BTreeMap<u8, Arc<VirtualHost>>,
    clusters: std::collections::BTreeMap<u8, (Arc<Cluster>, Arc<EndpointSet>)>,
    routes: std::collections::BTreeMap<(u8, u8), Arc<Route>>,
    second_table: bool,
    quiet: bool,
}

impl World {
    fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::SetHost { host, routes } => {
                let routes = routes
                    .iter()
                    .map(|&(name, path)| {
                        let make = || sample::route(&format!("r{name}"), &format!("/p{path}"), "c0");
                        Arc::clone(self.routes.entry((name, path)).or_insert_with(make))
                    })
                    .collect();
                self.hosts
                    .insert(*host, sample::host(&format!("h{host}.example"), routes));
            }
            Edit::DropHost(host) => drop(self.hosts.remove(host)),
            Edit::MoveTable(second) => self.second_table = *second,
            Edit::SetEndpoints { cluster, port } => {
                let name = format!("c{cluster}");
                self.clusters
                    .insert(*cluster, (sample::cluster(&name), sample::endpoints(&name, &[*port])));
            }
            Edit::DropCluster(cluster) => drop(self.clusters.remove(cluster)),
            Edit::Settings(quiet) => self.quiet = *quiet,
        }
    }

    fn fleet(&self) -> Fleet {
        let mut fleet = sample::fleet(self.hosts.values().cloned().collect(), &[]);
        if self.second_table {
            let mut tables: Vec<Arc<RouteTable>> = fleet.route_tables.to_vec();
            tables.push(sample::table(
                "default/gw/other",
                self.hosts.values().take(2).cloned().collect(),
            ));
            fleet.route_tables = Arc::new(tables);
        }
        if self.quiet {
            fleet.settings = Arc::default();
        }
        fleet.clusters = Arc::new(self.clusters.values().map(|(cluster, _)| Arc::clone(cluster)).collect());
        fleet.endpoints = Arc::new(
            self.clusters
                .values()
                .map(|(_, endpoints)| Arc::clone(endpoints))
                .collect(),
        );
        fleet
    }
}

/// Runs the smallest jobs that there are, the last first.
#[derive(Debug)]
struct Backwards;

impl Executor for Backwards {
    fn width(&self) -> usize {
        3
    }

    fn least(&self) -> usize {
        1
    }

    fn run(&self, count: usize, job: &(dyn Fn(usize) + Sync)) {
        (0..count).rev().for_each(job);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Law: whatever was lowered before, and whoever does it, the bytes are those of lowering from scratch.
    #[test]
    fn history_leaves_no_trace(history in prop::collection::vec(edits(), 1..20)) {
        let mut lowering = Lowering::new();
        let mut other = Lowering::new().run_by(Arc::new(Backwards));
        let mut world = World::default();
        for edit in &history {
            world.apply(edit);
            let fleet = world.fleet();
            prop_assert_eq!(lowering.lower(&fleet), lower(&fleet));
            prop_assert_eq!(other.lower(&fleet), lower(&fleet));
        }
    }

    /// The same for a table of many hosts, whose list keeps the chunks that an edit doesn't touch, however it is cut.
    #[test]
    fn chunks_leave_no_trace(
        history in prop::collection::vec(prop::collection::vec((0..330u16, prop::option::of(0..3u8)), 1..5), 1..6),
    ) {
        let host = |n: u16, path: u8| {
            let route = sample::route(&format!("r{n}"), &format!("/p{path}"), "c0");
            sample::host(&format!("h{n:04}.example"), vec![route])
        };
        let mut hosts: std::collections::BTreeMap<u16, Arc<VirtualHost>> = (0..300).map(|n| (n, host(n, 0))).collect();
        let mut chunks: std::collections::BTreeMap<u16, Chunk<Arc<VirtualHost>>> = Default::default();
        let mut lowering = Lowering::new().run_by(Arc::new(Backwards));
        for edits in std::iter::once(&Vec::new()).chain(&history) {
            for (n, path) in edits {
                match path {
                    Some(path) => hosts.insert(*n, host(*n, *path)),
                    None => hosts.remove(n),
                };
                chunks.remove(&(n / 70));
            }
            for (n, there) in [0..70, 70..140, 140..210, 210..280, 280..350].into_iter().enumerate() {
                let cut = || hosts.range(there).map(|(_, host)| Arc::clone(host)).collect();
                chunks.entry(n as u16).or_insert_with(cut);
            }
            let all: Vec<_> = hosts.values().cloned().collect();
            let anew = sample::fleet(all.clone(), &[]);
            let mut fleet = anew.clone();
            fleet.route_tables = Arc::new(vec![Arc::new(RouteTable {
                hosts: List::of_chunks(chunks.values().cloned()),
                ..RouteTable::clone(&anew.route_tables[0])
            })]);
            prop_assert_eq!(&fleet, &anew);
            let (edited, anew) = (lowering.lower(&fleet), lower(&anew));
            prop_assert_eq!(edited.section(ResourceType::Routes), anew.section(ResourceType::Routes));
        }
    }
}
