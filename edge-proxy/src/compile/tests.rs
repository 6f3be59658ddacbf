use std::net::Ipv4Addr;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use prost::{Message, Name};

use super::*;
use crate::compile::endpoint::{Checks, EndpointInput, Resolved};
use crate::compile::secret::Secrets;
use crate::config::cluster::{Balancing, LbPolicy, UpstreamProtocol};
use crate::config::endpoint::{EndpointSet, LbSettings};
use crate::config::filter::cors::{Granted, OtherPreflights};
use crate::config::filter::{FilterKind, FilterSettings};
use crate::config::header::{HeaderStep, PutAction};
use crate::config::http_manager::{EscapedSlashes, RouteSource};
use crate::config::listener::Hello;
use crate::config::route::{Action, ClusterChoice, PathRewrite};

fn message<M: Message + Name + Default>(yaml: &str) -> M {
    edge_xds::json::from_json(serde_yaml::from_str(yaml).expect("YAML")).expect("a message")
}

fn context() -> Context {
    Context::new(Box::new(files::Disk), prefixed_headers("x-edge").expect("a prefix"), 1)
}

fn rejected_cluster(yaml: &str) -> String {
    cluster::cluster(&mut context(), &message::<Cluster>(yaml))
        .expect_err("must be rejected")
        .to_string()
}

fn table(yaml: &str) -> Result<crate::config::table::RouteTable, Rejection> {
    let inline = route_table::inline(&mut context(), &At::root(), &message::<RouteConfiguration>(yaml));
    inline.map_err(Rejection::from)
}

#[test]
fn a_field_that_is_not_supported_is_named() {
    assert_eq!(
        rejected_cluster("{name: a, type: STATIC, lb_subset_config: {list_as_any: true}}"),
        "lb_subset_config: not supported by this proxy"
    );
    assert_eq!(
        rejected_cluster("{name: a, lb_policy: CLUSTER_PROVIDED}"),
        "lb_policy: not supported by this proxy"
    );
    let error = table(
        "{name: r, virtual_hosts: [{name: h, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: a, \
         hash_policy: [{filter_state: {key: x}}]}}]}]}",
    )
    .expect_err("must be rejected");
    assert_eq!(
        error.field,
        "virtual_hosts[0].routes[0].route.hash_policy[0].filter_state"
    );
}

#[test]
fn a_generated_cluster_is_understood() {
    let yaml = r#"
name: service/default/backend/80
type: EDS
eds_cluster_config: {eds_config: {ads: {}, resource_api_version: V3}, service_name: service/default/backend/80}
connect_timeout: 10s
dns_lookup_family: V4_PREFERRED
per_connection_buffer_limit_bytes: 32768
ignore_health_on_host_removal: true
circuit_breakers: {thresholds: [{max_retries: 1024}]}
common_lb_config: {}
load_balancing_policy:
  policies:
  - typed_extension_config:
      name: envoy.load_balancing_policies.least_request
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest
        active_request_bias: {default_value: 0.5, runtime_key: bias}
        locality_lb_config: {locality_weighted_lb_config: {}}
typed_extension_protocol_options:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    explicit_http_config: {http2_protocol_options: {}}
"#;
    let spec = cluster::cluster(&mut context(), &message(yaml)).expect("supported");
    let cluster = spec.finish(&Secrets::new()).expect("no secrets needed");
    let policy = LbPolicy::LeastRequest { choices: 2, bias: 0.5 };
    assert_eq!(
        cluster.balancing,
        Balancing {
            policy,
            locality_weighted: true,
            zones: None,
            slow_start: None,
        }
    );
    assert_eq!(
        (cluster.protocol, cluster.limits.max_retries),
        (UpstreamProtocol::Http2, 1024)
    );
    assert_eq!(cluster.connect_timeout.as_secs(), 10);
    assert!(matches!(&spec.discovery, cluster::Discovery::Eds(name) if &**name == "service/default/backend/80"));
}

const LISTENER: &str = r#"
name: tcp-80
address: {socket_address: {address: 0.0.0.0, port_value: 10080}}
default_filter_chain:
  filters:
  - name: envoy.filters.network.http_connection_manager
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: http-80
      rds: {config_source: {ads: {}}, route_config_name: default/eg/http}
      use_remote_address: true
      normalize_path: true
      path_with_escaped_slashes_action: UNESCAPE_AND_REDIRECT
      internal_address_config: {cidr_ranges: [{address_prefix: 10.0.0.0, prefix_len: 8}]}
      http_filters:
      - name: envoy.filters.http.router
        typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
