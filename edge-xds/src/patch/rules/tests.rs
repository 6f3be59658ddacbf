use super::*;
use serde_json::{Value as Json, json};

const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
const LISTENER: &str = "envoy.config.listener.v3.Listener";
const ROUTES: &str = "envoy.config.route.v3.RouteConfiguration";
const ENDPOINTS: &str = "envoy.config.endpoint.v3.ClusterLoadAssignment";

/// What is said of a message; nothing where Envoy takes it.
fn said(of: &str, value: Json) -> String {
    let bytes = Codec::cached().unwrap().bytes_from_json(of, value).unwrap();
    breach(Codec::cached().unwrap(), of, &bytes)
        .unwrap()
        .map(|breach| breach.to_string())
        .unwrap_or_default()
}

fn cluster(field: &str, value: Json) -> String {
    said(CLUSTER, json!({"name": "c", field: value}))
}

fn route(field: &str, value: Json) -> String {
    let route = json!({"match": {"prefix": "/"}, "route": {"cluster": "c"}, field: value});
    let host = json!({"name": "h", "domains": ["*"], "routes": [route]});
    said(ROUTES, json!({"name": "r", "virtual_hosts": [host]}))
}

fn filter(config: Json) -> String {
    let chain = json!({"filters": [{"name": "f", "typed_config": config}]});
    said(LISTENER, json!({"name": "l", "filter_chains": [chain]}))
}

fn endpoints(group: Json) -> String {
    said(ENDPOINTS, json!({"cluster_name": "c", "endpoints": [group]}))
}

#[test]
fn what_envoy_takes_is_taken() {
    assert_eq!(cluster("connect_timeout", json!("0.000000001s")), "");
    assert_eq!(cluster("lb_policy", json!("MAGLEV")), "");
    assert_eq!(route("name", json!("")), "");
    assert_eq!(endpoints(json!({"priority": 128, "load_balancing_weight": 1})), "");
    let config = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": "s",
        "cluster": "c",
    });
    assert_eq!(filter(config), "");
}

#[test]
fn durations_and_numbers_have_bounds() {
    assert_eq!(
        cluster("connect_timeout", json!("0s")),
        "connect_timeout must be greater than 0s"
    );
    assert_eq!(
        cluster("connect_timeout", json!("-1.5s")),
        "connect_timeout must be greater than 0s"
    );
    assert_eq!(
        cluster("dns_refresh_rate", json!("0.001s")),
        "dns_refresh_rate must be greater than 0.001s"
    );
    assert_eq!(
        endpoints(json!({"priority": 129})),
        "endpoints[0].priority must be at most 128"
    );
    assert_eq!(
        endpoints(json!({"load_balancing_weight": 0})),
        "endpoints[0].load_balancing_weight must be at least 1"
    );
    assert_eq!(
        cluster("preconnect_policy", json!({"per_upstream_preconnect_ratio": 3.5})),
        "preconnect_policy.per_upstream_preconnect_ratio must be at least 1 and at most 3"
    );
    assert_eq!(
        cluster("ring_hash_lb_config", json!({"minimum_ring_size": "8388609"})),
        "ring_hash_lb_config.minimum_ring_size must be at most 8388608"
    );
}

#[test]
fn bounds_the_wrong_way_round_are_a_gap() {
    let range = numbers::Range {
        equal: None,
        below: Some(2),
        at_most: None,
        above: None,
        at_least: Some(5),
        among: Vec::new(),
        not_among: vec![7],
        takes_zero: true,
    };
    for taken in [-1, 0, 1, 5, 6, 8] {
        assert_eq!(range.judge(taken), Ok(()), "{taken}");
    }
    for refused in [2, 4, 7] {
        let said = "must be at least 5 or less than 2 or other than 7".to_owned();
        assert_eq!(range.judge(refused), Err(said), "{refused}");
    }
}

