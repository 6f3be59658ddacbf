//! Resolution of the server names that clients of TLS ask for (SNI): at which port. How that is done is for clusters to
//! say.

use envoy_types::pb::envoy::extensions::filters::network::sni_dynamic_forward_proxy::v3::FilterConfig;
use envoy_types::pb::envoy::extensions::filters::network::sni_dynamic_forward_proxy::v3::filter_config::PortSpecifier;
use envoy_types::pb::google::protobuf::Any;

use crate::compile::cluster::names::naming;
use crate::compile::field::{At, Rejection, fields, unpack};

/// Compiles the filter: the port of whoever is asked for.
pub(in crate::compile) fn port(at: &At<'_>, config: &Any) -> Result<u16, Rejection> {
    let message: FilterConfig = unpack(at, config)?;
    fields!(at, &message => FilterConfig { dns_cache_config, port_specifier; ignore; refuse save_upstream_address });
    // Read for what can't be honoured: the cache of the cluster is the same.
    let at_cache = at.field("dns_cache_config");
    match dns_cache_config {
        Some(cache) => naming(&at_cache, cache)?,
        None => return Err(at_cache.error("is required")),
    };
    let port = port_specifier.as_ref().map(|PortSpecifier::PortValue(port)| *port);
    let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    port.ok_or_else(|| at.field("port_value").error("must be from 1 to 65535"))
}
