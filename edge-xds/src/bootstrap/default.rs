//! The default bootstrap.

use super::{BootstrapSettings, ProxyZone, sds::TOKEN};
use crate::names::{CONTROLLER_CLUSTER, METRICS_CLUSTER, OWN_LISTENERS};
use edge_ir::pod_certificate;
use serde_json::{Value, json};

/// Type URL of a message.
macro_rules! type_url {
    ($name:literal) => {
        concat!("type.googleapis.com/envoy.", $name)
    };
}

/// The bootstrap of a proxy that nobody customised.
pub fn default_bootstrap(settings: &BootstrapSettings) -> Value {
    let ads = json!({"ads": {}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"});
    let mut bootstrap = json!({
        "admin": {
            "access_log": [{
                "name": "envoy.access_loggers.file",
                "typed_config": {
                    "@type": type_url!("extensions.access_loggers.file.v3.FileAccessLog"),
                    "path": "/dev/null",
                },
            }],
            "address": socket(&settings.admin_address, settings.admin_port),
        },
        "header_prefix": "x-edge",
        "stats_config": {"use_all_default_tags": true, "stats_tags": stats_tags()},
        "deferred_stat_options": {"enable_deferred_creation_stats": true},
        "layered_runtime": {"layers": [{
            "name": "runtime-0",
            "static_layer": {
                // The cost of an expression is checked when it is accepted, not when it reaches a proxy.
                "re2.max_program_size.error_level": 4_294_967_295_u32,
                "re2.max_program_size.warn_level": 1000,
            },
        }]},
        "dynamic_resources": {
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                "grpc_services": [{"envoy_grpc": {"cluster_name": CONTROLLER_CLUSTER}}],
            },
            "lds_config": ads,
            "cds_config": ads,
        },
        "static_resources": {"clusters": [xds_cluster(settings)]},
        "overload_manager": overload_manager(settings.memory_limit_bytes),
    });
    if let Some(node) = &settings.node {
        bootstrap["node"] = json!({"id": node.id, "cluster": node.cluster});
    }
    if let Some(port) = settings.stats_port {
        bootstrap["static_resources"]["listeners"] = json!([stats_listener(&settings.stats_address, port)]);
        if let Some(clusters) = bootstrap["static_resources"]["clusters"].as_array_mut() {
            clusters.insert(0, admin_cluster(settings));
        }
    }
    if let Some(zone) = &settings.zone {
        put_zone(&mut bootstrap, zone);
    }
    bootstrap
}

/// Tells the proxy its zone, and where it learns how many proxies of its fleet are in which.
fn put_zone(bootstrap: &mut Value, zone: &ProxyZone) {
    bootstrap["node"]["locality"] = json!({"zone": zone.name});
    bootstrap["cluster_manager"] = json!({"local_cluster_name": zone.fleet});
    if let Some(clusters) = bootstrap["static_resources"]["clusters"].as_array_mut() {
        // Behind the others: patches know those by their place.
        clusters.push(local_cluster(&zone.fleet));
    }
}

/// The proxies of the fleet, for counting alone.
fn local_cluster(fleet: &str) -> Value {
    json!({
        "name": fleet,
        "type": "EDS",
        "connect_timeout": "10s",
        "eds_cluster_config": {
            "service_name": fleet,
            "eds_config": {"ads": {}, "resource_api_version": "V3"},
        },
        "load_balancing_policy": {"policies": [{"typed_extension_config": {
            "name": "envoy.load_balancing_policies.least_request",
            "typed_config": {
                "@type": type_url!("extensions.load_balancing_policies.least_request.v3.LeastRequest"),
                "locality_lb_config": {"zone_aware_lb_config": {"min_cluster_size": "1"}},
            },
        }}]},
    })
}

fn socket(address: &str, port: u16) -> Value {
    json!({"socket_address": {"address": address, "port_value": port}})
}

fn load_assignment(cluster: &str, address: &str, port: u16) -> Value {
    json!({
        "cluster_name": cluster,
        "endpoints": [{"lb_endpoints": [{
            "load_balancing_weight": 1,
            "endpoint": {"address": socket(address, port)},
        }]}],
    })
}

/// Parts of names that become tags of their statistics.
fn stats_tags() -> Value {
    json!([
        {"tag_name": "edge.from_zone", "regex": r"zone\.((.+?)\.).+?\."},
        {"tag_name": "edge.to_zone", "regex": r"zone\..+?\.((.+?)\.)"},
        {"tag_name": "edge.socket_match_name", "regex": r"transport_socket_match\.((.+?)\.)"},
        {"tag_name": "edge.priority", "regex": r"circuit_breakers\.((.+?)\.)"},
    ])
}

/// A secret that a file leads to.
fn secret(name: &str, path: &str) -> Value {
    json!({
        "name": name,
        "sds_config": {"path_config_source": {"path": path}, "resource_api_version": "V3"},
    })
}

/// The controller.
fn xds_cluster(settings: &BootstrapSettings) -> Value {
    let mut http_options = json!({
        "@type": type_url!("extensions.upstreams.http.v3.HttpProtocolOptions"),
        "explicit_http_config": {"http2_protocol_options": {
            "connection_keepalive": {"interval": "30s", "timeout": "5s"},
        }},
    });
    if let Some(path) = &settings.token_path {
        http_options["http_filters"] = token_filters(path);
    }
    let mut tls = json!({
        "tls_params": {"tls_maximum_protocol_version": "TLSv1_3"},
        "validation_context_sds_secret_config": secret("xds_trusted_ca", &settings.trusted_ca_path),
    });
    if let Some(path) = &settings.certificate_path {
        tls["tls_certificate_sds_secret_configs"] = json!([secret(pod_certificate::SECRET, path)]);
    }
    json!({
        "name": CONTROLLER_CLUSTER,
        "type": "STRICT_DNS",
        "connect_timeout": "10s",
        "load_assignment": load_assignment(CONTROLLER_CLUSTER, &settings.xds_host, settings.xds_port),
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http_options,
        },
        "transport_socket": {
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": type_url!("extensions.transport_sockets.tls.v3.UpstreamTlsContext"),
                "common_tls_context": tls,
            },
        },
    })
}

