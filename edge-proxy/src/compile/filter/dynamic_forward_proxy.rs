//! Resolution of the hosts that requests ask for: who may be resolved. How that is done is for clusters to say.

use envoy_types::pb::envoy::extensions::filters::http::dynamic_forward_proxy::v3::filter_config::ImplementationSpecifier;
use envoy_types::pb::envoy::extensions::filters::http::dynamic_forward_proxy::v3::per_route_config::HostRewriteSpecifier;
use envoy_types::pb::envoy::extensions::filters::http::dynamic_forward_proxy::v3::{FilterConfig, PerRouteConfig};
use envoy_types::pb::google::protobuf::Any;
use http::HeaderValue;

use crate::compile::Context;
use crate::compile::cluster::names::naming;
use crate::compile::field::{At, Rejection, fields, unpack};
use crate::compile::template::header_name;
use crate::config::dynamic_forward_proxy::NamedOtherwise;
use crate::config::filter::{FilterKind, FilterSettings};
use crate::config::route::HostRewrite;

/// Compiles the filter.
pub(super) fn on_chain(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterKind, Rejection> {
    let message: FilterConfig = unpack(at, config)?;
    fields!(at, &message => FilterConfig {
        implementation_specifier; ignore; refuse save_upstream_address, allow_dynamic_host_from_filter_state
    });
    match implementation_specifier {
        // Read for what can't be honoured: the cache of the cluster is the same.
        Some(ImplementationSpecifier::DnsCacheConfig(cache)) => {
            naming(&at.field("dns_cache_config"), cache)?;
            Ok(FilterKind::Names)
        }
        Some(ImplementationSpecifier::SubClusterConfig(_)) => Err(at.unsupported("sub_cluster_config")),
        None => Err(at.field("dns_cache_config").error("is required")),
    }
}

/// Compiles what a route says of it.
pub(super) fn of_route(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterSettings, Rejection> {
    let message: PerRouteConfig = unpack(at, config)?;
    fields!(at, &message => PerRouteConfig { host_rewrite_specifier; ignore; refuse });
    let rewrite = match host_rewrite_specifier {
        None => return Ok(FilterSettings::Names(None)),
        Some(HostRewriteSpecifier::HostRewriteLiteral(name)) => {
            let at = at.field("host_rewrite_literal");
            HostRewrite::Literal(HeaderValue::from_str(name).map_err(|_| at.error("is not a host"))?)
        }
        Some(HostRewriteSpecifier::HostRewriteHeader(name)) => {
            HostRewrite::Header(header_name(&at.field("host_rewrite_header"), name)?)
        }
    };
    Ok(FilterSettings::Names(Some(NamedOtherwise(rewrite))))
}
