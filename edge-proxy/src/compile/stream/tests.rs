use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use envoy_types::pb::envoy::config::listener::v3::Listener as ProtoListener;

use super::*;
use crate::compile::secret::Secrets;
use crate::compile::{files, listener, prefixed_headers};
use crate::config::listener::{Hello, Listener, Network, SocketProtocol};

fn compile(yaml: &str) -> Result<(Listener, Context), Rejection> {
    let prefixed = prefixed_headers("x-edge").expect("a prefix");
    let mut context = Context::new(Box::new(files::Disk), prefixed, 1);
    let message: ProtoListener =
        edge_xds::json::from_json(serde_yaml::from_str(yaml).expect("YAML")).expect("a message");
    let spec = listener::listener(&mut context, &message)?;
    let ids: BTreeSet<_> = spec.clusters().collect();
    let listener = spec.finish(&Secrets::new(), None)?;
    assert_eq!(ids, listener.clusters().into_iter().collect());
    Ok((listener, context))
}

fn rejected(yaml: &str) -> String {
    compile(yaml).expect_err("must be rejected").to_string()
}

/// A listener whose default chain is a TCP proxy.
fn tcp(settings: &str) -> String {
    format!(
        r#"
name: tcp-90
address: {{socket_address: {{address: 0.0.0.0, port_value: 90}}}}
default_filter_chain:
  filters:
  - name: tcp
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
      stat_prefix: tcp-90
      {settings}
"#
    )
}

/// A listener whose filter is a UDP proxy, with further fields of the proxy and of the listener.
fn udp(settings: &str, extra: &str) -> String {
    format!(
        r#"
name: udp-53
address: {{socket_address: {{address: 0.0.0.0, port_value: 53, protocol: UDP}}}}
{extra}
listener_filters:
- name: udp
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig
    stat_prefix: udp-53
    {settings}
"#
    )
}

const ROUTE: &str = r#"matcher: {on_no_match: {action: {name: route, typed_config: {
      "@type": type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.Route, cluster: dns}}}}"#;

fn proxy_of(listener: &Listener) -> Arc<TcpProxy> {
    match &listener
        .chain_for(Hello::Cleartext, Ipv4Addr::LOCALHOST.into())
        .expect("a default chain")
        .network
    {
        Network::Tcp(proxy) | Network::Passthrough(proxy) => Arc::clone(proxy),
        Network::Http(_) => panic!("not HTTP"),
    }
}

#[test]
fn a_tcp_proxy_to_one_cluster_waits_an_hour_and_tries_once() {
    let (listener, context) = compile(&tcp("cluster: a")).expect("supported");
    let proxy = proxy_of(&listener);
    let picked = proxy.shares.pick(7).and_then(|id| context.clusters.name(id.0));
    assert_eq!(picked.map(|name| &**name), Some("a"));
    assert_eq!(proxy.idle_timeout, Some(Duration::from_secs(3600)));
    assert_eq!((proxy.max_connect_attempts, proxy.max_duration), (1, None));
    assert!(listener.udp.is_none() && listener.addresses[0].protocol == SocketProtocol::Tcp);
}

#[test]
fn settings_of_a_tcp_proxy_are_taken() {
    let yaml = "weighted_clusters: {clusters: [{name: a, weight: 3}, {name: b, weight: 1}]}\n      \
                idle_timeout: 0s\n      max_connect_attempts: 3\n      max_downstream_connection_duration: 5s";
    let proxy = proxy_of(&compile(&tcp(yaml)).expect("supported").0);
    assert_eq!((proxy.idle_timeout, proxy.max_connect_attempts), (None, 3));
    assert_eq!(proxy.max_duration, Some(Duration::from_secs(5)));
    assert_eq!(proxy.shares.clusters().count(), 2);
}

