//! The order of filters on chains, as an EdgeProxy changes it.

use crate::api::{EdgeProxy, Text};
use edge_ir::{FilterInstance, FilterKind};
use std::sync::Arc;

/// What the words for kinds of filters begin with.
pub(crate) const PREFIX: &str = "edge.filters.http.";

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
    moved(moves, filters, |filter| filter.id.kind)
}

fn moved<T>(moves: &[FilterMove], filters: Vec<T>, kind: impl Fn(&T) -> FilterKind) -> Vec<T> {
    moves.iter().fold(filters, |filters, step| {
        let is = |filter: &T, word: &str| kind(filter).word() == word;
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

/// Filters whose findings the rules of authorization read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadTooEarly {
    /// What tokens say may not be known yet.
    pub(crate) tokens: bool,
    /// Where a client is may not be known yet.
    pub(crate) places: bool,
}

impl ReadTooEarly {
    /// What rules may read before it is known, by where an order puts them.
    pub(crate) fn by(moves: &[FilterMove]) -> Self {
        Self {
            tokens: may_precede(moves, FilterKind::Rbac, FilterKind::JwtAuthn),
            places: may_precede(moves, FilterKind::Rbac, FilterKind::Geoip),
        }
    }
}

/// As many kinds beside two as their order is gone through with and without each.
const MOST_BESIDE: usize = 10;

/// Whether a filter that usually stands behind another may come to stand before it on a chain that has both, whatever
/// it has besides: a move counts only where the filter is that it names.
fn may_precede(moves: &[FilterMove], one: FilterKind, other: FilterKind) -> bool {
    let kinds = deciding(moves, one, other);
    let beside: Vec<FilterKind> = kinds
        .iter()
        .copied()
        .filter(|kind| ![one, other].contains(kind))
        .collect();
    if beside.len() > MOST_BESIDE {
        return might_precede(moves, one, other);
    }
    let chain = |present: u32| {
        let is_there = |kind: &FilterKind| {
            let place = beside.iter().position(|known| known == kind);
            place.is_none_or(|place| present & (1 << place) != 0)
        };
        moved(moves, kinds.iter().copied().filter(is_there).collect(), |kind| *kind)
    };
    (0..1 << beside.len()).any(|present| {
        let chain = chain(present);
        let place = |of: FilterKind| chain.iter().position(|kind| *kind == of);
        place(one) < place(other)
    })
}

/// The kinds that decide how two come to stand, and these two. Back from the last move: where one moves whose place
/// decides, it takes the place of the one that it goes beside. All other moves change nothing.
fn deciding(moves: &[FilterMove], one: FilterKind, other: FilterKind) -> Vec<FilterKind> {
    let mut words = vec![one.word(), other.word()];
    for step in moves.iter().rev() {
        if words.contains(&&*step.name) && !words.contains(&&*step.other) {
            words.push(&step.other);
        }
    }
    let kinds = FilterKind::ALL.iter().copied();
    kinds.filter(|kind| words.contains(&kind.word())).collect()
}

/// [`may_precede`] for more kinds than can be gone through: a move counts and doesn't, at once. So this says yes now
/// and then where no chain is so, and never the other way round.
fn might_precede(moves: &[FilterMove], one: FilterKind, other: FilterKind) -> bool {
    let n = FilterKind::ALL.len();
    let at = |word: &str| FilterKind::ALL.iter().position(|kind| kind.word() == word);
    // For each kind, whom it may stand before.
    let mut ahead: Vec<Vec<bool>> = (0..n).map(|a| (0..n).map(|b| a < b).collect()).collect();
    for step in moves.iter().filter(|step| step.name != step.other) {
        let (Some(name), Some(beside)) = (at(&step.name), at(&step.other)) else {
            continue;
        };
        let behind = ahead[beside].clone();
        for (own, its) in ahead[name].iter_mut().zip(behind) {
            *own |= its;
        }
        for row in &mut ahead {
            row[name] |= row[beside];
        }
        ahead[name][beside] = step.side == Side::Before;
        ahead[beside][name] = step.side == Side::After;
    }
    let is_ahead = |one, other| Some(ahead[at(one)?][at(other)?]);
    is_ahead(one.word(), other.word()).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use FilterKind::{Cors, Csrf, Geoip, JwtAuthn, Rbac};

    fn step(name: FilterKind, side: Side, other: FilterKind) -> FilterMove {
        FilterMove {
            name: name.word().into(),
            side,
            other: other.word().into(),
        }
    }

    #[test]
    fn an_order_is_judged_by_all_chains_that_it_may_meet() {
        let tokens = |moves: &[FilterMove]| ReadTooEarly::by(moves).tokens;
        assert!(!tokens(&[]));
        assert!(tokens(&[step(Rbac, Side::Before, JwtAuthn)]));
        assert!(tokens(&[step(JwtAuthn, Side::After, Rbac)]));
        assert!(!tokens(&[step(Rbac, Side::Before, Geoip)]));
        // Where a chain has the one that it goes before.
        assert!(tokens(&[step(Rbac, Side::Before, Cors)]));
        assert!(tokens(&[step(Cors, Side::After, Csrf), step(Rbac, Side::Before, Cors)]));
        // Taken back, as far as there is something to go behind.
        assert!(!tokens(&[
            step(Rbac, Side::Before, Cors),
            step(Rbac, Side::After, JwtAuthn)
        ]));
        assert!(tokens(&[
            step(Rbac, Side::Before, JwtAuthn),
            step(Rbac, Side::After, Geoip)
        ]));
    }

    #[test]
    fn moves_of_others_decide_nothing() {
        let others = FilterKind::ALL.iter().filter(|kind| ![Rbac, JwtAuthn].contains(kind));
        let mut long: Vec<FilterMove> = others.map(|kind| step(*kind, Side::Before, Rbac)).collect();
        assert_eq!(deciding(&long, Rbac, JwtAuthn), [JwtAuthn, Rbac]);
        assert!(!ReadTooEarly::by(&long).tokens);
        // Where another stands counts when one moves beside it, and not afterwards.
        long = vec![
            step(Csrf, Side::Before, Cors),
            step(Rbac, Side::Before, Csrf),
            step(Csrf, Side::After, Geoip),
        ];
        assert_eq!(deciding(&long, Rbac, JwtAuthn), [Cors, Csrf, JwtAuthn, Rbac]);
        assert!(ReadTooEarly::by(&long).tokens);
    }

    /// Each filter goes after the one that it usually stands behind.
    fn as_usual() -> Vec<FilterMove> {
        let pairs = FilterKind::ALL.windows(2);
        pairs.map(|pair| step(pair[1], Side::After, pair[0])).collect()
    }

    #[test]
    fn an_order_of_very_many_kinds_is_judged_too() {
        let mut long = as_usual();
        assert!(deciding(&long, Rbac, JwtAuthn).len() > MOST_BESIDE + 2);
        assert_eq!(ReadTooEarly::by(&long), ReadTooEarly::default());
        long.insert(0, step(Rbac, Side::Before, JwtAuthn));
        assert!(ReadTooEarly::by(&long).tokens);
    }

    #[test]
    fn what_is_judged_at_once_is_never_less() {
        let kinds = [Cors, JwtAuthn, Geoip, Rbac];
        let mut steps = Vec::new();
        for name in kinds {
            let beside = kinds.iter().filter(|other| **other != name);
            steps.extend(beside.flat_map(|other| {
                let sides = [Side::Before, Side::After];
                sides.map(|side| step(name, side, *other))
            }));
        }
        for first in &steps {
            for second in &steps {
                for third in &steps {
                    let moves = [first.clone(), second.clone(), third.clone()];
                    let exactly = may_precede(&moves, Rbac, JwtAuthn);
                    assert!(!exactly || might_precede(&moves, Rbac, JwtAuthn), "{moves:?}");
                }
            }
        }
    }
}
