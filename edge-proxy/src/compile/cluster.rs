//! Cluster → [`ClusterSpec`], and with its secrets → [`Cluster`].

mod discovery;
mod http_options;
pub(super) mod names;
mod sockets;

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, CommonLbConfig, LbPolicy as ProtoLbPolicy,
};
use envoy_types::pb::envoy::config::cluster::v3::{
    CircuitBreakers, Cluster as ProtoCluster, LoadBalancingPolicy, OutlierDetection as ProtoOutliers,
    UpstreamConnectionOptions,
};
use envoy_types::pb::envoy::config::core::v3::{BindConfig, HealthCheck as ProtoCheck};
use envoy_types::pb::google::protobuf::UInt32Value;
use tokio::sync::Notify;

use crate::compile::Context;
use crate::compile::balancing::{Chosen, balancing};
use crate::compile::credential::CredentialSpec;
use crate::compile::endpoint::{Checks, SocketMatch};
use crate::compile::field::{At, Rejection, duration_or, fields, number};
use crate::compile::health;
use crate::compile::secret::{SecretKey, Secrets};
use crate::compile::socket_options;
use crate::compile::tls::UpstreamTlsSpec;
use crate::config::cluster::{Balancing, CircuitLimits, Cluster, LbPolicy, RetryBudget, UpstreamProtocol};
use crate::config::endpoint::LbSettings;
use crate::config::endpoint::hashing::Hashing;
use crate::config::health::{HealthCheck, HealthPolicy, OutlierDetection};
use crate::config::load::{HostSource, LoadWeights};
use crate::config::socket::{SocketOptions, TcpKeepalive};
use crate::stats::ClusterStats;

use http_options::{HttpOptions, misplaced_credential};
use sockets::{Sockets, sockets};

pub use discovery::{AnswerShare, Discovery, DnsLookup, DnsSpec};

/// A cluster without its secrets and endpoints.
#[derive(Debug)]
pub struct ClusterSpec {
    /// The resource's name.
    pub name: Arc<str>,
    /// Where endpoints come from.
    pub discovery: Discovery,
    /// What decides who is drawn.
    pub lb_settings: LbSettings,
    connect_timeout: Duration,
    balancing: Balancing,
    loads: Option<Box<LoadWeights>>,
    named: Arc<[HostSource]>,
    http: HttpOptions,
    sockets: Sockets,
    credential: Option<CredentialSpec>,
    limits: CircuitLimits,
    options: SocketOptions,
    check: Option<Arc<HealthCheck>>,
    outliers: Option<OutlierDetection>,
    ignores_unchecked: bool,
    stats: Arc<ClusterStats>,
}

