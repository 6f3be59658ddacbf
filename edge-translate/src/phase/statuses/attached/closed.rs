//! Listeners that a policy of a whole Gateway or ListenerSet closes: it asks for what only requests have, and nobody
//! reads requests there.

use super::{Subject, Target};
use crate::{
    api::{Kind, Protocol},
    name::Ancestor,
    phase::{
        gateways::gateway::transport,
        policies::{extension, security},
    },
    status::Condition,
};
use std::sync::Arc;

impl Subject<'_, '_> {
    /// The names of such listeners under an ancestor. Where a policy is for nothing else, it isn't accepted.
    pub(super) fn closed(&self, target: Target, ancestor: Ancestor) -> Vec<Arc<str>> {
        let asks_of_requests = matches!(self.policy.kind, Kind::SecurityPolicy | Kind::EdgeExtensionPolicy);
        if !asks_of_requests || target.route().is_some() || target.section.is_some() {
            return Vec::new();
        }
        let listeners = self.listeners_of(target, ancestor).into_iter();
        let closed = listeners.filter(|view| self.closes(&view.protocol));
        let mut names: Vec<Arc<str>> = closed.map(|view| self.reader.text(view.id.name)).collect();
        names.sort_unstable();
        names
    }

    fn closes(&self, protocol: &Protocol) -> bool {
        if !matches!(protocol, Protocol::Tcp | Protocol::Tls | Protocol::Udp) {
            return false;
        }
        match self.policy.kind {
            Kind::SecurityPolicy => security::closes_streams(self.reader, self.policy.id, transport(protocol)),
            Kind::EdgeExtensionPolicy => extension::fault_of_streams(self.reader, self.policy.id).is_some(),
            _ => false,
        }
    }
}

/// The condition that tells of them; none where there are none.
pub(super) fn warning(names: &[Arc<str>]) -> Option<Condition> {
    let message = || {
        format!(
            "nothing passes listeners [{}]: the policy asks for what only requests have, and nobody reads any there",
            names.join(" ")
        )
    };
    (!names.is_empty()).then(|| Condition::yes("Warning", "UnsupportedProtocol", message()))
}
