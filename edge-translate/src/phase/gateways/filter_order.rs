//! The order of filters on chains, as an EdgeProxy changes it.

use crate::api::{EdgeProxy, Text};
use edge_ir::{FilterInstance, FilterKind};
use std::sync::Arc;

/// What the words for kinds of filters begin with.
pub(super) const PREFIX: &str = "edge.filters.http.";

/// The kind that a filter's name in an EdgeProxy is about, as a word.
pub(super) fn word(name: &str) -> &str {
    match name.strip_prefix(PREFIX).unwrap_or(name) {
        // Two spellings of one filter.
        "basic_authn" => "basic_auth",
        word => word,
    }
}

/// Whether a name is that of a filter that can move, or that others move beside. The router is always the last.
pub(super) fn is_known(name: &str) -> bool {
    FilterKind::ALL.iter().any(|kind| kind.word() == word(name))
}

/// Where filters of a kind go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilterMove {
    name: Text,
    side: Side,
    other: Text,
}

/// On which side of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// What an EdgeProxy says, in the order in which it applies. A move with no other, or two, was refused before.
pub(crate) fn moves(proxy: &EdgeProxy) -> Arc<[FilterMove]> {
    let word = |name: &str| Text::from(word(name));
    let moves = proxy.spec.filter_order.iter().filter_map(|position| {
        let (side, other) = match (&position.before, &position.after) {
            (Some(other), None) => (Side::Before, other),
            (None, Some(other)) => (Side::After, other),
            _ => return None,
        };
        Some(FilterMove {
            name: word(&position.name),
            side,
            other: word(other),
        })
    });
    moves.collect()
}

/// Moves all instances of a kind right beside all instances of another; where the other isn't there, nothing moves.
pub(crate) fn apply(moves: &[FilterMove], filters: Vec<FilterInstance>) -> Vec<FilterInstance> {
    moves.iter().fold(filters, |filters, step| {
        let is = |filter: &FilterInstance, word: &str| filter.id.kind.word() == word;
        if step.name == step.other || !filters.iter().any(|filter| is(filter, &step.other)) {
            return filters;
        }
        let (moved, mut rest): (Vec<_>, Vec<_>) = filters.into_iter().partition(|filter| is(filter, &step.name));
        let place = match step.side {
            Side::Before => rest.iter().position(|filter| is(filter, &step.other)),
            Side::After => rest.iter().rposition(|filter| is(filter, &step.other)).map(|at| at + 1),
        };
        let place = place.unwrap_or(rest.len());
        rest.splice(place..place, moved);
        rest
    })
}
