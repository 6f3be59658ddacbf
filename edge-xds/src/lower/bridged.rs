//! Listeners between two states of a fleet: what the filters of the one and the other are put together to.

use super::{listener::METADATA, metadata::put_metadata, table::plain_table_name};
use crate::snapshot::{Body, Entry};
use envoy_types::pb::{
    envoy::{
        config::listener::v3::{Filter, FilterChain, Listener, filter::ConfigType},
        extensions::filters::{
            http::jwt_authn::v3::JwtAuthentication,
            network::http_connection_manager::v3::{
                HttpConnectionManager, HttpFilter, http_connection_manager::RouteSpecifier,
                http_filter::ConfigType as HttpConfigType,
            },
        },
    },
    google::protobuf::Any,
};
use prost::{Message, Name};
use std::collections::{BTreeMap, BTreeSet};

/// The new listener with the filters that only the old one has, for chains that ask for the same table; none where it
/// has them all. A chain that asks for another gets that behind its own guards.
pub(crate) fn bridged(old: &Entry, new: &Entry) -> Option<Entry> {
    widened(old, new, |held, now| held == now)
}

/// The same where the table may hold routes of the one before, whichever guards that was behind.
pub(crate) fn with_filters_of(old: &Entry, new: &Entry) -> Option<Entry> {
    widened(old, new, |held, now| asked_for(held) == asked_for(now))
}

/// The table that a chain asks for, whichever guards it is behind.
fn asked_for(routes: &Option<RouteSpecifier>) -> Option<&str> {
    match routes {
        Some(RouteSpecifier::Rds(rds)) => Some(plain_table_name(&rds.route_config_name)),
        _ => None,
    }
}

/// Whether two chains ask for one table, as far as it matters here.
type IsSameTable = fn(&Option<RouteSpecifier>, &Option<RouteSpecifier>) -> bool;

fn widened(old: &Entry, new: &Entry, is_same_table: IsSameTable) -> Option<Entry> {
    let before = Listener::decode(old.body.contiguous()).ok()?;
    let mut both = Listener::decode(new.body.contiguous()).ok()?;
    let held: Vec<&FilterChain> = before
        .filter_chains
        .iter()
        .chain(&before.default_filter_chain)
        .collect();
    let mut is_wider = false;
    for chain in both.filter_chains.iter_mut().chain(&mut both.default_filter_chain) {
        let Some(held) = held.iter().find(|held| held.name == chain.name) else {
            continue;
        };
        for (filter, held) in chain.filters.iter_mut().zip(&held.filters) {
            is_wider |= widen_manager(filter, held, is_same_table).is_some();
        }
    }
    is_wider.then(|| {
        // A map, whose entries have an order only where they are written one by one.
        both.metadata = None;
        let mut out = both.encode_to_vec();
        put_metadata(&mut out, METADATA, &new.origins);
        let mut entry = new.clone();
        entry.body = Body::Whole(out.into());
        entry.version = entry.body.version();
        entry
    })
}

/// The names of the tables that the chains of a listener ask for.
pub(crate) fn tables_of(entry: &Entry) -> BTreeSet<String> {
    let Ok(listener) = Listener::decode(entry.body.contiguous()) else {
        return BTreeSet::new();
    };
    let chains = listener.filter_chains.iter().chain(&listener.default_filter_chain);
    let tables = chains.flat_map(|chain| &chain.filters).filter_map(|filter| {
        let Some(ConfigType::TypedConfig(config)) = &filter.config_type else {
            return None;
        };
        let manager: HttpConnectionManager = unpack(config)?;
        match manager.route_specifier? {
            RouteSpecifier::Rds(rds) => Some(rds.route_config_name),
            _ => None,
        }
    });
    tables.collect()
}

/// Adds the HTTP filters that only the other has, each behind what it stood behind. None where nothing is missing.
fn widen_manager(filter: &mut Filter, held: &Filter, is_same_table: IsSameTable) -> Option<()> {
    let (Some(ConfigType::TypedConfig(config)), Some(ConfigType::TypedConfig(held))) =
        (&mut filter.config_type, &held.config_type)
    else {
        return None;
    };
    if config == held {
        return None;
    }
    let held: HttpConnectionManager = unpack(held)?;
    let mut manager: HttpConnectionManager = unpack(config)?;
    if !is_same_table(&held.route_specifier, &manager.route_specifier) {
        // It asks for a table of its own, and nobody gives it that of before.
        return None;
    }
    let (mut place, mut is_wider) = (0, false);
    for one in held.http_filters {
        match manager.http_filters.iter().position(|known| known.name == one.name) {
            Some(found) => {
                let known = manager.http_filters.get_mut(found)?;
                is_wider |= widen_tokens(known, &one).is_some();
                place = found + 1;
            }
            None => {
                manager.http_filters.insert(place, one);
                place += 1;
                is_wider = true;
            }
        }
    }
    is_wider.then(|| config.value = manager.encode_to_vec())
}

/// Routes name what they ask of tokens, and the filter knows the names.
fn widen_tokens(filter: &mut HttpFilter, held: &HttpFilter) -> Option<()> {
    let (Some(HttpConfigType::TypedConfig(config)), Some(HttpConfigType::TypedConfig(held))) =
        (&mut filter.config_type, &held.config_type)
    else {
        return None;
    };
    if config == held {
        return None;
    }
    let tokens: JwtAuthentication = unpack(config)?;
    let held: JwtAuthentication = unpack(held)?;
    let mut lost = JwtAuthentication {
        requirement_map: held.requirement_map,
        providers: held.providers,
        ..Default::default()
    };
    lost.requirement_map
        .retain(|name, _| !tokens.requirement_map.contains_key(name));
    if lost.requirement_map.is_empty() {
        return None;
    }
    lost.providers.retain(|name, _| !tokens.providers.contains_key(name));
    config.value.extend(in_order(lost));
    Some(())
}

/// Encodes what has maps entry by entry, by name. Messages behind each other are one with the entries of all.
fn in_order(tokens: JwtAuthentication) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, provider) in BTreeMap::from_iter(tokens.providers) {
        let providers = [(name, provider)].into_iter().collect();
        out.extend(
            JwtAuthentication {
                providers,
                ..Default::default()
            }
            .encode_to_vec(),
        );
    }
    for (name, requirement) in BTreeMap::from_iter(tokens.requirement_map) {
        let requirement_map = [(name, requirement)].into_iter().collect();
        out.extend(
            JwtAuthentication {
                requirement_map,
                ..Default::default()
            }
            .encode_to_vec(),
        );
    }
    out
}

fn unpack<M: Message + Name + Default>(config: &Any) -> Option<M> {
    (config.type_url == M::type_url())
        .then(|| M::decode(config.value.as_slice()).ok())
        .flatten()
}