"#;

#[test]
fn a_chain_for_tls_leaves_cleartext_to_others() {
    let only_tls = "filter_chains:\n- filter_chain_match: {transport_protocol: tls}\n  name: tls";
    let text = LISTENER.replacen("default_filter_chain:", only_tls, 1);
    let listener = |text: &str| {
        let spec = listener::listener(&mut context(), &message(text)).expect("supported");
        spec.finish(&Secrets::new(), None).expect("no secrets needed")
    };
    let listener = listener(&text);
    assert!(listener.inspects_tls);
    let client = Ipv4Addr::LOCALHOST.into();
    assert!(listener.chain_for(Hello::Cleartext, client).is_none());
    assert!(listener.chain_for(Hello::Tls(None), client).is_some());
}

#[test]
fn a_generated_listener_is_understood() {
    let mut context = context();
    let spec = listener::listener(&mut context, &message(LISTENER)).expect("supported");
    let listener = spec.finish(&Secrets::new(), None).expect("no secrets needed");
    let chain = listener
        .chain_for(Hello::Cleartext, Ipv4Addr::LOCALHOST.into())
        .expect("default chain");
    let http = chain.network.http().expect("speaks HTTP");
    assert!(chain.tls.is_none() && http.client_address.use_remote_address);
    assert_eq!(http.path.escaped_slashes, EscapedSlashes::UnescapeAndRedirect);
    let is_internal = |address: &str| http.client_address.is_internal(address.parse().expect("address"));
    assert!(is_internal("10.1.2.3") && !is_internal("192.0.2.1"));
    assert!(matches!(&http.routes, RouteSource::Dynamic { name, .. } if &**name == "default/eg/http"));
    assert_eq!(
        spec.route_tables().map(|name| &**name).collect::<Vec<_>>(),
        ["default/eg/http"]
    );
    let again = spec
        .finish(&Secrets::new(), Some(&listener))
        .expect("no secrets needed");
    assert!(
        Arc::ptr_eq(
            chain,
            again
                .chain_for(Hello::Cleartext, Ipv4Addr::LOCALHOST.into())
                .expect("default chain")
        ),
        "an unchanged chain stays"
    );
}

#[test]
fn an_unknown_filter_is_rejected_unless_it_says_that_it_may_be_skipped() {
    let with = |extra: &str| {
        let filter = format!(
            "      - {{name: lua, {extra}typed_config: {{\"@type\": \
             type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua}}}}\n      - name: envoy.filters.http.router"
        );
        let yaml = LISTENER.replace("      - name: envoy.filters.http.router", &filter);
        listener::listener(&mut context(), &message(&yaml)).map(|_| ())
    };
    let error = with("").expect_err("must be rejected");
    assert!(error.reason.contains("\"lua\""), "{error}");
    assert!(error.field.ends_with("http_filters[0]"), "{error}");
    assert_eq!(with("is_optional: true, "), Ok(()));
    assert_eq!(with("disabled: true, "), Ok(()));
}

#[test]
fn the_health_check_filter_stands_before_the_router() {
    let filter = "      - {name: hc, typed_config: {\"@type\": \
                  type.googleapis.com/envoy.extensions.filters.http.health_check.v3.HealthCheck, pass_through_mode: \
                  false, headers: [{name: ':path', string_match: {exact: /ready}}]}}\n      - name: \
                  envoy.filters.http.router";
    let yaml = LISTENER.replace("      - name: envoy.filters.http.router", filter);
    let spec = listener::listener(&mut context(), &message(&yaml)).expect("supported");
    let manager = spec.managers().next().expect("one chain");
    let [filter] = manager.filters.list() else {
        panic!("{:?}", manager.filters)
    };
    let FilterKind::HealthCheck(filter) = &filter.kind else {
        panic!("{filter:?}")
    };
    assert_eq!(filter.conditions.len(), 1);
}

