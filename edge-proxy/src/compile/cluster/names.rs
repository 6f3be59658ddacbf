//! Clusters of the hosts that requests ask for.

use std::time::Duration;

use envoy_types::pb::envoy::extensions::clusters::dynamic_forward_proxy::v3::ClusterConfig;
use envoy_types::pb::envoy::extensions::clusters::dynamic_forward_proxy::v3::cluster_config::ClusterImplementationSpecifier;
use envoy_types::pb::envoy::extensions::common::dynamic_forward_proxy::v3::DnsCacheConfig;

use crate::compile::cluster::discovery::dns_family;
use crate::compile::field::{At, Rejection, duration_or, fields, number};
use crate::compile::http::address_filter;
use crate::config::address::AddressFilter;
use crate::config::dynamic_forward_proxy::Naming;

/// Whether a host that a request names may be another than its certificate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vouching {
    /// It has to prove that it is who was named.
    Demanded,
    /// It is asked for, and judged, as the cluster says (`allow_insecure_cluster_options`).
    AsConfigured,
}

/// Compiles a cluster of such hosts.
pub(super) fn cluster(at: &At<'_>, message: &ClusterConfig) -> Result<(Naming, Vouching), Rejection> {
    fields!(at, message => ClusterConfig {
        cluster_implementation_specifier, allow_insecure_cluster_options;
        // A connection that may be shared by names need not be.
        ignore allow_coalesced_connections;
        refuse
    });
    let naming = match cluster_implementation_specifier {
        Some(ClusterImplementationSpecifier::DnsCacheConfig(cache)) => naming(&at.field("dns_cache_config"), cache),
        Some(ClusterImplementationSpecifier::SubClustersConfig(_)) => Err(at.unsupported("sub_clusters_config")),
        None => Err(at.field("dns_cache_config").error("is required")),
    }?;
    let vouching = match allow_insecure_cluster_options {
        true => Vouching::AsConfigured,
        false => Vouching::Demanded,
    };
    Ok((naming, vouching))
}

/// Compiles how names are resolved.
pub(in crate::compile) fn naming(at: &At<'_>, message: &DnsCacheConfig) -> Result<Naming, Rejection> {
    fields!(at, message => DnsCacheConfig {
        dns_lookup_family, dns_refresh_rate, host_ttl, max_hosts, dns_query_timeout, resolved_address_filter;
        // The name of a cache that others share; the system's resolver has no TTL, and is asked again by requests
        // alone.
        ignore name, dns_min_refresh_rate, disable_dns_refresh_on_failure, dns_failure_refresh_rate,
               typed_dns_resolver_config;
        refuse dns_cache_circuit_breaker, use_tcp_for_dns_lookups, dns_resolution_config, preresolve_hostnames,
               key_value_config
    });
    let time = |field: &str, value: &Option<_>, usual| {
        duration_or(&at.field(field), value.as_ref(), Duration::from_secs(usual))
    };
    // Envoy's figures where none are said.
    Ok(Naming {
        family: dns_family(at, *dns_lookup_family)?,
        refresh: time("dns_refresh_rate", dns_refresh_rate, 60)?,
        unused: time("host_ttl", host_ttl, 300)?,
        most: number(max_hosts.as_ref()).unwrap_or(1024) as usize,
        timeout: time("dns_query_timeout", dns_query_timeout, 5)?,
        refused: match resolved_address_filter {
            Some(matcher) => address_filter(&at.field("resolved_address_filter"), matcher)?,
            None => AddressFilter::default(),
        },
    })
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::cluster::v3::cluster::DnsLookupFamily;
    use envoy_types::pb::envoy::config::core::v3::SocketAddress;
    use envoy_types::pb::envoy::r#type::matcher::v3::AddressMatcher;
    use envoy_types::pb::google::protobuf::UInt32Value;
    use envoy_types::pb::xds::core::v3::CidrRange;

    use super::*;
    use crate::config::dynamic_forward_proxy::DnsFamily;

    #[test]
    fn how_names_are_resolved_is_read_or_refused() {
        let at = At::root();
        let mut cache = DnsCacheConfig {
            dns_lookup_family: DnsLookupFamily::V4Preferred.into(),
            ..DnsCacheConfig::default()
        };
        let read = naming(&at, &cache).unwrap();
        assert_eq!((read.family, read.most), (DnsFamily::PreferV4, 1024));
        assert_eq!(
            (read.refresh, read.timeout),
            (Duration::from_secs(60), Duration::from_secs(5))
        );
        assert_eq!(read.refused, AddressFilter::default());
        let mut refused = AddressMatcher {
            ranges: vec![CidrRange {
                address_prefix: "127.0.0.0".to_owned(),
                prefix_len: Some(UInt32Value { value: 8 }),
            }],
            invert_match: false,
        };
        cache.resolved_address_filter = Some(refused.clone());
        let has = |cache: &DnsCacheConfig, text: &str| naming(&at, cache).unwrap().refused.has(text.parse().unwrap());
        assert!(has(&cache, "127.0.0.1") && has(&cache, "::ffff:127.0.0.1") && !has(&cache, "10.0.0.1"));
        refused.ranges[0] = CidrRange {
            address_prefix: "::ffff:127.0.0.0".to_owned(),
            prefix_len: Some(UInt32Value { value: 104 }),
        };
        cache.resolved_address_filter = Some(refused.clone());
        assert!(has(&cache, "127.0.0.1") && has(&cache, "::ffff:127.0.0.1") && !has(&cache, "10.0.0.1"));
        refused.invert_match = true;
        cache.resolved_address_filter = Some(refused.clone());
        assert!(!has(&cache, "127.0.0.1") && has(&cache, "10.0.0.1"));
        refused.ranges[0].address_prefix = "x".to_owned();
        cache.resolved_address_filter = Some(refused);
        assert_eq!(
            naming(&at, &cache).unwrap_err().field,
            "resolved_address_filter.ranges[0].address_prefix"
        );
        cache.resolved_address_filter = None;
        cache.preresolve_hostnames = vec![SocketAddress::default()];
        assert_eq!(naming(&at, &cache).unwrap_err().field, "preresolve_hostnames");
    }
}