/// Filters that put the proxy's token into its requests to the controller.
pub(super) fn token_filters(path: &str) -> Value {
    json!([
        {
            "name": "envoy.filters.http.credential_injector",
            "typed_config": {
                "@type": type_url!("extensions.filters.http.credential_injector.v3.CredentialInjector"),
                "overwrite": true,
                "credential": {
                    "name": "envoy.http.injected_credentials.generic",
                    "typed_config": {
                        "@type": type_url!("extensions.http.injected_credentials.generic.v3.Generic"),
                        "credential": secret(TOKEN, path),
                        "header": "Authorization",
                        "header_value_prefix": "Bearer ",
                    },
                },
            },
        },
        {
            "name": "envoy.filters.http.upstream_codec",
            "typed_config": {"@type": type_url!("extensions.filters.http.upstream_codec.v3.UpstreamCodec")},
        },
    ])
}

/// The proxy's own admin interface, for the one path of it that others may see.
fn admin_cluster(settings: &BootstrapSettings) -> Value {
    json!({
        "name": METRICS_CLUSTER,
        "type": "STATIC",
        "connect_timeout": "0.250s",
        "load_assignment": load_assignment(METRICS_CLUSTER, &settings.admin_address, settings.admin_port),
    })
}

fn stats_listener(address: &str, port: u16) -> Value {
    let mut socket = socket(address, port);
    if address == "::" {
        // Probes and scrapes come to whichever address the pod has.
        socket["socket_address"]["ipv4_compat"] = true.into();
    }
    json!({
        "name": format!("{OWN_LISTENERS}stats-{address}-{port}"),
        "address": socket,
        // An overloaded proxy must still be seen to be one.
        "bypass_overload_manager": true,
        "filter_chains": [{"filters": [{
            "name": "envoy.filters.network.http_connection_manager",
            "typed_config": {
                "@type": type_url!("extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"),
                "stat_prefix": format!("{OWN_LISTENERS}stats"),
                "normalize_path": true,
                "route_config": {
                    "name": "local_route",
                    "virtual_hosts": [{
                        "name": METRICS_CLUSTER,
                        "domains": ["*"],
                        "routes": [{
                            "match": {
                                "path": "/stats/prometheus",
                                "headers": [{"name": ":method", "string_match": {"exact": "GET"}}],
                            },
                            "route": {"cluster": METRICS_CLUSTER},
                        }],
                    }],
                },
                "http_filters": [{
                    "name": "envoy.filters.http.router",
                    "typed_config": {"@type": type_url!("extensions.filters.http.router.v3.Router")},
                }],
            },
        }]}],
    })
}

fn overload_manager(memory_limit: Option<u64>) -> Value {
    let connections = json!({
        "name": "envoy.resource_monitors.global_downstream_max_connections",
        "typed_config": {
            "@type": type_url!("extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig"),
            "max_active_downstream_connections": "50000",
        },
    });
    let Some(limit) = memory_limit else {
        return json!({"refresh_interval": "0.250s", "resource_monitors": [connections]});
    };
    let heap = "envoy.resource_monitors.fixed_heap";
    let action = |name: &str, threshold: f64| json!({"name": name, "triggers": [{"name": heap, "threshold": {"value": threshold}}]});
    json!({
        "refresh_interval": "0.250s",
        "resource_monitors": [connections, {
            "name": heap,
            "typed_config": {
                "@type": type_url!("extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig"),
                // The rest is for what the allocator holds back, stacks and code.
                "max_heap_size_bytes": (u128::from(limit) * 8 / 10).to_string(),
            },
        }],
        "actions": [
            action("envoy.overload_actions.shrink_heap", 0.95),
            action("envoy.overload_actions.stop_accepting_requests", 0.98),
        ],
    })
}
