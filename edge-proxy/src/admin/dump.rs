//! `/config_dump`: every resource as it was received, in Envoy's shape, without what its API marks as sensitive.

use std::time::SystemTime;

use edge_xds::json::{Codec, Names};
use envoy_types::pb::envoy::admin::v3::clusters_config_dump::{DynamicCluster, StaticCluster};
use envoy_types::pb::envoy::admin::v3::endpoints_config_dump::DynamicEndpointConfig;
use envoy_types::pb::envoy::admin::v3::listeners_config_dump::{DynamicListener, DynamicListenerState, StaticListener};
use envoy_types::pb::envoy::admin::v3::routes_config_dump::{DynamicRouteConfig, StaticRouteConfig};
use envoy_types::pb::envoy::admin::v3::secrets_config_dump::DynamicSecret;
use envoy_types::pb::envoy::admin::v3::{
    BootstrapConfigDump, ClustersConfigDump, EndpointsConfigDump, ListenersConfigDump, RoutesConfigDump,
    SecretsConfigDump, UpdateFailureState,
};
use envoy_types::pb::envoy::config::bootstrap::v3::Bootstrap as ProtoBootstrap;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::google::protobuf::{Any, Timestamp};
use http::StatusCode;
use prost::{Message, Name};
use serde_json::Value;

use crate::admin::{Admin, Answer, parameter};
use crate::xds::Kind;
use crate::xds::assembly::view::{ResourceView, ViewState};
use crate::xds::assembly::{Assembly, Origin};