#[test]
fn texts_have_lengths_patterns_and_forms() {
    assert_eq!(said(CLUSTER, json!({})), "name must have at least 1 characters");
    assert_eq!(
        route("match", json!({"path_separated_prefix": "/a/"})),
        "virtual_hosts[0].routes[0].match.path_separated_prefix must match ^[^?#]+[^?#/]$"
    );
    let header = |key: &str, value: &str| {
        route(
            "request_headers_to_add",
            json!([{"header": {"key": key, "value": value}}]),
        )
    };
    let place = "virtual_hosts[0].routes[0].request_headers_to_add[0].header";
    assert_eq!(header("a b", "\u{1}"), "");
    assert_eq!(header("a\nb", "c"), format!("{place}.key must be the name of a header"));
    assert_eq!(header("", "c"), format!("{place}.key must have at least 1 characters"));
    assert_eq!(
        header("a", "c\r"),
        format!("{place}.value must be the value of a header")
    );
    let long = "x".repeat(16_385);
    assert_eq!(
        header("a", &long),
        format!("{place}.value must have at most 16384 bytes")
    );
}

#[test]
fn only_defined_values_of_enums_are_taken() {
    assert_eq!(
        cluster("lb_policy", json!(99)),
        "lb_policy must be a value that is defined"
    );
    let check = json!({
        "timeout": "1s", "interval": "1s", "unhealthy_threshold": 1, "healthy_threshold": 1,
        "http_health_check": {"path": "/", "method": "CONNECT"},
    });
    assert_eq!(
        cluster("health_checks", json!([check])),
        "health_checks[0].http_health_check.method must be other than CONNECT"
    );
}

#[test]
fn lists_and_maps_have_sizes_and_are_judged_within() {
    let host = json!({"name": "h"});
    assert_eq!(
        said(ROUTES, json!({"virtual_hosts": [host]})),
        "virtual_hosts[0].domains must have at least 1 items"
    );
    assert_eq!(
        cluster("metadata", json!({"filter_metadata": {"b": {}, "": {}}})),
        "metadata.filter_metadata[\"\"] has a key that must have at least 1 characters"
    );
}

#[test]
fn what_is_required_must_be_there() {
    let host = json!({"name": "h", "domains": ["*"], "routes": [{"route": {"cluster": "c"}}]});
    assert_eq!(
        said(ROUTES, json!({"virtual_hosts": [host]})),
        "virtual_hosts[0].routes[0].match must be set"
    );
    let told = route("match", json!({}));
    assert!(
        told.starts_with("virtual_hosts[0].routes[0].match.path_specifier must be set, as one of prefix, path, "),
        "{told}"
    );
    assert_eq!(
        cluster(
            "load_balancing_policy",
            json!({"policies": [{"typed_extension_config": {"name": "p"}}]})
        ),
        "load_balancing_policy.policies[0].typed_extension_config.typed_config must be set"
    );
}

#[test]
fn messages_of_extensions_are_judged_too() {
    let config = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        "cluster": "c",
    });
    assert_eq!(
        filter(config),
        "filter_chains[0].filters[0].typed_config.stat_prefix must have at least 1 characters"
    );
}

/// A rule that nobody judges would pass for one that holds.
#[test]
fn every_rule_of_envoys_messages_is_one_that_is_judged() {
    let rules: Vec<_> = Table::cached().unwrap().all().collect();
    assert!(rules.len() > 1000, "{}", rules.len());
    rules.into_iter().for_each(is_judged);
}

fn is_judged(rules: &FieldRules) {
    match &rules.r#type {
        None => {}
        Some(Type::String(of)) => {
            assert!(matches!(
                of.well_known,
                None | Some(envoy_types::pb::validate::string_rules::WellKnown::WellKnownRegex(_))
            ));
            of.pattern
                .iter()
                .for_each(|pattern| drop(regex::Regex::new(pattern).unwrap()));
        }
        Some(Type::Bytes(of)) => {
            let judged = envoy_types::pb::validate::BytesRules {
                len: of.len,
                min_len: of.min_len,
                max_len: of.max_len,
                ignore_empty: of.ignore_empty,
                ..Default::default()
            };
            assert_eq!(*of, judged);
        }
        Some(Type::Repeated(of)) => of.items.iter().for_each(|items| is_judged(items)),
        Some(Type::Map(of)) => {
            assert_eq!(of.no_sparse, None);
            of.keys.iter().chain(&of.values).for_each(|rules| is_judged(rules));
        }
        Some(
            Type::Float(_)
            | Type::Double(_)
            | Type::Int32(_)
            | Type::Int64(_)
            | Type::Uint32(_)
            | Type::Uint64(_)
            | Type::Bool(_)
            | Type::Enum(_)
            | Type::Any(_)
            | Type::Duration(_),
        ) => {}
        Some(other) => panic!("{other:?}"),
    }
}
