use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use prost::Name;

use super::*;
use crate::compile::files::Disk;
use crate::compile::prefixed_headers;
use crate::config::endpoint::HostId;
use crate::config::http_manager::RouteSource;

fn assembly() -> Assembly {
    Assembly::new(Context::new(
        Box::new(Disk),
        prefixed_headers("x-edge").expect("a prefix"),
        1,
    ))
}

fn resource<M: Message + Name + Default>(name: &str, yaml: &str) -> Incoming {
    let message: M = edge_xds::json::from_json(serde_yaml::from_str(yaml).expect("YAML")).expect("a message");
    Incoming {
        name: name.to_owned(),
        version: "1".to_owned(),
        body: message.encode_to_vec().into(),
        parts: None,
    }
}

fn cluster(name: &str, extra: &str) -> Incoming {
    let yaml = format!("{{name: {name}, type: EDS, eds_cluster_config: {{eds_config: {{ads: {{}}}}}}{extra}}}");
    resource::<ProtoCluster>(name, &yaml)
}

fn assignment(name: &str, port: u16) -> Incoming {
    let endpoint = format!("{{endpoint: {{address: {{socket_address: {{address: 192.0.2.1, port_value: {port}}}}}}}}}");
    let yaml = format!("{{cluster_name: {name}, endpoints: [{{lb_endpoints: [{endpoint}]}}]}}");
    resource::<ClusterLoadAssignment>(name, &yaml)
}

fn routes(name: &str, cluster: &str) -> Incoming {
    let yaml = format!(
        "{{name: {name}, virtual_hosts: [{{name: h, domains: ['*'], routes: [{{match: {{prefix: /}}, route: {{cluster: \
         {cluster}}}}}]}}]}}"
    );
    resource::<RouteConfiguration>(name, &yaml)
}

fn listener(name: &str, table: &str) -> Incoming {
    let manager =
        "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    let yaml = format!(
        "{{name: {name}, address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}, filter_chains: [{{filters: \
         [{{name: hcm, typed_config: {{\"@type\": {manager}, stat_prefix: s, rds: {{config_source: {{ads: {{}}}}, \
         route_config_name: {table}}}, http_filters: [{{name: r, typed_config: {{\"@type\": {router}}}}}]}}}}]}}]}}"
    );
    resource::<ProtoListener>(name, &yaml)
}

fn put(assembly: &mut Assembly, kind: Kind, resource: Incoming) {
    assert_eq!(assembly.apply(kind, Origin::Dynamic, &[resource], &[]), []);
    assembly.settle();
}

fn host_id(assembly: &Assembly, cluster: &str) -> Option<HostId> {
    let entry = assembly.snapshot().cluster_by_name(cluster)?;
    entry.endpoints.hosts.first().map(|host| host.id)
}

#[test]
fn a_cluster_is_used_once_its_endpoints_are_there() {
    let mut assembly = assembly();
    put(&mut assembly, Kind::Cluster, cluster("a", ""));
    assert!(assembly.snapshot().cluster_by_name("a").is_none() && !assembly.clusters_ready());
    assert_eq!(assembly.wanted(Kind::Assignment).into_iter().collect::<Vec<_>>(), ["a"]);
    put(&mut assembly, Kind::Assignment, assignment("a", 1));
    assert!(host_id(&assembly, "a").is_some() && assembly.clusters_ready());
}

#[test]
fn an_assignment_that_does_not_exist_is_an_empty_one() {
    let mut assembly = assembly();
    put(&mut assembly, Kind::Cluster, cluster("a", ""));
    assembly.apply(Kind::Assignment, Origin::Dynamic, &[], &["a".to_owned()]);
    assembly.settle();
    let entry = assembly.snapshot().cluster_by_name("a").expect("active");
    assert!(entry.endpoints.hosts.is_empty());
}

#[test]
fn endpoints_change_without_touching_routes_or_connections_that_stay() {
    let mut assembly = assembly();
    put(&mut assembly, Kind::Cluster, cluster("a", ""));
    put(&mut assembly, Kind::Assignment, assignment("a", 1));
    put(&mut assembly, Kind::Listener, listener("l", "r"));
    put(&mut assembly, Kind::Routes, routes("r", "a"));
    let before = assembly.snapshot().clone();
    let mut again = assignment("a", 1);
    again.version = "2".to_owned();
    put(&mut assembly, Kind::Assignment, again);
    let after = assembly.snapshot().clone();
    assert!(after.version > before.version);
    assert!(Arc::ptr_eq(&before.route_tables, &after.route_tables));
    assert!(Arc::ptr_eq(&before.listeners, &after.listeners));
    let entry = |snapshot: &Snapshot| snapshot.cluster_by_name("a").cloned().expect("active");
    assert!(Arc::ptr_eq(&entry(&before).cluster, &entry(&after).cluster));
    assert_eq!(
        entry(&before).endpoints.hosts[0].id,
        entry(&after).endpoints.hosts[0].id
    );
}

