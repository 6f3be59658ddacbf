//! What chooses a filter chain → [`FilterChains`].

use std::sync::Arc;

use envoy_types::pb::envoy::config::listener::v3::FilterChainMatch;

use crate::compile::field::{At, Rejection, fields};
use crate::compile::http::address_ranges;
use crate::compile::listener::ChainSpec;
use crate::config::address::AddressRange;
use crate::config::listener::FilterChains;

/// Which connections a chain takes.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Those with one of these server names, in lower case; none: whatever no other chain takes.
    pub(super) server_names: Vec<String>,
    /// Those from these networks; none: from all that no other chain has.
    networks: Vec<AddressRange>,
    /// Only those that speak TLS.
    pub(super) only_tls: bool,
}

/// Compiles what chooses a chain.
pub(super) fn taken(at: &At<'_>, message: &FilterChainMatch) -> Result<Taken, Rejection> {
    fields!(at, message => FilterChainMatch {
        server_names, transport_protocol, source_prefix_ranges;
        ignore;
        refuse destination_port, prefix_ranges, address_suffix, suffix_len, direct_source_prefix_ranges, source_type,
               source_ports, application_protocols
    });
    let only_tls = match transport_protocol.as_str() {
        "" => !server_names.is_empty(),
        "tls" => true,
        _ => return Err(at.unsupported("transport_protocol")),
    };
    Ok(Taken {
        server_names: server_names.iter().map(|name| name.to_ascii_lowercase()).collect(),
        networks: address_ranges(&at.field("source_prefix_ranges"), source_prefix_ranges)?,
        only_tls,
    })
}

/// Files chains under what they take; two chains that take the same are an error.
pub(super) fn index<C>(
    specs: &[ChainSpec],
    mut make: impl FnMut(&ChainSpec) -> Result<Arc<C>, Rejection>,
    at: &At<'_>,
) -> Result<FilterChains<C>, Rejection> {
    let mut chains = FilterChains::default();
    let list = at.field("filter_chains");
    for (index, spec) in specs.iter().enumerate() {
        let chain = make(spec)?;
        if spec.is_default {
            chains.fallback = Some(chain);
            continue;
        }
        let Taken {
            server_names,
            networks,
            only_tls,
        } = &spec.taken;
        let taken = |what: &str| {
            list.index(index)
                .error(format!("{what} is already taken by another chain"))
        };
        let is_free = match (server_names.is_empty(), *only_tls) {
            (false, _) => true,
            (true, false) => chains.enter(None, networks, &chain),
            (true, true) => chains.enter_tls(networks, &chain),
        };
        if !is_free {
            return Err(taken("what asks for no name of others"));
        }
        for name in server_names {
            if !chains.enter(Some(name), networks, &chain) {
                return Err(taken(&format!("server name {name:?}")));
            }
        }
    }
    Ok(chains)
}
