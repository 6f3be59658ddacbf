//! The bootstrap: Envoy's, in YAML or JSON.
//!
//! Reads and checks the text and leaves the messages that the rest works with. Reading needs the descriptors of
//! many types for a moment; they are decoded on a thread of their own and dropped with it, so that they cost nothing
//! afterwards.
//! Ignored on purpose: the layered runtime, tags of statistics, watchdogs, tracing, deferred statistics; they change
//! nothing that is served. Of the overload manager only the limit of downstream connections is honoured; heap monitors
//! have nothing to shrink here and are accepted with a warning.
//! Refused: what would change who is trusted or where configuration comes from, and is not implemented.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use edge_xds::json::Codec;
use envoy_types::pb::envoy::config::bootstrap::v3::bootstrap::{DynamicResources, StaticResources, StatsFlush};
use envoy_types::pb::envoy::config::bootstrap::v3::{Bootstrap as ProtoBootstrap, ClusterManager};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::address::Address;
use envoy_types::pb::envoy::config::core::v3::api_config_source::ApiType;
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::grpc_service::TargetSpecifier;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{ApiConfigSource, ConfigSource, Node};
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::metrics::v3::StatsSink;
use envoy_types::pb::envoy::config::overload::v3::OverloadManager;
use envoy_types::pb::envoy::extensions::resource_monitors::downstream_connections::v3::DownstreamConnectionsConfig;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::Secret;
use prost::Message;
use serde_json::Value;

use crate::compile::field::{At, Rejection, fields, is, unpack};
use crate::compile::metrics;
use crate::config::http_manager::PrefixedHeaders;
use crate::config::metrics::Kept;

#[cfg(test)]
mod tests;

/// Why the bootstrap can't be used.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// The file can't be read.
    #[error("cannot read the configuration {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The text is neither YAML nor JSON.
    #[error("{origin} is not valid: {message}")]
    Syntax {
        /// The file, or the flag.
        origin: String,
        /// Where and why.
        message: String,
    },
    /// A field is unknown or has the wrong type.
    #[error("{origin}: {source}")]
    Json {
        /// The file, or the flag.
        origin: String,
        /// Where and why.
        source: edge_xds::json::JsonError,
    },
    /// A field can't be honoured.
    #[error("bootstrap field {0}")]
    Rejected(#[from] Rejection),
    /// Neither a file nor a text was given.
    #[error("no configuration: give --config-path FILE or --config-yaml TEXT")]
    Nothing,
    /// Reading ended without a result.
    #[error("reading the configuration failed")]
    Thread,
}

/// Where the bootstrap comes from. The text is merged over the file.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `--config-path`
    pub path: Option<PathBuf>,
    /// `--config-yaml`
    pub text: Option<String>,
}

/// A bootstrap, checked.
#[derive(Debug)]
pub struct Bootstrap {
    /// Who this proxy says it is.
    pub node: Node,
    /// Where the admin interface listens.
    pub admin: Option<std::net::SocketAddr>,
    /// Listeners of its own.
    pub listeners: Vec<Listener>,
    /// Clusters of its own.
    pub clusters: Vec<Cluster>,
    /// Secrets of its own.
    pub secrets: Vec<Secret>,
    /// The cluster of the configuration server; `None`: nothing changes at run time.
    pub ads_cluster: Option<String>,
    /// The cluster of this proxy and its like.
    pub local_cluster: Option<String>,
    /// Header names under the prefix.
    pub prefixed: PrefixedHeaders,
    /// Most client connections over all workers.
    pub max_connections: Option<u64>,
    /// Which metrics there are.
    pub kept: Arc<Kept>,
    /// Whom they are pushed to.
    pub sinks: Vec<StatsSink>,
    /// How often.
    pub push_interval: Duration,
    /// What was accepted and has no effect, for the log.
    pub warnings: Vec<String>,
    /// The encoded message, for the admin interface.
    pub encoded: Vec<u8>,
}

/// Reads a bootstrap.
pub fn load(sources: &Sources) -> Result<Bootstrap, BootstrapError> {
    let sources = sources.clone();
    let reading = std::thread::Builder::new()
        .name("bootstrap".to_owned())
        .spawn(move || read(&sources));
    let encoded = reading
        .map_err(|_| BootstrapError::Thread)?
        .join()
        .map_err(|_| BootstrapError::Thread)??;
    check(encoded)
}

/// Reads the sources into one encoded message. Encoded messages merge by standing one after the other.
fn read(sources: &Sources) -> Result<Vec<u8>, BootstrapError> {
    let mut encoded = Vec::new();
    if let Some(path) = &sources.path {
        let text = std::fs::read_to_string(path).map_err(|source| BootstrapError::Read {
            path: path.clone(),
            source,
        })?;
        let origin = path.display().to_string();
        encode(
            &origin,
            parse(path, &text).map_err(|message| syntax(&origin, message))?,
            &mut encoded,
        )?;
    }
    if let Some(text) = &sources.text {
        let origin = "--config-yaml";
        let value = parse(Path::new("text.yaml"), text).map_err(|message| syntax(origin, message))?;
        encode(origin, value, &mut encoded)?;
    }
    if sources.path.is_none() && sources.text.is_none() {
        return Err(BootstrapError::Nothing);
    }
    Ok(encoded)
}