#[test]
fn new_settings_of_a_cluster_give_its_hosts_new_identities() {
    let mut assembly = assembly();
    put(&mut assembly, Kind::Cluster, cluster("a", ""));
    put(&mut assembly, Kind::Assignment, assignment("a", 1));
    let before = host_id(&assembly, "a");
    put(&mut assembly, Kind::Cluster, cluster("a", ", connect_timeout: 3s"));
    let entry = assembly.snapshot().cluster_by_name("a").expect("active");
    assert_eq!(entry.cluster.connect_timeout.as_secs(), 3);
    assert_ne!(host_id(&assembly, "a"), before);
}

#[test]
fn a_listener_serves_once_its_routes_are_there() {
    let mut assembly = assembly();
    put(&mut assembly, Kind::Listener, listener("l", "r"));
    assert!(assembly.snapshot().listeners.is_empty() && !assembly.listeners_ready());
    put(&mut assembly, Kind::Routes, routes("r", "a"));
    assert!(assembly.snapshot().listeners.contains_key("l"));
    // A new version that needs another table leaves the old one serving.
    put(&mut assembly, Kind::Listener, listener("l", "r2"));
    let source = |assembly: &Assembly| {
        let chains = assembly.snapshot().listeners["l"].chains.all();
        format!("{:?}", chains[0].network.http().expect("speaks HTTP").routes)
    };
    assert!(source(&assembly).contains("\"r\""), "{}", source(&assembly));
    put(&mut assembly, Kind::Routes, routes("r2", "a"));
    assert!(source(&assembly).contains("\"r2\""), "{}", source(&assembly));
}

#[test]
fn a_bad_resource_is_rejected_alone_and_its_last_good_version_stays() {
    let mut assembly = assembly();
    put(&mut assembly, Kind::Cluster, cluster("a", ""));
    put(&mut assembly, Kind::Assignment, assignment("a", 1));
    let bad = cluster("a", ", lb_policy: CLUSTER_PROVIDED");
    let rejected = assembly.apply(Kind::Cluster, Origin::Dynamic, &[bad, cluster("b", "")], &[]);
    assembly.settle();
    assert_eq!(rejected.len(), 1);
    assert_eq!(
        (rejected[0].name.as_str(), rejected[0].reason.contains("lb_policy")),
        ("a", true)
    );
    assert!(assembly.snapshot().cluster_by_name("a").is_some());
    assert!(assembly.wanted(Kind::Assignment).contains("b"));
    assert_eq!(assembly.failures().count(), 1);
    put(&mut assembly, Kind::Cluster, cluster("a", ""));
    assert_eq!(assembly.failures().count(), 0);
}

#[test]
fn removal_takes_a_resource_and_its_subscription_out() {
    let mut assembly = assembly();
    put(&mut assembly, Kind::Cluster, cluster("a", ""));
    put(&mut assembly, Kind::Assignment, assignment("a", 1));
    put(&mut assembly, Kind::Listener, listener("l", "r"));
    put(&mut assembly, Kind::Routes, routes("r", "a"));
    let removed = ["a".to_owned(), "l".to_owned()];
    assembly.apply(Kind::Cluster, Origin::Dynamic, &[], &removed[..1]);
    assembly.apply(Kind::Listener, Origin::Dynamic, &[], &removed[1..]);
    assembly.forget_unwanted();
    assembly.settle();
    let snapshot = assembly.snapshot();
    assert!(snapshot.cluster_by_name("a").is_none() && snapshot.listeners.is_empty());
    assert!(snapshot.route_tables.iter().all(Option::is_none));
    assert!(
        Kind::ALL
            .into_iter()
            .all(|kind| assembly.wanted(kind).is_empty() && assembly.resources(kind).is_empty())
    );
}

#[test]
fn a_listener_goes_on_with_its_table_until_another_that_it_is_to_have_is_there() {
    let mut assembly = assembly();
    put(&mut assembly, Kind::Listener, listener("l", "r"));
    put(&mut assembly, Kind::Routes, routes("r", "a"));
    put(&mut assembly, Kind::Listener, listener("l", "r2"));
    assembly.forget_unwanted();
    assembly.apply(Kind::Routes, Origin::Dynamic, &[], &["r".to_owned()]);
    assembly.settle();
    let served = |assembly: &Assembly| {
        let snapshot = assembly.snapshot();
        let chains = snapshot.listeners["l"].chains.all();
        let routes = chains[0].network.http().map(|manager| manager.routes.clone());
        let RouteSource::Dynamic { name, .. } = routes.as_ref().expect("HTTP") else {
            panic!("{routes:?}")
        };
        let is_there = snapshot.route_table(routes.as_ref().expect("HTTP")).is_some();
        (name.to_string(), is_there)
    };
    assert_eq!(served(&assembly), ("r".to_owned(), true));
    put(&mut assembly, Kind::Routes, routes("r2", "a"));
    assert_eq!(served(&assembly), ("r2".to_owned(), true));
    assert!(assembly.has_left_tables());
    assembly.forget_unwanted();
    assembly.settle();
    assert_eq!(assembly.wanted(Kind::Routes).into_iter().collect::<Vec<_>>(), ["r2"]);
    assert_eq!(assembly.resources(Kind::Routes).len(), 1);
}