#[test]
fn what_a_tcp_proxy_can_not_do_is_named() {
    let at = "default_filter_chain.filters[0].typed_config";
    for (settings, field) in [
        (
            "cluster: a\n      hash_policy: [{filter_state: {key: k}}]",
            "hash_policy[0].filter_state",
        ),
        (
            "cluster: a\n      tunneling_config: {hostname: example.com}",
            "tunneling_config",
        ),
        ("cluster: a\n      upstream_idle_timeout: 1s", "upstream_idle_timeout"),
    ] {
        assert_eq!(
            rejected(&tcp(settings)),
            format!("{at}.{field}: not supported by this proxy")
        );
    }
    assert_eq!(rejected(&tcp("idle_timeout: 1s")), format!("{at}.cluster: is required"));
    assert_eq!(
        rejected(&tcp("weighted_clusters: {clusters: [{name: a}]}")),
        format!("{at}.weighted_clusters.clusters[0].weight: must be at least 1")
    );
}

#[test]
fn server_names_are_resolved_at_a_port() {
    let named = |settings: &str| {
        let filter = format!(
            r#"  filters:
  - name: named
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.sni_dynamic_forward_proxy.v3.FilterConfig
      {settings}"#
        );
        tcp("cluster: a").replacen("  filters:", &filter, 1)
    };
    let (listener, _) = compile(&named("dns_cache_config: {name: c}\n      port_value: 8443")).expect("supported");
    assert_eq!(proxy_of(&listener).named_at, Some(8443));
    assert_eq!(
        proxy_of(&compile(&tcp("cluster: a")).expect("supported").0).named_at,
        None
    );
    let at = "default_filter_chain.filters[0].typed_config";
    for (settings, expected) in [
        ("port_value: 443", "dns_cache_config: is required"),
        ("dns_cache_config: {name: c}", "port_value: must be from 1 to 65535"),
        (
            "dns_cache_config: {name: c}\n      port_value: 70000",
            "port_value: must be from 1 to 65535",
        ),
        (
            "dns_cache_config: {name: c}\n      port_value: 443\n      save_upstream_address: true",
            "save_upstream_address: not supported by this proxy",
        ),
    ] {
        assert_eq!(rejected(&named(settings)), format!("{at}.{expected}"));
    }
}

#[test]
fn a_chain_that_does_not_open_tls_passes_it_on() {
    for matches in ["server_names: [a.example]", "transport_protocol: tls"] {
        let chain = tcp("cluster: a").replace(
            "default_filter_chain:",
            &format!("filter_chains:\n- filter_chain_match: {{{matches}}}"),
        );
        let (listener, _) = compile(&chain).expect("supported");
        let chain = listener.chain_for(Hello::Tls(Some("a.example")), Ipv4Addr::LOCALHOST.into());
        let network = chain.map(|chain| &chain.network);
        assert!(matches!(network, Some(Network::Passthrough(_))), "{matches}");
        assert!(listener.inspects_tls);
    }
}

#[test]
fn a_udp_proxy_has_one_route_and_waits_a_minute() {
    let extra = "udp_listener_config: {downstream_socket_config: {max_rx_datagram_size: 9000}}";
    let (listener, context) = compile(&udp(ROUTE, extra)).expect("supported");
    let proxy = listener.udp.as_ref().expect("a UDP proxy");
    let name = context.clusters.name(proxy.route.pick(5300).0);
    assert_eq!(name.map(|name| &**name), Some("dns"));
    assert_eq!(proxy.route.clusters().count(), 1);
    assert_eq!(proxy.idle_timeout, Some(Duration::from_secs(60)));
    assert_eq!(
        (proxy.max_downstream_datagram, proxy.max_upstream_datagram),
        (9000, LARGEST_DATAGRAM)
    );
    assert!(listener.chains.all().is_empty() && listener.addresses[0].protocol == SocketProtocol::Udp);
}

/// A matcher with one share; every piece can be another.
fn shared(input: &str, hash: &str, matcher: &str) -> String {
    let route = |cluster: &str| {
        format!(
            r#"{{action: {{name: route, typed_config: {{
      "@type": type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.Route, cluster: {cluster}}}}}}}"#
        )
    };
    format!(
        r#"matcher: {{on_no_match: {}, matcher_list: {{matchers: [{{on_match: {}, predicate: {{single_predicate: {{
      input: {{name: i, typed_config: {{"@type": type.googleapis.com/envoy.extensions.matching.{input}}}}},
      {matcher}: {{name: m, typed_config: {{
        "@type": type.googleapis.com/envoy.extensions.matching.input_matchers.consistent_hashing.v3.ConsistentHashing,
        {hash}}}}}}}}}}}]}}}}"#,
        route("dns"),
        route("other"),
    )
}