/// `/config_dump`
pub(super) async fn config_dump(admin: &Admin, query: &str) -> Answer {
    let resource = parameter(query, "resource").map(str::to_owned);
    if parameter(query, "mask").is_some_and(|mask| !mask.is_empty()) {
        return Answer::error(StatusCode::NOT_IMPLEMENTED, "mask is not supported by this proxy\n");
    }
    let sections = sections(admin, parameter(query, "include_eds").is_some());
    // The descriptors of every type take memory and tens of milliseconds: not on this thread, and not for longer.
    let rendered = tokio::task::spawn_blocking(move || render(&sections, resource.as_deref())).await;
    match rendered {
        Ok(Ok(body)) => Answer::json(body),
        Ok(Err((status, error))) => Answer::error(status, format!("{error}\n")),
        Err(error) => Answer::error(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

/// The messages of the dump, in Envoy's order.
pub(super) fn sections(admin: &Admin, with_endpoints: bool) -> Vec<Any> {
    let at = timestamp(admin.control.started_at);
    let mut sections = vec![pack(&BootstrapConfigDump {
        bootstrap: ProtoBootstrap::decode(admin.bootstrap.encoded.as_slice()).ok(),
        last_updated: at,
    })];
    admin.control.read(|assembly| {
        let failures: Vec<(Kind, String, String)> = assembly
            .failures()
            .map(|(kind, bad)| (kind, bad.name.clone(), bad.reason.clone()))
            .collect();
        sections.push(pack(&clusters(&assembly.resources(Kind::Cluster), &failures)));
        if with_endpoints {
            let dynamic_endpoint_configs = assembly
                .resources(Kind::Assignment)
                .iter()
                .map(|view| DynamicEndpointConfig {
                    version_info: view.version.to_owned(),
                    endpoint_config: Some(any(Kind::Assignment, view)),
                    last_updated: timestamp(view.updated),
                    ..DynamicEndpointConfig::default()
                })
                .collect();
            sections.push(pack(&EndpointsConfigDump {
                dynamic_endpoint_configs,
                ..EndpointsConfigDump::default()
            }));
        }
        let listeners_seen = assembly.resources(Kind::Listener);
        sections.push(pack(&listeners(&listeners_seen, &failures)));
        let mut tables = routes(&assembly.resources(Kind::Routes), &listeners_seen);
        for (_, error_state) in orphans(&failures, Kind::Routes, &assembly.resources(Kind::Routes)) {
            tables.dynamic_route_configs.push(DynamicRouteConfig {
                error_state,
                ..DynamicRouteConfig::default()
            });
        }
        sections.push(pack(&tables));
        sections.push(pack(&secrets(assembly)));
    });
    sections
}

/// Secrets by name and version, of the stream and of servers of secrets; what these haven't sent is warming.
fn secrets(assembly: &Assembly) -> SecretsConfigDump {
    let of_stream = assembly.resources(Kind::Secret);
    let of_stream = of_stream.iter().map(|view| DynamicSecret {
        name: view.name.to_owned(),
        version_info: view.version.to_owned(),
        ..DynamicSecret::default()
    });
    let sent: Vec<_> = assembly.secrets_of_servers().collect();
    let of_servers = sent.iter().map(|(name, version, updated)| DynamicSecret {
        name: (*name).to_owned(),
        version_info: (*version).to_owned(),
        last_updated: timestamp(*updated),
        ..DynamicSecret::default()
    });
    let wanted = assembly.wanted_elsewhere().of_servers.into_values().flatten();
    let missing = wanted.filter(|name| sent.iter().all(|(known, ..)| known != name));
    SecretsConfigDump {
        dynamic_active_secrets: of_stream.chain(of_servers).collect(),
        dynamic_warming_secrets: missing
            .map(|name| DynamicSecret {
                name,
                ..DynamicSecret::default()
            })
            .collect(),
        ..SecretsConfigDump::default()
    }
}

/// Type, name and reason of a rejected resource.
type Failures = [(Kind, String, String)];

fn failure(failures: &Failures, kind: Kind, name: &str) -> Option<UpdateFailureState> {
    let (_, name, reason) = failures.iter().find(|(of, bad, _)| *of == kind && bad == name)?;
    Some(UpdateFailureState {
        details: format!("{name}: {reason}"),
        ..UpdateFailureState::default()
    })
}

/// Rejected resources that have no good version to stand beside.
fn orphans<'a>(
    failures: &'a Failures,
    kind: Kind,
    views: &'a [ResourceView<'_>],
) -> impl Iterator<Item = (&'a str, Option<UpdateFailureState>)> {
    let unknown = move |name: &str| !views.iter().any(|view| view.name == name);
    failures
        .iter()
        .filter(move |(of, name, _)| *of == kind && unknown(name))
        .map(move |(_, name, _)| (name.as_str(), failure(failures, kind, name)))
}

fn clusters(views: &[ResourceView<'_>], failures: &Failures) -> ClustersConfigDump {
    let mut dump = ClustersConfigDump::default();
    for view in views {
        let cluster = Some(any(Kind::Cluster, view));
        if view.origin == Origin::Static {
            dump.static_clusters.push(StaticCluster {
                cluster,
                last_updated: timestamp(view.updated),
            });
            continue;
        }
        let entry = DynamicCluster {
            version_info: view.version.to_owned(),
            cluster,
            last_updated: timestamp(view.updated),
            error_state: failure(failures, Kind::Cluster, view.name),
            ..DynamicCluster::default()
        };
        match view.state {
            ViewState::Active => dump.dynamic_active_clusters.push(entry),
            ViewState::Warming => dump.dynamic_warming_clusters.push(entry),
        }
    }
    for (_, error_state) in orphans(failures, Kind::Cluster, views) {
        dump.dynamic_warming_clusters.push(DynamicCluster {
            error_state,
            ..DynamicCluster::default()
        });
    }
    dump
}

fn listeners(views: &[ResourceView<'_>], failures: &Failures) -> ListenersConfigDump {
    let mut dump = ListenersConfigDump::default();
    for view in views {
        let listener = Some(any(Kind::Listener, view));
        if view.origin == Origin::Static {
            dump.static_listeners.push(StaticListener {
                listener,
                last_updated: timestamp(view.updated),
            });
            continue;
        }
        let state = DynamicListenerState {
            version_info: view.version.to_owned(),
            listener,
            last_updated: timestamp(view.updated),
        };
        let mut entry = DynamicListener {
            name: view.name.to_owned(),
            error_state: failure(failures, Kind::Listener, view.name),
            ..DynamicListener::default()
        };
        match view.state {
            ViewState::Active => entry.active_state = Some(state),
            ViewState::Warming => entry.warming_state = Some(state),
        }
        dump.dynamic_listeners.push(entry);
    }
    for (name, error_state) in orphans(failures, Kind::Listener, views) {
        let name = name.to_owned();
        dump.dynamic_listeners.push(DynamicListener {
            name,
            error_state,
            ..DynamicListener::default()
        });
    }
    dump
}

/// Route tables by name, and those that stand in listeners as static ones.
fn routes(views: &[ResourceView<'_>], listeners: &[ResourceView<'_>]) -> RoutesConfigDump {
    let dynamic = views.iter().map(|view| DynamicRouteConfig {
        version_info: view.version.to_owned(),
        route_config: Some(any(Kind::Routes, view)),
        last_updated: timestamp(view.updated),
        ..DynamicRouteConfig::default()
    });
    let mut dump = RoutesConfigDump {
        dynamic_route_configs: dynamic.collect(),
        ..RoutesConfigDump::default()
    };
    for view in listeners {
        let Ok(listener) = Listener::decode(&*view.body) else {
            continue;
        };
        for config in listener
            .filter_chains
            .iter()
            .chain(&listener.default_filter_chain)
            .flat_map(managers)
        {
            if let Some(RouteSpecifier::RouteConfig(config)) = config.route_specifier {
                let route_config = Some(pack(&config));
                dump.static_route_configs.push(StaticRouteConfig {
                    route_config,
                    last_updated: timestamp(view.updated),
                });
            }
        }
    }
    dump
}

fn managers(
    chain: &envoy_types::pb::envoy::config::listener::v3::FilterChain,
) -> impl Iterator<Item = HttpConnectionManager> {
    use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
    chain.filters.iter().filter_map(|filter| match &filter.config_type {
        Some(ConfigType::TypedConfig(config)) => HttpConnectionManager::decode(config.value.as_slice()).ok(),
        _ => None,
    })
}

fn any(kind: Kind, view: &ResourceView<'_>) -> Any {
    Any {
        type_url: kind.type_url().to_owned(),
        value: view.body.to_vec(),
    }
}

fn pack<M: Message + Name>(message: &M) -> Any {
    Any {
        type_url: M::type_url(),
        value: message.encode_to_vec(),
    }
}

fn timestamp(time: SystemTime) -> Option<Timestamp> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let nanos = i32::try_from(since.subsec_nanos()).ok()?;
    Some(Timestamp {
        seconds: i64::try_from(since.as_secs()).ok()?,
        nanos,
    })
}

/// The sections as JSON. `resource` picks one list (`dynamic_listeners`) instead.
pub(super) fn render(sections: &[Any], resource: Option<&str>) -> Result<String, (StatusCode, String)> {
    let internal = |error: edge_xds::json::JsonError| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    let codec = Codec::new().map_err(internal)?;
    let shown = codec.redacted(sections).map_err(internal)?;
    let configs = shown.iter().map(|section| codec.any_to_json(section, Names::Proto));
    let mut configs = configs.collect::<Result<Vec<Value>, _>>().map_err(internal)?;
    if let Some(resource) = resource {
        let list = configs
            .iter_mut()
            .find_map(|config| config.get_mut(resource).map(Value::take));
        let list = list.ok_or_else(|| (StatusCode::NOT_FOUND, format!("{resource} not found in config dump")))?;
        configs = list.as_array().cloned().unwrap_or_else(|| vec![list]);
    }
    let text = serde_json::to_string_pretty(&serde_json::json!({ "configs": configs }));
    text.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}
