//! SecurityPolicies whose rules ask for what isn't known at a listener: where clients are, or what comes to be known
//! only later.

use super::{Ancestor, Condition, Subject, Target, gateway_of};
use crate::{
    api::{Kind, Protocol},
    name::{Id, ListenerId},
    phase::{listeners::view::ListenerView, policies::policy},
};

impl Subject<'_, '_> {
    /// Why the policy, merged into that of a listener where it merges, can't tell whom to let in at listeners under an
    /// ancestor; none where it can, or doesn't ask.
    pub(super) fn unplaced(&self, target: Target, ancestor: Ancestor) -> Option<Condition> {
        if self.policy.kind != Kind::SecurityPolicy {
            return None;
        }
        let merges = target.route().is_some() && policy::merges(self.reader, self.policy);
        let listeners = self.listeners_of(target, ancestor);
        listeners.into_iter().find_map(|view| {
            let parent = merges.then(|| view.inherited.policy(self.policy.kind)).flatten();
            self.unplaced_at(view, parent)
        })
    }

    /// The same for one listener, where the policy merges into that of a parent.
    pub(super) fn unplaced_at(&self, view: &ListenerView, parent: Option<Id>) -> Option<Condition> {
        let is_of_requests = matches!(view.protocol, Protocol::Http | Protocol::Https);
        if self.policy.kind != Kind::SecurityPolicy || !is_of_requests {
            return None;
        }
        let fault = view.inherited.fault_of_rules(self.reader, self.policy.id, parent)?;
        Some(Condition::no("Accepted", "Invalid", fault.to_string()))
    }

    /// The listeners under an ancestor that a target is about: those that a route is attached to, or those that have
    /// the policy.
    pub(super) fn listeners_of(&self, target: Target, ancestor: Ancestor) -> Vec<&'_ ListenerView> {
        let Some(views) = gateway_of(self.reader, ancestor).and_then(|gateway| self.reader.listener_views(gateway))
        else {
            return Vec::new();
        };
        let attached: Vec<ListenerId> = target
            .route()
            .and_then(|route| self.reader.attachments(route))
            .into_iter()
            .flat_map(|attachments| &attachments.parents)
            .filter(|parent| parent.ancestor() == ancestor)
            .flat_map(|parent| parent.verdict.iter().flatten())
            .map(|attached| attached.listener)
            .collect();
        let is_meant = |view: &&ListenerView| match target.kind {
            _ if target.route().is_some() => attached.contains(&view.id),
            Kind::ListenerSet => view.id.set == Some(target.id) && self.is_section(target, view),
            _ => self.is_section(target, view),
        };
        views.listeners.iter().filter(is_meant).collect()
    }

    /// Whether the policy is that of a listener, by this target.
    fn is_section(&self, target: Target, view: &ListenerView) -> bool {
        let is_own = view.inherited.policy(self.policy.kind) == Some(self.policy.id);
        is_own && target.section.is_none_or(|section| view.id.name == section)
    }
}
