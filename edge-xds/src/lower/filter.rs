//! HTTP filters: their names, and what a route makes of them.

use super::{cors, session};
use crate::wire::{MAP_KEY, MAP_VALUE, put_generated, put_message, put_str};
use edge_ir::{FilterEffect, FilterId, RouteFilter};
use envoy_types::util::pack_any;

/// What the names of all filters begin with.
const PREFIX: &str = "envoy.filters.http.";

/// The name of an instance, on the manager and on routes.
pub(super) fn name(id: &FilterId) -> String {
    format!("{PREFIX}{id}")
}

/// Writes the entry of a map from filter to its settings for a route.
pub(super) fn put_effect(out: &mut Vec<u8>, field: u32, filter: &RouteFilter) {
    let settings = match &filter.effect {
        FilterEffect::Cors(cors) => pack_any(cors::lower(cors)),
        FilterEffect::Session(session) => pack_any(session::lower(session)),
    };
    put_message(out, field, |out| {
        put_str(out, MAP_KEY, &name(&filter.id));
        put_generated(out, MAP_VALUE, &settings);
    });
}
