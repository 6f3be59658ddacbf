//! Where the endpoints of a cluster come from.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, CustomClusterType, DiscoveryType, EdsClusterConfig,
};
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::extensions::clusters::dns::v3::DnsCluster;
use envoy_types::pb::envoy::extensions::clusters::dynamic_forward_proxy::v3::ClusterConfig;
use envoy_types::pb::google::protobuf::Duration as ProtoDuration;

use crate::compile::cluster::names::{self, Vouching};
use crate::compile::endpoint::host_names;
use crate::compile::field::{At, Rejection, duration_or, fields, is, type_name, unpack};
use crate::config::dynamic_forward_proxy::{DnsFamily, Naming};

/// Where the endpoints of a cluster come from.
#[derive(Debug, Clone)]
pub enum Discovery {
    /// The message lists addresses.
    Static(ClusterLoadAssignment),
    /// EDS by that name.
    Eds(Arc<str>),
    /// The message lists host names.
    Dns(DnsSpec),
    /// Requests name them.
    Requests(Naming, Vouching),
}

impl Discovery {
    /// What must be asked of DNS, if anything.
    pub fn lookup(&self) -> Option<DnsLookup> {
        match self {
            Self::Dns(dns) => Some(dns.lookup()),
            Self::Static(_) | Self::Eds(_) | Self::Requests(..) => None,
        }
    }
}

/// How host names are resolved.
#[derive(Debug, Clone)]
pub struct DnsSpec {
    /// Endpoints whose addresses are host names (or IP addresses).
    pub assignment: ClusterLoadAssignment,
    /// Between two resolutions.
    pub refresh: Duration,
    /// Which addresses.
    pub family: DnsFamily,
    /// How many of them.
    pub share: AnswerShare,
}

/// How many addresses of an answer are hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerShare {
    /// Each (strict DNS).
    All,
    /// One of them (logical DNS).
    First,
}

/// What is asked of DNS, and how often: who asks the same goes on with the answers that there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsLookup {
    /// The names.
    pub names: Vec<String>,
    /// Between two resolutions.
    pub refresh: Duration,
    /// Which addresses.
    pub family: DnsFamily,
    /// How many of them.
    pub share: AnswerShare,
}

impl DnsLookup {
    /// Whether an answer for one is an answer for the other.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.family, self.share) == (other.family, other.share)
    }
}

impl DnsSpec {
    /// What must be asked.
    pub fn lookup(&self) -> DnsLookup {
        DnsLookup {
            names: host_names(&self.assignment),
            refresh: self.refresh,
            family: self.family,
            share: self.share,
        }
    }
}

/// Where a cluster says its endpoints are.
pub(super) fn discovery(
    at: &At<'_>,
    name: &str,
    kind: Option<&ClusterDiscoveryType>,
    eds: Option<&EdsClusterConfig>,
    assignment: Option<&ClusterLoadAssignment>,
    dns: (Option<&ProtoDuration>, i32),
) -> Result<Discovery, Rejection> {
    let assignment = assignment.cloned().unwrap_or_default();
    let by_dns = |share| -> Result<Discovery, Rejection> {
        Ok(Discovery::Dns(DnsSpec {
            assignment: assignment.clone(),
            refresh: duration_or(&at.field("dns_refresh_rate"), dns.0, Duration::from_secs(5))?,
            family: dns_family(at, dns.1)?,
            share,
        }))
    };
    match kind {
        None => Ok(Discovery::Static(assignment)),
        Some(ClusterDiscoveryType::Type(kind)) => match DiscoveryType::try_from(*kind) {
            Ok(DiscoveryType::Static) => Ok(Discovery::Static(assignment)),
            Ok(DiscoveryType::StrictDns) => by_dns(AnswerShare::All),
            Ok(DiscoveryType::LogicalDns) => by_dns(AnswerShare::First),
            Ok(DiscoveryType::Eds) => eds_discovery(at, name, eds),
            _ => Err(at.unsupported("type")),
        },
        Some(ClusterDiscoveryType::ClusterType(custom)) => {
            custom_discovery(&at.field("cluster_type"), custom, assignment)
        }
    }
}