fn syntax(origin: &str, message: String) -> BootstrapError {
    BootstrapError::Syntax {
        origin: origin.to_owned(),
        message,
    }
}

fn encode(origin: &str, value: Value, encoded: &mut Vec<u8>) -> Result<(), BootstrapError> {
    let wrong = |source| BootstrapError::Json {
        origin: origin.to_owned(),
        source,
    };
    let mut value = if value.is_null() {
        Value::Object(serde_json::Map::new())
    } else {
        value
    };
    drop_untyped(&mut value);
    let codec = Codec::for_value::<ProtoBootstrap>(&value).map_err(wrong)?;
    encoded.extend(
        codec
            .bytes_from_json("envoy.config.bootstrap.v3.Bootstrap", value)
            .map_err(wrong)?,
    );
    Ok(())
}

/// Takes the empty settings out of what routes say of filters (`config: {}` switches one on): a message without a type
/// has no form that could be read.
fn drop_untyped(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let is_switch = fields
                .get("@type")
                .and_then(Value::as_str)
                .is_some_and(|name| name.ends_with("/envoy.config.route.v3.FilterConfig"));
            if is_switch {
                fields
                    .retain(|name, inner| name != "config" || inner.as_object().is_none_or(|inner| !inner.is_empty()));
            }
            fields.values_mut().for_each(drop_untyped);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_untyped),
        _ => {}
    }
}

/// YAML, or JSON by the file's name.
fn parse(path: &Path, text: &str) -> Result<Value, String> {
    if path.extension().is_some_and(|extension| extension == "json") {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    }
    serde_yaml::from_str(text).map_err(|error| error.to_string())
}