#[test]
fn a_listener_whose_socket_can_not_be_bound_gives_way_to_the_version_before() {
    let mut assembly = assembly();
    put(&mut assembly, Kind::Listener, listener("l", "r"));
    put(&mut assembly, Kind::Routes, routes("r", "a"));
    assembly.apply(Kind::Listener, Origin::Dynamic, &[listener("l", "r2")], &[]);
    assert_eq!(assembly.unchecked_listeners().len(), 1);
    let bad = assembly.refuse_listener("l", "address: in use".to_owned());
    assert_eq!(bad.name, "l");
    assembly.settle();
    assert!(assembly.snapshot().listeners.contains_key("l"));
    assert_eq!(assembly.wanted(Kind::Routes).into_iter().collect::<Vec<_>>(), ["r"]);
}

#[test]
fn the_stream_can_not_replace_what_the_bootstrap_defines() {
    let mut assembly = assembly();
    assert_eq!(
        assembly.apply(Kind::Cluster, Origin::Static, &[cluster("a", "")], &[]),
        []
    );
    let rejected = assembly.apply(Kind::Cluster, Origin::Dynamic, &[cluster("a", "")], &["a".to_owned()]);
    assert_eq!(rejected.len(), 1);
    assert!(assembly.wanted(Kind::Assignment).contains("a"), "nor remove it");
}

#[test]
fn a_name_that_differs_from_the_envelope_is_rejected() {
    let mut wrong = cluster("a", "");
    wrong.name = "b".to_owned();
    let rejected = assembly().apply(Kind::Cluster, Origin::Dynamic, &[wrong], &[]);
    assert!(rejected[0].reason.contains("was sent as"), "{}", rejected[0].reason);
}

#[test]
fn ids_of_names_that_are_gone_are_used_again() {
    let mut assembly = assembly();
    for index in 0..2000 {
        let name = format!("c{index}");
        put(&mut assembly, Kind::Cluster, cluster(&name, ""));
        put(&mut assembly, Kind::Assignment, assignment(&name, 1));
        assembly.apply(Kind::Cluster, Origin::Dynamic, &[], &[name]);
        assembly.forget_unwanted();
        assembly.settle();
    }
    assert!(
        assembly.snapshot().clusters.len() < 600,
        "{}",
        assembly.snapshot().clusters.len()
    );
}

/// A first version that is rejected comes from a server that has no other: the rest must not wait for it.
#[test]
fn what_is_rejected_at_the_start_keeps_nothing_else_closed() {
    let mut assembly = assembly();
    put(&mut assembly, Kind::Cluster, cluster("a", ""));
    put(&mut assembly, Kind::Cluster, cluster("b", ""));
    put(&mut assembly, Kind::Assignment, assignment("a", 1));
    assert!(!assembly.clusters_ready());
    let mut bad = assignment("b", 1);
    bad.body = Bytes::from_static(b"\xff");
    assert_eq!(assembly.apply(Kind::Assignment, Origin::Dynamic, &[bad], &[]).len(), 1);
    assembly.settle();
    assert!(assembly.clusters_ready() && assembly.snapshot().cluster_by_name("b").is_some());

    put(&mut assembly, Kind::Listener, listener("good", "r"));
    put(&mut assembly, Kind::Listener, listener("bad", "s"));
    put(&mut assembly, Kind::Routes, routes("r", "a"));
    assert!(!assembly.listeners_ready());
    let mut bad = routes("s", "a");
    bad.body = Bytes::from_static(b"\xff");
    assert_eq!(assembly.apply(Kind::Routes, Origin::Dynamic, &[bad], &[]).len(), 1);
    assembly.settle();
    assert!(assembly.listeners_ready());
    let open = assembly.snapshot().listeners.keys().cloned().collect::<Vec<_>>();
    assert_eq!(open, ["bad".into(), "good".into()] as [Arc<str>; 2]);
    // Its port answers 404 until there are routes, as Envoy's does.
    assert_eq!(assembly.snapshot().route_tables.iter().flatten().count(), 1);
    put(&mut assembly, Kind::Routes, routes("s", "a"));
    assert_eq!(assembly.snapshot().route_tables.iter().flatten().count(), 2);
}

