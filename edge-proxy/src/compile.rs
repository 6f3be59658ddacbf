//! From Envoy v3 messages to [`crate::config`].
//!
//! One function a resource type; each returns the compiled form or a [`Rejection`] that names the field. Pure:
//! no sockets, no clock; files are read through [`Files`], because a message may name one.
//! The law: every field of a message is named in its module, either used, or listed as *ignored* (it can't change
//! who is served what, or how safely) or as *refused* (a value in it rejects the resource). The lists are patterns
//! without `..`, so a field that a newer API adds is a compile error here, never a silent gap.
//! What is ignored everywhere: statistics matchers of resources, metadata, socket tuning that only affects
//! speed, and runtime keys (the default value next to them is used).
//! Deliberately absent: anything about when a resource becomes active; that is [`crate::xds::assembly`]'s.

mod access;
mod access_log;
pub mod balancing;
mod client_address;
pub mod cluster;
mod collector;
mod command;
mod connection_limit;
pub mod credential;
pub mod endpoint;
mod expression;
pub mod field;
pub mod files;
mod filter;
mod hash_policy;
pub mod header;
mod health;
pub mod http;
pub mod ids;
pub mod listener;
mod matcher;
pub mod metrics;
pub mod protocol;
mod proxy_protocol;
mod resource;
pub mod retry;
pub mod route;
pub mod route_action;
pub mod route_table;
pub mod scopes;
pub mod secret;
mod socket_options;
mod stream;
pub mod template;
pub mod tls;
mod tracing;
pub mod verify;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use ::http::HeaderName;
use envoy_types::pb::envoy::config::core::v3::Node;

pub use field::{At, Rejection, Rejections};
pub use files::Files;
use ids::Ids;
use scopes::Scopes;

use crate::config::ClusterId;
use crate::config::filter::geoip::Database;
use crate::config::filter::jwt::RemoteKeys;
use crate::config::http_manager::PrefixedHeaders;
use crate::config::zones::LocalProxies;

/// What compiling needs besides the message.
#[derive(Debug)]
pub struct Context {
    /// Reads files that messages name.
    pub files: Box<dyn Files>,
    /// Cluster names to ids.
    pub clusters: Ids,
    /// Route table names to ids.
    pub route_tables: Ids,
    /// Counters that outlive updates.
    pub scopes: Scopes,
    /// Header names under the configured prefix.
    pub prefixed: Arc<PrefixedHeaders>,
    /// The next [`crate::config::endpoint::HostId`].
    pub next_host: u64,
    /// Databases of places that are in use, by their files: a listener that comes again doesn't read them again.
    pub databases: BTreeMap<PathBuf, Weak<Database>>,
    /// Files that what is being compiled needs and that can't be used: nobody may have put them there yet.
    pub unusable: BTreeSet<PathBuf>,
    /// Keys of servers that are in use, by what is said of them: a listener that comes again doesn't forget them, and
    /// what it says of others closes nothing. A cluster that has another number now is another one.
    pub remote_keys: BTreeMap<(ClusterId, Vec<u8>), Weak<RemoteKeys>>,
    /// Filters of the listener that is being compiled, which wait for their credentials.
    pub credentials: Vec<credential::CredentialUse>,
    /// The cluster of the configuration server, which alone may ask for a credential.
    pub ads_cluster: Option<String>,
    /// Who this proxy says it is.
    pub node: Node,
    /// The proxies of the fleet, by the cluster that the bootstrap names for it.
    pub local: Option<Arc<LocalProxies>>,
}

impl Context {
    /// A context with nothing in it.
    pub fn new(files: Box<dyn Files>, prefixed: PrefixedHeaders, workers: usize) -> Self {
        Self {
            files,
            clusters: Ids::default(),
            route_tables: Ids::default(),
            scopes: Scopes::new(workers),
            prefixed: Arc::new(prefixed),
            next_host: 0,
            databases: BTreeMap::new(),
            unusable: BTreeSet::new(),
            remote_keys: BTreeMap::new(),
            credentials: Vec::new(),
            ads_cluster: None,
            node: Node::default(),
            local: None,
        }
    }
}

/// The header names under a prefix (`x-envoy` when the bootstrap names none).
pub fn prefixed_headers(prefix: &str) -> Result<PrefixedHeaders, Rejection> {
    let prefix = if prefix.is_empty() { "x-envoy" } else { prefix };
    let name = |suffix: &str| {
        HeaderName::from_bytes(format!("{prefix}-{suffix}").to_ascii_lowercase().as_bytes()).map_err(|_| {
            At::root()
                .field("header_prefix")
                .error(format!("{prefix:?} is not a header name"))
        })
    };
    let names = |suffixes: &[&str]| suffixes.iter().map(|suffix| name(suffix)).collect::<Result<_, _>>();
    // Envoy's lists: cleanInternalHeaders of its connection manager, and what its router consumes.
    let edge_only = names(&[
        "decorator-operation",
        "downstream-service-cluster",
        "downstream-service-node",
        "original-host",
        "original-path",
    ])?;
    let internal_only = names(&["expected-rq-timeout-ms", "force-trace", "ip-tags", "original-url"])?;
    let consumed = names(&[
        "hedge-on-per-try-timeout",
        "max-retries",
        "retriable-header-names",
        "retriable-status-codes",
        "retry-grpc-on",
        "retry-on",
        "upstream-alt-stat-name",
        "upstream-rq-per-try-timeout-ms",
        "upstream-rq-timeout-alt-response",
        "upstream-rq-timeout-ms",
        "upstream-stream-duration-ms",
    ])?;
    Ok(PrefixedHeaders {
        internal: name("internal")?,
        external_address: name("external-address")?,
        expected_rq_timeout_ms: name("expected-rq-timeout-ms")?,
        upstream_service_time: name("upstream-service-time")?,
        attempt_count: name("attempt-count")?,
        original_path: name("original-path")?,
        original_host: name("original-host")?,
        upstream_rq_timeout_ms: name("upstream-rq-timeout-ms")?,
        upstream_rq_per_try_timeout_ms: name("upstream-rq-per-try-timeout-ms")?,
        overloaded: name("overloaded")?,
        rate_limited: name("ratelimited")?,
        force_trace: name("force-trace")?,
        downstream_service_cluster: name("downstream-service-cluster")?,
        immediate_health_check_fail: name("immediate-health-check-fail")?,
        degraded: name("degraded")?,
        upstream_healthchecked_cluster: name("upstream-healthchecked-cluster")?,
        edge_only,
        internal_only,
        consumed,
    })
}