#[test]
fn a_udp_proxy_shares_flows_by_the_hash_of_their_port() {
    let port = "common_inputs.network.v3.SourcePortInput";
    let (listener, context) =
        compile(&udp(&shared(port, "threshold: 70, modulo: 100", "custom_match"), "")).expect("it");
    let route = &listener.udp.as_ref().expect("a UDP proxy").route;
    let names: BTreeSet<_> = route
        .clusters()
        .filter_map(|id| context.clusters.name(id.0))
        .map(|n| &**n)
        .collect();
    assert_eq!(names, ["dns", "other"].into());
    let at = "listener_filters[0].typed_config.matcher.matcher_list.matchers[0].predicate.single_predicate";
    let none = rejected(&udp(&shared(port, "threshold: 70", "custom_match"), ""));
    assert_eq!(
        none,
        format!("{at}.custom_match.typed_config.modulo: must be at least 1")
    );
    let address = "common_inputs.network.v3.SourceIPInput";
    let other = rejected(&udp(&shared(address, "modulo: 100", "custom_match"), ""));
    assert!(other.starts_with(&format!("{at}.input.typed_config: type ")), "{other}");
}

#[test]
fn what_a_udp_proxy_can_not_do_is_named() {
    let at = "listener_filters[0].typed_config";
    let with = |settings: &str| rejected(&udp(&format!("{ROUTE}\n    {settings}"), ""));
    for (settings, field) in [
        ("use_original_src_ip: true", "use_original_src_ip"),
        ("use_per_packet_load_balancing: true", "use_per_packet_load_balancing"),
        ("hash_policies: [{key: k}]", "hash_policies[0].key"),
    ] {
        assert_eq!(with(settings), format!("{at}.{field}: not supported by this proxy"));
    }
    assert_eq!(
        rejected(&udp("matcher: {}", "")),
        format!("{at}.matcher.on_no_match: is required")
    );
    assert_eq!(
        rejected(&udp(ROUTE, "udp_listener_config: {quic_options: {}}")),
        "udp_listener_config.quic_options: not supported by this proxy"
    );
}

#[test]
fn the_address_of_a_client_may_be_hashed() {
    let proxy = |settings: &str| proxy_of(&compile(&tcp(settings)).expect("supported").0);
    assert_eq!(proxy("cluster: a").hashed, Hashed::Nothing);
    assert_eq!(
        proxy("cluster: a\n      hash_policy: [{source_ip: {}}]").hashed,
        Hashed::Address
    );
    let flows = |settings: &str| {
        let (listener, _) = compile(&udp(&format!("{ROUTE}\n    {settings}"), "")).expect("supported");
        listener.udp.as_ref().expect("a UDP proxy").hashed
    };
    assert_eq!(flows("idle_timeout: 1s"), Hashed::Nothing);
    assert_eq!(flows("hash_policies: [{source_ip: true}]"), Hashed::Address);
    let two = "hash_policies: [{source_ip: true}, {source_ip: true}]";
    assert_eq!(
        rejected(&udp(&format!("{ROUTE}\n    {two}"), "")),
        "listener_filters[0].typed_config.hash_policies: must be one policy"
    );
}

#[test]
fn connections_and_datagrams_do_not_mix() {
    let both = udp(
        ROUTE,
        "additional_addresses: [{address: {socket_address: {address: 0.0.0.0, port_value: 54}}}]",
    );
    assert_eq!(
        rejected(&both),
        "additional_addresses[0].address: has another protocol than the main address"
    );
    assert_eq!(
        rejected(&udp(ROUTE, "default_filter_chain: {}")),
        "default_filter_chain: not supported by this proxy"
    );
    let of_tcp = tcp("cluster: a") + "udp_listener_config: {}";
    assert_eq!(rejected(&of_tcp), "udp_listener_config: not supported by this proxy");
}