/// Compiles a cluster.
pub fn cluster(context: &mut Context, message: &ProtoCluster) -> Result<ClusterSpec, Rejection> {
    let at = &At::root();
    fields!(at, message => ProtoCluster {
        name, eds_cluster_config, connect_timeout, lb_policy, load_assignment,
        max_requests_per_connection, circuit_breakers, common_http_protocol_options, http2_protocol_options,
        typed_extension_protocol_options, dns_refresh_rate, dns_lookup_family, common_lb_config, transport_socket,
        upstream_connection_options, load_balancing_policy, cluster_discovery_type, lb_config, alt_stat_name,
        health_checks, outlier_detection, ignore_health_on_host_removal, upstream_bind_config,
        transport_socket_matches;
        // Observation; preconnecting and cleaning up are matters of speed; the system's resolver has no TTL. Content is
        // passed on as it comes, and as fast as it is taken, so that a buffer has nothing to hold.
        ignore stats_matcher, per_connection_buffer_limit_bytes, per_connection_buffer_high_watermark_timeout,
               dns_jitter, dns_failure_refresh_rate,
               respect_dns_ttl, typed_dns_resolver_config, wait_for_warm_on_init, cleanup_interval, metadata,
               protocol_selection, lrs_server, lrs_report_endpoint_metrics, track_timeout_budgets,
               track_cluster_stats, preconnect_policy;
        // The old places of HTTP options are refused: typed_extension_protocol_options says all that they can say.
        refuse http_protocol_options, upstream_http_protocol_options, transport_socket_matcher, dns_resolvers,
               use_tcp_for_dns_lookups, dns_resolution_config, lb_subset_config, filters, upstream_config,
               connection_pool_per_downstream_connection, queuing_policies, close_connections_on_host_health_failure
    });
    let mut http = HttpOptions::new(
        at,
        http2_protocol_options.as_ref(),
        common_http_protocol_options.as_ref(),
        max_requests_per_connection.as_ref(),
        typed_extension_protocol_options,
    )?;
    let credential = http.credential.take();
    if credential.is_some() && context.ads_cluster.as_deref() != Some(name) {
        return Err(misplaced_credential(at));
    }
    // Before the policy: of a kind of cluster that brings its own, the kind is what matters.
    let discovery = discovery::discovery(
        at,
        name,
        cluster_discovery_type.as_ref(),
        eds_cluster_config.as_ref(),
        load_assignment.as_ref(),
        (dns_refresh_rate.as_ref(), *dns_lookup_family),
    )?;
    if let Discovery::Requests(..) = discovery {
        http.of_named_hosts(typed_extension_protocol_options);
    }
    let extension = load_balancing_policy.as_ref();
    let chosen = match &discovery {
        Discovery::Requests(..) => of_requests(at, *lb_policy, extension)?,
        _ => balancing(at, *lb_policy, lb_config.as_ref(), extension, common_lb_config.as_ref())?,
    };
    let is_static = matches!(cluster_discovery_type, None | Some(ClusterDiscoveryType::Type(0)));
    if !health_checks.is_empty() && !is_static && !ignore_health_on_host_removal {
        return Err(keeps_removed_hosts(at));
    }
    let health = health_of(context, at, health_checks, outlier_detection.as_ref())?;
    let usual = transport_socket.as_ref();
    let sockets = sockets(context, at, usual, transport_socket_matches, &discovery, http.of_host)?;
    let at_timeout = at.field("connect_timeout");
    let common_lb = self::common_lb(common_lb_config.as_ref());
    let by_zone = chosen.balancing.zones.is_some() && context.local.is_some();
    let scope = if alt_stat_name.is_empty() { name } else { alt_stat_name };
    Ok(ClusterSpec {
        discovery,
        lb_settings: lb_settings(&common_lb, chosen.hashing, by_zone),
        connect_timeout: duration_or(&at_timeout, connect_timeout.as_ref(), Duration::from_secs(5))?,
        balancing: chosen.balancing,
        loads: chosen.loads,
        named: chosen.named.into(),
        sockets,
        http,
        credential,
        limits: limits(&at.field("circuit_breakers"), circuit_breakers.as_ref())?,
        options: socket_options(at, upstream_connection_options.as_ref(), upstream_bind_config.as_ref())?,
        check: health.0,
        outliers: health.1,
        ignores_unchecked: common_lb.ignores_unchecked,
        stats: context.scopes.cluster(scope),
        name: name.as_str().into(),
    })
}

/// Of hosts that requests name none is chosen.
fn of_requests(at: &At<'_>, policy: i32, extension: Option<&LoadBalancingPolicy>) -> Result<Chosen, Rejection> {
    if extension.is_some() {
        return Err(at.unsupported("load_balancing_policy"));
    }
    if policy != ProtoLbPolicy::ClusterProvided as i32 {
        return Err(at.field("lb_policy").error("must be CLUSTER_PROVIDED"));
    }
    Ok(Chosen::from(Balancing {
        policy: LbPolicy::RoundRobin,
        locality_weighted: false,
        zones: None,
        slow_start: None,
    }))
}

/// Envoy would keep a host that discovery has removed for as long as it is healthy.
fn keeps_removed_hosts(at: &At<'_>) -> Rejection {
    at.field("ignore_health_on_host_removal")
        .error("must be true where hosts are checked: this proxy keeps no host that discovery has removed")
}

