//! What is done with requests whose backends can't be resolved: they are answered, as Gateway API has it for
//! `backendRefs` of each kind of route (v1.7.0).

use super::Due;
use crate::name::RouteKind;
use edge_ir::{Destination, DirectResponse, Forward, ForwardedHost, RouteAction, Seldom, Shares, Unresolved};
use std::sync::Arc;

/// How requests of a route are answered.
pub(super) fn of(kind: RouteKind) -> Unresolved {
    match kind {
        RouteKind::Grpc => Unresolved::Unavailable,
        RouteKind::Http | RouteKind::Tls | RouteKind::Tcp | RouteKind::Udp => Unresolved::Error,
    }
}

/// The answer.
pub(super) fn answered(unresolved: Unresolved) -> RouteAction {
    RouteAction::Respond(DirectResponse {
        status: unresolved.status(),
        body: None,
    })
}

/// What is done with the part of a rule that has nowhere to go: it is answered. Where the rule is for tunnels alone, so
/// is this part of it.
pub(super) fn nowhere(due: &Due<'_>, unresolved: Unresolved) -> RouteAction {
    let traffic = due.traffic.route.as_ref();
    let Some(traffic) = traffic.filter(|traffic| traffic.is_for_tunnels_alone()) else {
        return answered(unresolved);
    };
    RouteAction::Forward(Forward {
        destination: Destination::Weighted(Box::new(Shares {
            shares: Vec::new(),
            invalid_weight: 1,
            unresolved,
        })),
        timeout: None,
        retry: None,
        path_rewrite: None,
        host_rewrite: None,
        forwarded_host: ForwardedHost::default(),
        mirrors: Seldom::default(),
        traffic: Some(Arc::clone(traffic)),
    })
}