#[test]
fn filters_for_calls_are_known_and_only_the_bridge_touches_requests() {
    let with = |extra: &str| {
        let filters = format!(
            "      - {{{extra}name: web, typed_config: {{\"@type\": \
             type.googleapis.com/envoy.extensions.filters.http.grpc_web.v3.GrpcWeb}}}}\n      - {{name: stats, \
             typed_config: {{\"@type\": \
             type.googleapis.com/envoy.extensions.filters.http.grpc_stats.v3.FilterConfig}}}}\n      - name: \
             envoy.filters.http.router"
        );
        let yaml = LISTENER.replace("      - name: envoy.filters.http.router", &filters);
        let spec = listener::listener(&mut context(), &message(&yaml)).expect("supported");
        let filters = &spec.managers().next().expect("one chain").filters;
        let kinds: Vec<_> = filters
            .list()
            .iter()
            .map(|filter| format!("{:?}", filter.kind))
            .collect();
        (kinds.join(","), filters.acts_alone())
    };
    assert_eq!(with(""), ("GrpcWeb".to_owned(), true));
    assert_eq!(with("disabled: true, "), ("GrpcWeb".to_owned(), false));
}

#[test]
fn two_chains_may_not_claim_one_server_name() {
    let chain = LISTENER.split("default_filter_chain:\n").nth(1).expect("a chain");
    let one = format!("- filter_chain_match: {{server_names: [a.example.com]}}\n{chain}");
    let head = LISTENER.split("default_filter_chain:").next().expect("a head");
    let yaml = format!("{head}filter_chains:\n{one}{one}");
    let error = listener::listener(&mut context(), &message::<Listener>(&yaml)).expect_err("must be rejected");
    assert_eq!(error.field, "filter_chains[1]");
}

#[test]
fn edits_go_from_the_route_outwards_and_removals_come_first() {
    let yaml = r#"
name: r
request_headers_to_add: [{header: {key: x-table, value: t}}]
virtual_hosts:
- name: h
  domains: ["*"]
  request_headers_to_add: [{header: {key: x-host, value: h}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}]
  routes:
  - match: {prefix: /}
    request_headers_to_add: [{header: {key: x-route, value: r}, append_action: ADD_IF_ABSENT}]
    request_headers_to_remove: [x-gone]
    route:
      weighted_clusters:
        clusters:
        - {name: a, weight: 1, request_headers_to_add: [{header: {key: x-entry, value: e}}]}
        - {name: b, weight: 3}
"#;
    let table = table(yaml).expect("supported");
    let route = &table.hosts.any.as_ref().expect("*").routes[0];
    let names = |steps: &[HeaderStep]| -> Vec<String> {
        let name = |step: &HeaderStep| match step {
            HeaderStep::RemoveAll(_) => unreachable!("no such edit is here"),
            HeaderStep::Remove(name) => format!("-{name}"),
            HeaderStep::Put { name, .. } => name.to_string(),
        };
        steps.iter().map(name).collect()
    };
    assert_eq!(
        names(&route.request_headers),
        ["-x-gone", "x-route", "x-host", "x-table"]
    );
    assert!(matches!(
        &route.request_headers[1],
        HeaderStep::Put {
            action: PutAction::AddIfAbsent,
            ..
        }
    ));
    let Action::Forward(forward) = &route.action else {
        panic!("no forward")
    };
    let ClusterChoice::Weighted(weighted) = &forward.clusters else {
        panic!("not weighted")
    };
    assert_eq!(names(&weighted.entries[0].request_headers)[0], "x-entry");
    let picks: Vec<u32> = (0..4)
        .map(|random| weighted.pick(random).expect("an entry").cluster.0)
        .collect();
    assert_eq!(picks, [0, 1, 1, 1]);
    assert_eq!(
        forward.timeout.map(|timeout| timeout.as_secs()),
        Some(15),
        "the default route timeout"
    );
}

#[test]
fn rewrites_translate_groups_and_check_them() {
    let yaml = |substitution: &str| {
        format!(
            "{{name: r, virtual_hosts: [{{name: h, domains: ['*'], routes: [{{match: {{prefix: /}}, route: {{cluster: \
             a, regex_rewrite: {{pattern: {{regex: '^/foo/*'}}, substitution: '{substitution}'}}}}}}]}}]}}"
        )
    };
    let compiled = table(&yaml("/$")).expect("supported");
    let Action::Forward(forward) = &compiled.hosts.any.as_ref().expect("*").routes[0].action else {
        panic!("forward")
    };
    let Some(PathRewrite::Regex(rewrite)) = &forward.path_rewrite else {
        panic!("no rewrite")
    };
    assert_eq!(rewrite.pattern.replace_all("/foo/bar", &*rewrite.replacement), "/$bar");
    assert!(
        table(&yaml("\\1"))
            .expect_err("no such group")
            .reason
            .contains("group 1")
    );
}