/// Probes, and what traffic shows.
fn health_of(
    context: &mut Context,
    at: &At<'_>,
    checks: &[ProtoCheck],
    outliers: Option<&ProtoOutliers>,
) -> Result<(Option<Arc<HealthCheck>>, Option<OutlierDetection>), Rejection> {
    let check = health::check(context, &at.field("health_checks"), checks)?;
    let outliers = outliers
        .map(|message| health::outliers(&at.field("outlier_detection"), message))
        .transpose()?;
    Ok((check, outliers))
}

fn socket_options(
    at: &At<'_>,
    connection: Option<&UpstreamConnectionOptions>,
    bind: Option<&BindConfig>,
) -> Result<SocketOptions, Rejection> {
    Ok(SocketOptions {
        keepalive: connection.and_then(keepalive),
        ..socket_options::bind_config(&at.field("upstream_bind_config"), bind)?
    })
}

fn keepalive(options: &UpstreamConnectionOptions) -> Option<TcpKeepalive> {
    fields!(At::root(), options => UpstreamConnectionOptions {
        tcp_keepalive;
        // The name of an interface would only be told to observers; a host has one address here.
        ignore set_local_interface_name_on_upstream_connections, happy_eyeballs_config;
        refuse
    });
    let seconds = |value: Option<&UInt32Value>| number(value).map(|seconds| Duration::from_secs(seconds.into()));
    tcp_keepalive.as_ref().map(|keepalive| TcpKeepalive {
        probes: number(keepalive.keepalive_probes.as_ref()),
        time: seconds(keepalive.keepalive_time.as_ref()),
        interval: seconds(keepalive.keepalive_interval.as_ref()),
    })
}

/// What the settings of all policies say.
struct CommonLb {
    panic_threshold: u32,
    ignores_unchecked: bool,
}

fn lb_settings(common: &CommonLb, hashing: Option<Hashing>, by_zone: bool) -> LbSettings {
    LbSettings {
        panic_threshold: common.panic_threshold,
        hashing,
        by_zone,
        ..LbSettings::default()
    }
}

fn common_lb(message: Option<&CommonLbConfig>) -> CommonLb {
    let default = CommonLbConfig::default();
    let message = message.unwrap_or(&default);
    fields!(At::root(), message => CommonLbConfig {
        healthy_panic_threshold, ignore_new_hosts_until_first_hc, locality_config_specifier,
        consistent_hashing_lb_config;
        // Updates are merged by the stream.
        ignore update_merge_window, close_connections_on_host_set_change, override_host_status;
        refuse
    });
    // The policy itself is where they are read.
    let _ = (locality_config_specifier, consistent_hashing_lb_config);
    CommonLb {
        panic_threshold: healthy_panic_threshold
            .as_ref()
            .map_or(50, |percent| percent.value.clamp(0.0, 100.0) as u32),
        ignores_unchecked: *ignore_new_hosts_until_first_hc,
    }
}

fn limits(at: &At<'_>, message: Option<&CircuitBreakers>) -> Result<CircuitLimits, Rejection> {
    let mut limits = CircuitLimits::default();
    let Some(message) = message else { return Ok(limits) };
    let list = at.field("per_host_thresholds");
    for (index, thresholds) in message.per_host_thresholds.iter().enumerate() {
        let at = list.index(index);
        // Of the others Envoy heeds none.
        if thresholds.priority == 0 {
            limits.max_connections_per_host =
                number(thresholds.max_connections.as_ref()).unwrap_or(limits.max_connections_per_host);
        }
        if thresholds.retry_budget.is_some() {
            return Err(at.unsupported("retry_budget"));
        }
    }
    for thresholds in &message.thresholds {
        fields!(at, thresholds => Thresholds {
            priority, max_connections, max_pending_requests, max_requests, max_retries, retry_budget;
            // One pool a host; remaining capacity is not observed.
            ignore track_remaining, max_connection_pools;
            refuse
        });
        // Routes can't ask for the high priority, so its thresholds apply to nothing.
        if *priority == 0 {
            limits.max_connections = number(max_connections.as_ref()).unwrap_or(limits.max_connections);
            limits.max_pending_requests = number(max_pending_requests.as_ref()).unwrap_or(limits.max_pending_requests);
            limits.max_requests = number(max_requests.as_ref()).unwrap_or(limits.max_requests);
            limits.max_retries = number(max_retries.as_ref()).unwrap_or(limits.max_retries);
            // Envoy's defaults.
            limits.retry_budget = retry_budget.as_ref().map(|budget| RetryBudget {
                percent: budget.budget_percent.as_ref().map_or(20.0, |percent| percent.value),
                least: number(budget.min_retry_concurrency.as_ref()).unwrap_or(3),
            });
        }
    }
    Ok(limits)
}