/// A secret from a file in the form of an SDS answer (`{"resources": [{"@type": …Secret, …}]}`), or one secret alone.
pub fn secret_from_file(path: &Path, name: &str) -> Result<Secret, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let mut value = parse(path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    let found = match value.get_mut("resources").and_then(Value::as_array_mut) {
        Some(resources) => resources
            .iter_mut()
            .find(|resource| resource.get("name").and_then(Value::as_str) == Some(name))
            .map(Value::take),
        None => Some(value),
    };
    let found = found.ok_or_else(|| format!("{} holds no secret {name:?}", path.display()))?;
    let codec = Codec::for_value::<Secret>(&found).map_err(|error| error.to_string())?;
    codec
        .from_json(found)
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Takes the message apart.
fn check(encoded: Vec<u8>) -> Result<Bootstrap, BootstrapError> {
    let at = &At::root();
    let message = ProtoBootstrap::decode(encoded.as_slice()).map_err(|error| at.error(error.to_string()))?;
    Ok(check_message(at, message, encoded)?)
}

fn check_message(at: &At<'_>, message: ProtoBootstrap, encoded: Vec<u8>) -> Result<Bootstrap, Rejection> {
    fields!(at, &message => ProtoBootstrap {
        node, static_resources, dynamic_resources, admin, overload_manager, header_prefix, stats_sinks,
        stats_config, stats_flush_interval, stats_flush, cluster_manager;
        ignore node_context_params, flags_path, deferred_stat_options, watchdog, watchdogs, tracing, layered_runtime, enable_dispatcher_stats,
               stats_server_version_override, typed_dns_resolver_config, fatal_actions, perf_tracing_file_path,
               application_log_config, grpc_async_client_manager_config, memory_allocator_manager, inline_headers,
               enable_worker_cpu_affinity, stats_eviction, listener_manager, default_regex_engine,
               xds_config_tracker_extension;
        refuse hds_config, use_tcp_for_dns_lookups, dns_resolution_config, bootstrap_extensions, config_sources,
               default_config_source, default_socket_interface, certificate_provider_instances,
               xds_delegate_extension
    });
    let mut warnings = Vec::new();
    let mut sinks = stats_sinks.clone();
    if matches!(stats_flush, Some(StatsFlush::StatsFlushOnAdmin(_))) && !sinks.is_empty() {
        warnings.push("stats_sinks are not sent to: stats_flush_on_admin is not supported by this proxy".to_owned());
        sinks.clear();
    }
    let kept = match stats_config {
        None => Kept::All,
        Some(config) => metrics::kept(&at.field("stats_config"), config)?,
    };
    let statics = static_resources.clone().unwrap_or_else(StaticResources::default);
    let admin = match admin.as_ref().and_then(|admin| admin.address.as_ref()) {
        None => None,
        Some(address) => Some(socket_address(&at.field("admin").field("address"), address)?),
    };
    let ads_cluster = match dynamic_resources {
        None => None,
        Some(dynamic) => ads_cluster(&at.field("dynamic_resources"), dynamic)?,
    };
    let local_cluster = match cluster_manager {
        None => None,
        Some(manager) => local_cluster(&at.field("cluster_manager"), manager, &statics.clusters)?,
    };
    let max_connections = match overload_manager {
        None => None,
        Some(manager) => connection_limit(&at.field("overload_manager"), manager, &mut warnings)?,
    };
    Ok(Bootstrap {
        node: node.clone().unwrap_or_default(),
        admin,
        listeners: statics.listeners,
        clusters: statics.clusters,
        secrets: statics.secrets,
        ads_cluster,
        local_cluster,
        prefixed: crate::compile::prefixed_headers(header_prefix)?,
        max_connections,
        kept: Arc::new(kept),
        sinks,
        push_interval: metrics::interval(&at.field("stats_flush_interval"), stats_flush_interval.as_ref())?,
        warnings,
        encoded,
    })
}

fn local_cluster(at: &At<'_>, message: &ClusterManager, clusters: &[Cluster]) -> Result<Option<String>, Rejection> {
    fields!(at, message => ClusterManager {
        local_cluster_name;
        ignore outlier_detection, upstream_bind_config, load_stats_config, enable_deferred_cluster_creation;
        refuse
    });
    if !local_cluster_name.is_empty() && !clusters.iter().any(|cluster| cluster.name == *local_cluster_name) {
        return Err(at.field("local_cluster_name").error(format!(
            "{local_cluster_name:?} is none of the clusters of static_resources"
        )));
    }
    Ok(Some(local_cluster_name.clone()).filter(|name| !name.is_empty()))
}

fn socket_address(
    at: &At<'_>,
    address: &envoy_types::pb::envoy::config::core::v3::Address,
) -> Result<std::net::SocketAddr, Rejection> {
    let Some(Address::SocketAddress(address)) = &address.address else {
        return Err(at.error("must be a socket_address"));
    };
    let at = at.field("socket_address");
    let Some(PortSpecifier::PortValue(port)) = address.port_specifier else {
        return Err(at.field("port_value").error("is required"));
    };
    let ip = address.address.parse().map_err(|_| {
        at.field("address")
            .error(format!("{:?} is not an IP address", address.address))
    })?;
    let port = u16::try_from(port).map_err(|_| at.field("port_value").error("is not a port"))?;
    Ok(std::net::SocketAddr::new(ip, port))
}

fn ads_cluster(at: &At<'_>, message: &DynamicResources) -> Result<Option<String>, Rejection> {
    fields!(at, message => DynamicResources {
        lds_config, cds_config, ads_config;
        ignore;
        refuse lds_resources_locator, cds_resources_locator
    });
    for (field, source) in [("lds_config", lds_config), ("cds_config", cds_config)] {
        let ads = |source: &ConfigSource| matches!(source.config_source_specifier, Some(ConfigSourceSpecifier::Ads(_)));
        if source.as_ref().is_some_and(|source| !ads(source)) {
            return Err(at.field(field).error("only ads is supported by this proxy"));
        }
    }
    let Some(ads) = ads_config else {
        return if lds_config.is_some() || cds_config.is_some() {
            Err(at.field("ads_config").error("is required by lds_config and cds_config"))
        } else {
            Ok(None)
        };
    };
    let at = at.field("ads_config");
    fields!(at, ads => ApiConfigSource {
        api_type, grpc_services;
        // The node is always sent once; the stream is pushed, not polled.
        ignore transport_api_version, refresh_delay, request_timeout, rate_limit_settings,
               set_node_on_first_message_only;
        refuse cluster_names, config_validators
    });
    if !matches!(
        ApiType::try_from(*api_type),
        Ok(ApiType::DeltaGrpc | ApiType::AggregatedDeltaGrpc)
    ) {
        return Err(at.field("api_type").error("only DELTA_GRPC is supported by this proxy"));
    }
    let at = at.field("grpc_services");
    let [service] = grpc_services.as_slice() else {
        return Err(at.error("exactly one is required"));
    };
    match &service.target_specifier {
        Some(TargetSpecifier::EnvoyGrpc(target)) => Ok(Some(target.cluster_name.clone())),
        _ => Err(at.index(0).error("only envoy_grpc is supported by this proxy")),
    }
}

/// The limit of client connections, from either of the two monitors that name one.
fn connection_limit(
    at: &At<'_>,
    message: &OverloadManager,
    warnings: &mut Vec<String>,
) -> Result<Option<u64>, Rejection> {
    use envoy_types::pb::envoy::config::overload::v3::resource_monitor::ConfigType;
    let mut limit = None;
    let list = at.field("resource_monitors");
    for (index, monitor) in message.resource_monitors.iter().enumerate() {
        let at = list.index(index);
        match &monitor.config_type {
            Some(ConfigType::TypedConfig(config)) if is::<DownstreamConnectionsConfig>(config) => {
                let config: DownstreamConnectionsConfig = unpack(&at.field("typed_config"), config)?;
                limit = u64::try_from(config.max_active_downstream_connections).ok();
            }
            _ => warnings.push(format!(
                "overload_manager: monitor {:?} has no effect in this proxy",
                monitor.name
            )),
        }
    }
    Ok(limit)
}