#[test]
fn a_domain_in_two_virtual_hosts_is_rejected() {
    let yaml = "{name: r, virtual_hosts: [{name: a, domains: [x.com]}, {name: b, domains: [X.com]}]}";
    let error = table(yaml).expect_err("must be rejected");
    assert_eq!(
        (error.field.as_str(), error.reason.contains("\"a\"")),
        ("virtual_hosts[1].domains[0]", true)
    );
}

fn endpoint_set(context: &mut Context, yaml: &str, previous: Option<&EndpointSet>) -> EndpointSet {
    let assignment: ClusterLoadAssignment = message(yaml);
    let name = "c".into();
    let input = EndpointInput {
        cluster: &name,
        assignment: &assignment,
        resolved: None,
        previous,
        lb_settings: &LbSettings::default(),
        sockets: &[],
        checks: Checks::None,
    };
    endpoint::endpoints(context, &At::root(), &input).expect("supported")
}

fn lb_endpoint(port: u16, health: &str) -> String {
    format!(
        "{{health_status: {health}, endpoint: {{address: {{socket_address: {{address: 192.0.2.1, port_value: {port}}}}}}}}}"
    )
}

#[test]
fn hosts_that_stay_keep_their_identity() {
    let mut context = context();
    let yaml = |ports: &[u16]| {
        let list: Vec<String> = ports.iter().map(|port| lb_endpoint(*port, "HEALTHY")).collect();
        format!(
            "{{cluster_name: c, endpoints: [{{lb_endpoints: [{}]}}]}}",
            list.join(", ")
        )
    };
    let first = endpoint_set(&mut context, &yaml(&[1, 2]), None);
    let second = endpoint_set(&mut context, &yaml(&[2, 3]), Some(&first));
    assert!(Arc::ptr_eq(&first.hosts[1], &second.hosts[0]));
    assert!(!first.hosts.iter().any(|host| host.id == second.hosts[1].id));
    let fresh = endpoint_set(&mut context, &yaml(&[2]), None);
    assert_ne!(
        fresh.hosts[0].id, second.hosts[0].id,
        "without a previous set every host is new"
    );
}

#[test]
fn load_spills_over_as_health_falls_and_panic_uses_everyone() {
    let mut context = context();
    let set = |context: &mut Context, states: &[&str]| {
        let list: Vec<String> = states
            .iter()
            .enumerate()
            .map(|(index, state)| lb_endpoint(index as u16 + 1, state))
            .collect();
        let yaml = format!(
            "{{cluster_name: c, endpoints: [{{priority: 0, lb_endpoints: [{}]}}, {{priority: 1, lb_endpoints: [{}]}}]}}",
            list.join(", "),
            lb_endpoint(99, "HEALTHY")
        );
        endpoint_set(context, &yaml, None)
    };
    let load = |set: EndpointSet| -> Vec<(u32, u32)> {
        let view = set.view();
        view.priorities
            .iter()
            .map(|one| (one.healthy_load, one.degraded_load))
            .collect()
    };
    assert_eq!(load(set(&mut context, &["HEALTHY", "HEALTHY"])), [(100, 0), (0, 0)]);
    // 1.4 × 50 % healthy.
    assert_eq!(load(set(&mut context, &["HEALTHY", "UNHEALTHY"])), [(70, 0), (30, 0)]);
    assert_eq!(load(set(&mut context, &["UNHEALTHY", "TIMEOUT"])), [(0, 0), (100, 0)]);
    // Healthy hosts of any priority come first.
    assert_eq!(load(set(&mut context, &["DEGRADED", "DEGRADED"])), [(0, 0), (100, 0)]);
    let all_lost = endpoint_set(
        &mut context,
        &format!(
            "{{cluster_name: c, endpoints: [{{lb_endpoints: [{}]}}]}}",
            lb_endpoint(1, "UNHEALTHY")
        ),
        None,
    );
    let view = all_lost.view();
    assert_eq!(
        (view.priorities[0].panics, view.priorities[0].healthy.all.indexes.len()),
        (true, 1)
    );
    assert_eq!(load(all_lost), [(100, 0)]);
    assert!(
        endpoint_set(&mut context, "{cluster_name: c}", None)
            .view()
            .pick(0)
            .is_none()
    );
}