fn eds_discovery(at: &At<'_>, name: &str, eds: Option<&EdsClusterConfig>) -> Result<Discovery, Rejection> {
    let at = at.field("eds_cluster_config");
    let Some(eds) = eds else {
        return Err(at.error("is required"));
    };
    match eds
        .eds_config
        .as_ref()
        .and_then(|source| source.config_source_specifier.as_ref())
    {
        Some(ConfigSourceSpecifier::Ads(_) | ConfigSourceSpecifier::Self_(_)) => {}
        _ => {
            return Err(at
                .field("eds_config")
                .error("only ads and self are supported by this proxy"));
        }
    }
    Ok(Discovery::Eds(if eds.service_name.is_empty() {
        name.into()
    } else {
        eds.service_name.as_str().into()
    }))
}

fn custom_discovery(
    at: &At<'_>,
    custom: &CustomClusterType,
    assignment: ClusterLoadAssignment,
) -> Result<Discovery, Rejection> {
    let at_config = at.field("typed_config");
    match &custom.typed_config {
        Some(config) if is::<DnsCluster>(config) => {
            let message: DnsCluster = unpack(&at_config, config)?;
            fields!(at_config, &message => DnsCluster {
                dns_refresh_rate, dns_lookup_family, all_addresses_in_single_endpoint;
                ignore dns_failure_refresh_rate, respect_dns_ttl, dns_jitter, typed_dns_resolver_config,
                       dns_min_refresh_rate;
                refuse
            });
            Ok(Discovery::Dns(DnsSpec {
                assignment,
                refresh: duration_or(
                    &at_config.field("dns_refresh_rate"),
                    dns_refresh_rate.as_ref(),
                    Duration::from_secs(60),
                )?,
                family: common_dns_family(&at_config, *dns_lookup_family)?,
                share: match all_addresses_in_single_endpoint {
                    true => AnswerShare::First,
                    false => AnswerShare::All,
                },
            }))
        }
        Some(config) if is::<ClusterConfig>(config) => {
            let (naming, vouching) = names::cluster(&at_config, &unpack(&at_config, config)?)?;
            Ok(Discovery::Requests(naming, vouching))
        }
        Some(config) => Err(at_config.error(format!(
            "cluster type {:?} is not supported by this proxy",
            type_name(config)
        ))),
        None => Err(at.error(format!("cluster type {:?} is not supported by this proxy", custom.name))),
    }
}

pub(super) fn dns_family(at: &At<'_>, value: i32) -> Result<DnsFamily, Rejection> {
    use envoy_types::pb::envoy::config::cluster::v3::cluster::DnsLookupFamily as Family;
    match Family::try_from(value) {
        // Envoy's AUTO prefers IPv6.
        Ok(Family::Auto) => Ok(DnsFamily::PreferV6),
        Ok(Family::V4Only) => Ok(DnsFamily::V4),
        Ok(Family::V6Only) => Ok(DnsFamily::V6),
        Ok(Family::V4Preferred) => Ok(DnsFamily::PreferV4),
        Ok(Family::All) => Ok(DnsFamily::All),
        Err(_) => Err(at.unsupported("dns_lookup_family")),
    }
}

fn common_dns_family(at: &At<'_>, value: i32) -> Result<DnsFamily, Rejection> {
    use envoy_types::pb::envoy::extensions::clusters::common::dns::v3::DnsLookupFamily as Family;
    match Family::try_from(value) {
        Ok(Family::Unspecified | Family::Auto) => Ok(DnsFamily::PreferV6),
        Ok(Family::V4Only) => Ok(DnsFamily::V4),
        Ok(Family::V6Only) => Ok(DnsFamily::V6),
        Ok(Family::V4Preferred) => Ok(DnsFamily::PreferV4),
        Ok(Family::All) => Ok(DnsFamily::All),
        Err(_) => Err(at.unsupported("dns_lookup_family")),
    }
}