impl ClusterSpec {
    /// The secrets that must be there before the cluster is used.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretKey> {
        let own = self.credential.iter().map(|credential| &credential.secret);
        let tls = self.sockets.usual.tls.iter().chain(self.sockets.own.iter().flatten());
        tls.flat_map(UpstreamTlsSpec::secrets).chain(own)
    }

    /// Which of its hosts have sockets of their own.
    pub fn socket_matches(&self) -> &[SocketMatch] {
        &self.sockets.matches
    }

    /// Whether its hosts are checked.
    pub fn checks(&self) -> Checks {
        match (&self.check, self.ignores_unchecked) {
            (None, _) => Checks::None,
            (Some(_), false) => Checks::Active,
            (Some(_), true) => Checks::Awaited,
        }
    }

    /// Whether the health of its hosts may change while it runs.
    pub fn watches_health(&self) -> bool {
        self.check.is_some() || self.outliers.is_some()
    }

    /// Adds the secrets.
    pub fn finish(&self, secrets: &Secrets) -> Result<Cluster, Rejection> {
        let at = At::root();
        let alpn: &[&[u8]] = match self.http.protocol {
            UpstreamProtocol::Http1 => &[b"http/1.1"],
            UpstreamProtocol::Http2 => &[b"h2"],
            UpstreamProtocol::Auto | UpstreamProtocol::Downstream => &[b"h2", b"http/1.1"],
        };
        let at_socket = at.field("transport_socket");
        let tls = self
            .sockets
            .usual
            .tls
            .as_ref()
            .map(|spec| spec.finish(&at_socket, secrets, alpn))
            .transpose()?;
        let list = at.field("transport_socket_matches");
        let finished = self.sockets.own.iter().enumerate().map(|(index, spec)| {
            let spec = spec.as_ref();
            spec.map(|spec| spec.finish(&list.index(index), secrets, alpn).map(Arc::new))
                .transpose()
        });
        let sockets = finished.collect::<Result<_, _>>()?;
        let credential = self.credential.as_ref().map(|spec| spec.finish(secrets)).transpose()?;
        Ok(Cluster {
            credential,
            name: self.name.clone(),
            connect_timeout: self.connect_timeout,
            balancing: self.balancing,
            naming: match &self.discovery {
                Discovery::Requests(naming, _) => Some(naming.clone()),
                _ => None,
            },
            loads: self.loads.clone(),
            named: self.named.clone(),
            protocol: self.http.protocol,
            proxy_protocol: self.sockets.usual.proxy_protocol,
            tls: tls.map(Arc::new),
            sockets,
            limits: self.limits,
            idle_timeout: self.http.idle_timeout,
            max_connection_duration: self.http.max_connection_duration,
            max_requests_per_connection: self.http.max_requests_per_connection,
            http1: self.http.http1,
            http2: self.http.http2,
            socket: self.options,
            health: HealthPolicy {
                check: self.check.clone(),
                outliers: self.outliers.clone(),
                bell: Notify::new(),
            },
            stats: self.stats.clone(),
        })
    }
}