#[test]
fn names_need_dns() {
    let yaml = "{cluster_name: c, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: \
                backend.example, port_value: 80}}}}]}]}";
    let assignment: ClusterLoadAssignment = message(yaml);
    assert_eq!(endpoint::host_names(&assignment), ["backend.example"]);
    let name = "c".into();
    let mut input = EndpointInput {
        cluster: &name,
        assignment: &assignment,
        resolved: None,
        previous: None,
        lb_settings: &LbSettings::default(),
        sockets: &[],
        checks: Checks::None,
    };
    let error = endpoint::endpoints(&mut context(), &At::root(), &input).expect_err("no name in EDS");
    assert!(error.field.ends_with("socket_address.address"), "{error}");
    let resolved: Resolved = [(
        "backend.example".to_owned(),
        vec!["192.0.2.7".parse().expect("address")],
    )]
    .into_iter()
    .collect();
    input.resolved = Some(&resolved);
    let set = endpoint::endpoints(&mut context(), &At::root(), &input).expect("resolved");
    assert_eq!(&*set.hosts[0].hostname, "backend.example");
}

#[test]
fn names_to_verify_need_an_authority() {
    let yaml = r#"
name: a
transport_socket:
  name: tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    common_tls_context:
      validation_context:
        match_typed_subject_alt_names: [{san_type: DNS, matcher: {exact: a}}]
"#;
    let error = rejected_cluster(yaml);
    assert!(error.contains("validation_context.trusted_ca"), "{error}");
}

#[test]
fn a_cors_policy_stands_on_its_route() {
    let table = |extra: &str| {
        table(&format!(
            r#"
name: r
virtual_hosts:
- name: h
  domains: ["*"]
  routes:
  - match: {{prefix: /}}
    route: {{cluster: a}}
    typed_per_filter_config:
      envoy.filters.http.cors:
        "@type": type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy
        allow_origin_string_match: [{{exact: "https://a.example"}}]
        allow_methods: "*"
        max_age: "5"
        {extra}
"#
        ))
    };
    let compiled = table("forward_not_matching_preflights: false").expect("supported");
    let cors = compiled
        .hosts
        .any
        .as_ref()
        .and_then(|host| host.routes[0].filters.of("envoy.filters.http.cors"));
    let settings = cors.and_then(|said| said.settings.as_deref());
    let Some(FilterSettings::Cors(cors)) = settings else {
        panic!("a policy")
    };
    assert!(cors.origins[0].matches("https://a.example") && !cors.credentials);
    assert_eq!((&cors.methods, &cors.headers), (&Granted::Requested, &Granted::Unsaid));
    assert_eq!(cors.others, OtherPreflights::Answer);
    let error = table("shadow_enabled: {default_value: {numerator: 1}}").expect_err("must be rejected");
    assert_eq!(
        error.field,
        "virtual_hosts[0].routes[0].typed_per_filter_config.envoy.filters.http.cors.shadow_enabled"
    );
}

/// What becomes of what a route says of a filter.
#[test]
fn a_route_says_only_what_is_understood_of_filters() {
    let with = |name: &str, config: &str| {
        let table = table(&format!(
            "{{name: r, virtual_hosts: [{{name: h, domains: ['*'], routes: [{{match: {{prefix: /}}, route: {{cluster: a}}, \
             typed_per_filter_config: {{'{name}': {{'@type': type.googleapis.com/{config}}}}}}}]}}]}}"
        ));
        let table = table.map_err(|error| error.to_string())?;
        let route = &table.hosts.any.as_ref().expect("a host").routes[0];
        let said = route.filters.of(name);
        Ok(said.map(|said| (said.disabled, said.settings.is_some())))
    };
    let wrapped = "envoy.config.route.v3.FilterConfig";
    let lua = "type.googleapis.com/envoy.extensions.filters.http.lua.v3.LuaPerRoute";
    assert_eq!(
        with("any", &format!("{wrapped}, disabled: true")),
        Ok(Some((true, false)))
    );
    // Switched on is what is known by its name, whatever instance of it.
    let on = wrapped.to_owned();
    assert_eq!(
        with("envoy.filters.http.basic_auth/policy/a", &on),
        Ok(Some((false, false)))
    );
    let unknown: Result<Option<(bool, bool)>, String> = with("envoy.filters.http.lua/a", &on);
    assert!(unknown.is_err_and(|error| error.contains("http.lua/a: not supported")));
    let optional = |word: &str| format!("{wrapped}, {word}config: {{'@type': {lua}}}");
    assert!(with("lua", &optional("")).is_err());
    assert_eq!(with("lua", &optional("is_optional: true, ")), Ok(None));
}
