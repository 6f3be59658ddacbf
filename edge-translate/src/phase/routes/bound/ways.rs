//! The ways that requests of a rule go: nearly always one, to all of its backends by their weights.

use crate::phase::routes::rules::Rewrite;
use edge_ir::{BackendShare, Destination, Fraction, HostRewrite, Shares, Unresolved};
use smallvec::{SmallVec, smallvec};

/// What becomes of requests by parts of them, of which all but the last say how far they go
/// ([`edge_ir::Route::portion`]). Nearly all rules have one.
pub(super) type Parts<T> = SmallVec<[(Option<Fraction>, T); 1]>;

/// All requests in one way.
pub(super) fn whole<T>(all: T) -> Parts<T> {
    smallvec![(None, all)]
}

/// Where requests go, and how they are rewritten: in one way to all backends, unless they are rewritten for one of them
/// otherwise than for others, as a proxy knows it of routes alone. Then each has a part of the requests by its weight.
/// A proxy compares the same number of a request with the portion of each route, so that portions add up.
pub(super) fn ways(
    shares: SmallVec<[(BackendShare, Option<Box<Rewrite>>); 1]>,
    invalid_weight: u32,
    unresolved: Unresolved,
    rewrite: Rewrite,
) -> Parts<(Option<Destination>, Rewrite)> {
    if shares.iter().all(|(_, own)| own.is_none()) {
        let shares = shares.into_iter().map(|(share, _)| share).collect();
        return whole((destination(shares, invalid_weight, unresolved), rewrite));
    }
    let rewritten = shares.into_iter().map(|(share, own)| match own {
        Some(own) => (share, own.over(rewrite.clone())),
        None => (share, rewrite.clone()),
    });
    let (shares, mut rewrites): (SmallVec<[BackendShare; 1]>, Vec<Rewrite>) = rewritten.unzip();
    if rewrites.windows(2).all(|pair| pair[0] == pair[1]) {
        let all = rewrites.pop().unwrap_or(rewrite);
        return whole((destination(shares, invalid_weight, unresolved), all));
    }
    let weights = shares.iter().map(|share| share.weight).chain([invalid_weight]);
    let total: u64 = weights.map(u64::from).sum();
    let mut reached = 0;
    let mut parts: Parts<_> = SmallVec::new();
    for (mut share, mut rewrite) in shares.into_iter().zip(rewrites) {
        // A route can tell its backend which host was asked for, and a share of one can't.
        if let Some(host) = share.host_rewrite.take() {
            rewrite.host = Some(HostRewrite::Literal(host));
        }
        reached += u64::from(share.weight);
        let portion = u32::try_from(reached * 1_000_000 / total.max(1)).unwrap_or(1_000_000);
        parts.push((
            Some(Fraction(portion)),
            (destination(smallvec![share], 0, unresolved), rewrite),
        ));
    }
    match parts.last_mut() {
        Some((portion, _)) if invalid_weight == 0 => *portion = None,
        _ => parts.push((None, (None, rewrite))),
    }
    parts
}

/// None when nothing valid is left, or no weight.
fn destination(
    shares: SmallVec<[BackendShare; 1]>,
    invalid_weight: u32,
    unresolved: Unresolved,
) -> Option<Destination> {
    let plain = |s: &BackendShare| {
        s.request_headers.is_empty()
            && s.response_headers.is_empty()
            && s.host_rewrite.is_none()
            && s.filters.is_empty()
    };
    Some(match shares.as_slice() {
        [] => return None,
        [one] if invalid_weight == 0 && plain(one) => Destination::Cluster(one.cluster.clone()),
        _ => Destination::Weighted(Box::new(Shares {
            shares: shares.into_vec(),
            invalid_weight,
            unresolved,
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_ir::{HeaderEdits, RouteFilters};

    fn share(cluster: &str, weight: u32) -> BackendShare {
        BackendShare {
            cluster: cluster.into(),
            weight,
            request_headers: HeaderEdits::default(),
            response_headers: HeaderEdits::default(),
            host_rewrite: None,
            filters: RouteFilters::default(),
        }
    }

    #[test]
    fn portions_add_up_and_the_last_takes_the_rest() {
        let own = || {
            Some(Box::new(Rewrite {
                host: Some(HostRewrite::Endpoint),
                ..Rewrite::default()
            }))
        };
        let portions = |invalid_weight: u32| -> Vec<Option<u32>> {
            let shares = smallvec![(share("a", 1), own()), (share("b", 1), None), (share("c", 1), None)];
            let parts = ways(shares, invalid_weight, Unresolved::Error, Rewrite::default());
            parts
                .iter()
                .map(|(portion, _)| portion.map(|Fraction(parts)| parts))
                .collect()
        };
        assert_eq!(portions(0), [Some(333_333), Some(666_666), None]);
        assert_eq!(portions(1), [Some(250_000), Some(500_000), Some(750_000), None]);
    }

    #[test]
    fn who_is_rewritten_as_all_are_shares_one_route() {
        let shares = smallvec![(share("a", 1), None), (share("b", 3), None)];
        let parts = ways(shares, 0, Unresolved::Error, Rewrite::default());
        assert_eq!(parts.len(), 1);
        assert!(parts[0].0.is_none());

        let own = || Rewrite {
            host: Some(HostRewrite::Endpoint),
            ..Rewrite::default()
        };
        let shares = smallvec![(share("a", 1), Some(Box::new(own()))), (share("b", 3), None)];
        let parts = ways(shares, 2, Unresolved::Error, own());
        assert_eq!(parts.len(), 1);
        assert!(parts[0].0.is_none());
        assert!(parts[0].1.1 == own());
    }
}