/// A listener `tls` whose certificate `c` comes from there.
fn secure(source: &str) -> Incoming {
    let tls = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";
    let mut message = ProtoListener::decode(listener("tls", "r").body).expect("a listener");
    let socket = format!(
        "{{name: tls, typed_config: {{\"@type\": {tls}, common_tls_context: {{tls_certificate_sds_secret_configs: \
         [{{name: c, sds_config: {source}}}]}}}}}}"
    );
    message.filter_chains[0].transport_socket =
        Some(edge_xds::json::from_json(serde_yaml::from_str(&socket).expect("YAML")).expect("a socket"));
    let mut resource = listener("tls", "r");
    resource.body = message.encode_to_vec().into();
    resource
}

#[test]
fn what_servers_of_secrets_have_sent_is_told_until_nobody_wants_it() {
    let mut assembly = assembly();
    let source = "{api_config_source: {api_type: GRPC, transport_api_version: V3, grpc_services: \
                  [{envoy_grpc: {cluster_name: agent}}]}, resource_api_version: V3}";
    put(&mut assembly, Kind::Listener, secure(source));
    let wanted = assembly.wanted_elsewhere();
    assert!(wanted.files.is_empty());
    assert_eq!(
        wanted.of_servers,
        [("agent".to_owned(), ["c".to_owned()].into())].into()
    );
    let sent = |assembly: &Assembly| {
        let sent = assembly.secrets_of_servers();
        sent.map(|(name, version, _)| format!("{name} {version}"))
            .collect::<Vec<_>>()
    };
    assert!(sent(&assembly).is_empty());
    let secret = serde_yaml::from_str("{name: c, generic_secret: {secret: {inline_string: x}}}").expect("YAML");
    let secret = edge_xds::json::from_json(secret).expect("a secret");
    assembly
        .put_secret_of_server("agent", &secret, "7")
        .expect("a good secret");
    assert_eq!(sent(&assembly), ["c 7"]);
    assembly.apply(Kind::Listener, Origin::Dynamic, &[], &["tls".to_owned()]);
    assembly.settle();
    assembly.forget_unwanted();
    assert!(sent(&assembly).is_empty());
}

#[test]
fn a_listener_without_its_certificate_keeps_no_other_closed() {
    let mut assembly = assembly();
    put(&mut assembly, Kind::Listener, listener("plain", "r"));
    put(&mut assembly, Kind::Routes, routes("r", "a"));
    put(&mut assembly, Kind::Listener, secure("{ads: {}}"));
    assert!(!assembly.listeners_ready());
    // The server says that there is no such secret.
    assembly.apply(Kind::Secret, Origin::Dynamic, &[], &["c".to_owned()]);
    assembly.settle();
    assert!(assembly.listeners_ready());
    let open = assembly.snapshot().listeners.keys().cloned().collect::<Vec<_>>();
    assert_eq!(open, ["plain".into()] as [Arc<str>; 1]);
}

#[test]
fn a_cluster_with_other_settings_goes_on_with_the_answers_of_dns() {
    let mut assembly = assembly();
    let by_name = |name: &str, timeout: u8| {
        let endpoint = format!("{{endpoint: {{address: {{socket_address: {{address: {name}, port_value: 80}}}}}}}}");
        let yaml = format!(
            "{{name: a, type: STRICT_DNS, connect_timeout: {timeout}s, load_assignment: {{cluster_name: a, endpoints: \
             [{{lb_endpoints: [{endpoint}]}}]}}}}"
        );
        resource::<ProtoCluster>("a", &yaml)
    };
    put(&mut assembly, Kind::Cluster, by_name("h.example", 1));
    let answer = |name: &str| Resolved::from([(name.to_owned(), vec!["192.0.2.1".parse().expect("an address")])]);
    assembly.put_resolved("a", answer("h.example"));
    assembly.settle();
    // Nobody asks again at once, so nothing would come for as long as the names are good.
    put(&mut assembly, Kind::Cluster, by_name("h.example", 2));
    let entry = assembly.snapshot().cluster_by_name("a").expect("active").clone();
    assert_eq!(entry.cluster.connect_timeout.as_secs(), 2);
    assert_eq!(entry.endpoints.hosts.len(), 1);
    // Other names are asked for at once: until the answer is there what serves stays.
    put(&mut assembly, Kind::Cluster, by_name("other.example", 3));
    let seconds = |assembly: &Assembly| {
        let entry = assembly.snapshot().cluster_by_name("a").expect("active");
        entry.cluster.connect_timeout.as_secs()
    };
    assert_eq!(seconds(&assembly), 2);
    assembly.put_resolved("a", answer("other.example"));
    assembly.settle();
    assert_eq!(seconds(&assembly), 3);
}
