//! Policies in force, under each Gateway and ListenerSet that their targets hang under: whether one is accepted there,
//! who replaces it or is merged with it, and what of it is old.
//!
//! The same for every kind: what is for whom is asked of `policies/attachment`, what is above or below of the index of
//! policies on routes, so that the policy of a Gateway with ten thousand routes looks at those alone that have their
//! own.

use super::{
    ancestor,
    target::{Target, ancestors_of, has_section, targets},
    warning,
};
use crate::{
    api::{self, Kind, Object},
    engine::reader::Reader,
    name::{Ancestor, Id, PolicyId, RouteId},
    phase::{
        gateways::gateway::Gateway,
        listeners::{
            fleet::{GatewayListeners, ListenerState},
            listener_set,
        },
        policies::{
            attachment::{self, PolicyHolders, may_target},
            extension,
            policy::{self, Standing},
            security,
        },
    },
    status::{Condition, ParentStatus, Status},
    world,
};
use smallvec::SmallVec;
use std::{borrow::Cow, sync::Arc};

mod chosen;
mod closed;
mod deprecated;
mod ineffective;
mod of_clients;
mod overridden;
mod unplaced;

/// What is said under an ancestor; the first word about acceptance that isn't good stays.
#[derive(Default)]
struct Said {
    accepted: Option<Condition>,
    overridden: Option<Condition>,
    merged: Option<Condition>,
    /// That it is closed until something is there; the first word about it stays.
    programmed: Option<Condition>,
    /// Fields without an effect on what is under it, a sentence each.
    idle: Vec<String>,
    /// Listeners that would speak HTTP/3 and don't, a sentence each.
    without_http3: Vec<String>,
    /// Listeners that nobody reads requests at and that are closed for that, sorted.
    closed: Vec<Arc<str>>,
}

/// A policy whose status is made.
struct Subject<'a, 'r> {
    reader: &'r Reader<'a>,
    policy: PolicyId,
    /// Each once; nearly every policy has one.
    ancestors: SmallVec<[(Ancestor, Said); 1]>,
}

/// The status of a policy; nothing to say while none of its targets hangs under a Gateway of ours.
pub(super) fn status(reader: &Reader<'_>, kind: Kind, id: Id) -> Option<Option<Status>> {
    let object = reader.object(kind, id)?;
    let policy = PolicyId { kind, id };
    let mut subject = Subject {
        reader,
        policy,
        ancestors: SmallVec::new(),
    };
    for target in targets(reader, policy, |target| may_target(kind, target)) {
        subject.judge(target);
    }
    let observed_generation = object.metadata().generation;
    if subject.ancestors.is_empty() {
        let reasons = without_target(reader, policy, object, |target| may_target(kind, target));
        return Some(ancestor::for_nobody(observed_generation, reasons));
    }
    let unknown = warning_of("UnknownTarget", &unknown_targets(object));
    let faults = warning_of("InvalidSelector", &selector_faults(object));
    let warning = warning::all([
        deprecated::warning(object),
        ineffective::warning(object),
        in_clear(reader, object),
        unknown,
        faults,
    ]);
    let entry = |(ancestor, said): (Ancestor, Said)| {
        let warning = warned(warning.clone(), &said);
        let others = [said.overridden, said.merged, said.programmed, warning];
        let mut conditions = Vec::with_capacity(1 + others.iter().flatten().count());
        conditions.extend(said.accepted);
        for other in others.into_iter().flatten() {
            conditions.push(other);
        }
        ParentStatus {
            parent: reader.parent_reference(ancestor),
            conditions,
        }
    };
    let ancestors = subject.ancestors.into_iter().map(entry);
    Some(Some(ancestor::told(reader, observed_generation, ancestors)))
}

/// The condition that tells of what a policy asks in clear text, other than it looks.
fn in_clear(reader: &Reader<'_>, object: &Object) -> Option<Condition> {
    match object {
        Object::SecurityPolicy(policy) => warning_of("ClearText", &security::asked_in_clear(reader, policy)),
        _ => None,
    }
}

/// One condition for all that is warned of.
fn warned(of_fields: Option<Condition>, said: &Said) -> Option<Condition> {
    let idle = warning_of("UnsupportedField", &said.idle);
    let http3 = warning_of("UnsupportedHTTP3ClientValidation", &said.without_http3);
    warning::all([of_fields, idle, http3, closed::warning(&said.closed)])
}

/// The condition that warns of something, a sentence each; none where there is none.
fn warning_of(reason: &'static str, sentences: &[String]) -> Option<Condition> {
    (!sentences.is_empty()).then(|| Condition::yes("Warning", reason, sentences.join("; ")))
}

/// Whether a policy with targets has one that hangs under a Gateway of ours; nothing asks the backends of another. What
/// it chooses by labels is known to its own unit alone: that counts as attached.
pub(super) fn is_attached(reader: &Reader<'_>, policy: PolicyId) -> bool {
    let Some(written) = reader.object(policy.kind, policy.id).and_then(world::written) else {
        return false;
    };
    let hangs = |kind: Kind, name: &str| {
        let target = Target {
            kind,
            id: Id {
                name: reader.sym(name),
                ..policy.id
            },
            section: None,
        };
        may_target(policy.kind, kind) && !ancestors_of(reader, target).is_empty()
    };
    written.chooses()
        || written
            .named()
            .into_iter()
            .any(|target| hangs(target.kind, target.name))
}

/// What keeps selectors of a policy from choosing anything, a sentence each.
fn selector_faults(object: &Object) -> Vec<String> {
    world::written(object)
        .map(|written| written.faults())
        .unwrap_or_default()
}

/// What a policy names and isn't for, since nobody knows what it is, a sentence each.
fn unknown_targets(object: &Object) -> Vec<String> {
    let unknown = world::written(object)
        .map(|written| written.unknown())
        .unwrap_or_default();
    let told = |place| format!("{place}: this is no target that is known: name it with group, kind and name");
    unknown.into_iter().map(told).collect()
}

/// Why a policy is for nothing.
pub(super) fn without_target(
    reader: &Reader<'_>,
    PolicyId { kind, id }: PolicyId,
    object: &Object,
    may_target: impl Fn(Kind) -> bool,
) -> Vec<String> {
    let namespace = reader.text(id.namespace);
    let written = world::written(object);
    let targets = written.map(|written| written.named()).unwrap_or_default();
    let faults = selector_faults(object);
    if targets.is_empty() && faults.is_empty() && !written.is_some_and(|written| written.chooses()) {
        let reason =
            "spec.targetRefs: no target is named that is known: list each with group, kind and name".to_owned();
        return vec![reason];
    }
    let in_vain = match written.is_some_and(|written| written.chooses()) {
        true => chosen::in_vain(reader, PolicyId { kind, id }, &may_target),
        false => Vec::new(),
    };
    let reasons = targets.into_iter().filter_map(|target| {
        if !may_target(target.kind) {
            return Some(format!("spec.targetRefs: a {kind} can't be for a {}", target.kind));
        }
        let of = Id {
            name: reader.sym(target.name),
            ..id
        };
        let is_missing = reader.object(target.kind, of).is_none();
        is_missing.then(|| {
            format!(
                "spec.targetRefs: there is no {} {namespace}/{}",
                target.kind, target.name
            )
        })
    });
    reasons
        .chain(unknown_targets(object))
        .chain(faults)
        .chain(in_vain)
        .collect()
}

/// That a target hasn't the part that a policy names.
pub(super) fn missing_section(reader: &Reader<'_>, target: Target) -> Option<Condition> {
    let section = target
        .section
        .filter(|section| !has_section(reader, target, *section))?;
    let section = reader.text(section);
    let (namespace, name) = (reader.text(target.id.namespace), reader.text(target.id.name));
    let message = match target.kind {
        Kind::ListenerSet => format!("ListenerSet {namespace}/{name} does not have a listener named \"{section}\""),
        kind => format!("No section name {section} found for {kind} {namespace}/{name}"),
    };
    Some(Condition::no("Accepted", "TargetNotFound", message))
}

impl Subject<'_, '_> {
    fn said(&mut self, ancestor: Ancestor) -> &mut Said {
        let known = self.ancestors.iter().position(|(known, _)| *known == ancestor);
        let place = known.unwrap_or_else(|| {
            self.ancestors.push((ancestor, Said::default()));
            self.ancestors.len() - 1
        });
        &mut self.ancestors[place].1
    }

    fn accept(&mut self, ancestor: Ancestor, accepted: Condition) {
        let said = self.said(ancestor);
        let is_good = |known: &Condition| known.reason == "Accepted";
        if said.accepted.as_ref().is_none_or(is_good) {
            said.accepted = Some(accepted);
        }
    }

    /// What is to be said about one target.
    fn judge(&mut self, target: Target) {
        let ancestors = ancestors_of(self.reader, target);
        if ancestors.is_empty() {
            return;
        }
        let refusal = missing_section(self.reader, target).or_else(|| self.conflict(target));
        if let Some(refusal) = refusal {
            ancestors
                .into_iter()
                .for_each(|ancestor| self.accept(ancestor, refusal.clone()));
            return;
        }
        let unfit = self.unfit(target).or_else(|| self.out_of_force(target));
        let overridden = overridden::condition(self.reader, self.policy, target);
        let idle = [
            ineffective::over(self.reader, self.policy, target),
            self.idle_for_clients(target),
        ]
        .concat();
        let without_http3 = self.without_http3(target);
        for ancestor in ancestors {
            let standing = self.standing_for(target, ancestor);
            let accepted = standing
                .fault
                .map(invalid)
                .or_else(|| unfit.clone())
                .or_else(|| self.unplaced(target, ancestor))
                .unwrap_or_else(|| Condition::yes("Accepted", "Accepted", "Policy has been accepted."));
            self.accept(ancestor, accepted);
            self.awaits(ancestor, standing.awaited);
            self.said(ancestor).idle.extend_from_slice(&idle);
            self.said(ancestor).without_http3.extend_from_slice(&without_http3);
            let closed = self.closed(target, ancestor);
            self.said(ancestor).closed.extend(closed);
            if let Some(overridden) = &overridden {
                self.said(ancestor).overridden = Some(overridden.clone());
            }
        }
        match target.route() {
            Some(route) => self.under_parents(route),
            None => self.over_routes(target),
        }
    }

    /// Whether an older policy holds the target.
    fn conflict(&self, target: Target) -> Option<Condition> {
        let holder = held(self.reader, target).of(self.policy.kind, target.section);
        if holder == Some(self.policy.id) {
            return None;
        }
        let name = self.reader.text(target.id.name);
        let section = target.section.map(|section| self.reader.text(section));
        let what = match (section, target.route()) {
            (None, _) => format!("{} {name}", target.kind),
            (Some(rule), Some(_)) => format!("RouteRule {name}/{rule}"),
            (Some(_), None) if self.policy.kind == Kind::ClientTrafficPolicy && target.kind == Kind::Gateway => {
                format!("section of {name}")
            }
            (Some(listener), None) => format!("Listener {name}/{listener}"),
        };
        let message = format!(
            "Unable to target {what}, another {} has already attached to it",
            self.policy.kind
        );
        Some(Condition::no("Accepted", "Conflicted", message))
    }

    /// How the policy, merged into that of a parent if there is one, stands under a Gateway.
    fn standing(&self, parent: Option<Id>, gateway: Id) -> Standing {
        policy::standing(self.reader, self.policy, parent, gateway)
    }

    /// How the policy stands for a target under an ancestor: by itself, unless every listener there has a policy that
    /// it merges into, and both together are in force. What it says alone is used nowhere then.
    fn standing_for(&self, target: Target, ancestor: Ancestor) -> Standing {
        let Some(gateway) = gateway_of(self.reader, ancestor) else {
            return Standing::default();
        };
        let alone = self.standing(None, gateway);
        match alone.is_in_force() || !self.is_whole_by_merging(target, ancestor, gateway) {
            true => alone,
            false => Standing::default(),
        }
    }

    /// Whether the policy of a route is in force at all listeners that it has under an ancestor, merged into theirs.
    fn is_whole_by_merging(&self, target: Target, ancestor: Ancestor, gateway: Id) -> bool {
        if target.route().is_none() || !policy::merges(self.reader, self.policy) {
            return false;
        }
        let listeners = self.listeners_of(target, ancestor);
        let mut above: Vec<Option<Id>> = listeners
            .into_iter()
            .map(|view| view.inherited.policy(self.policy.kind))
            .collect();
        above.sort_unstable();
        above.dedup();
        let is_in_force = |above: &Option<Id>| above.is_some() && self.standing(*above, gateway).is_in_force();
        !above.is_empty() && above.iter().all(is_in_force)
    }

    /// Says what the policy waits for, if it does.
    fn awaits(&mut self, ancestor: Ancestor, awaited: Option<Arc<str>>) {
        let Some(what) = awaited else { return };
        let pending = Condition::no("Programmed", "Pending", what.to_string());
        self.said(ancestor).programmed.get_or_insert(pending);
    }

    /// Why the policy can't be honoured for a target that is about connections.
    fn unfit(&self, target: Target) -> Option<Condition> {
        let is_of_streams = || target.route().is_some_and(|route| !route.kind.is_by_host());
        let transport = target.streams(self.reader);
        let fault = match self.policy.kind {
            Kind::SecurityPolicy => security::fault_of_streams(self.reader, self.policy.id, transport?),
            Kind::EdgeExtensionPolicy if transport.is_some() || is_of_streams() => {
                extension::fault_of_streams(self.reader, self.policy.id)
            }
            _ => None,
        }?;
        Some(Condition::no("Accepted", "Invalid", fault.to_string()))
    }

    /// Why listeners of a target can't have what the policy says.
    fn out_of_force(&self, target: Target) -> Option<Condition> {
        let governed = self.governed(target)?;
        let why = governed.iter().filter_map(|(listener, _)| listener.governed.as_ref());
        let mut messages: Vec<&str> = why
            .filter_map(|governed| governed.verdict.as_ref().err())
            .map(|why| &**why)
            .collect();
        messages.dedup();
        (!messages.is_empty()).then(|| Condition::no("Accepted", "Invalid", messages.join("\n")))
    }

    /// Listeners of a target that can't have the HTTP/3 that the policy asks for.
    fn without_http3(&self, target: Target) -> Vec<String> {
        let governed = self.governed(target).unwrap_or_default();
        let listeners = governed.iter().map(|(listener, _)| listener);
        let without = listeners.filter(|listener| listener.withholds_http3());
        let sentence = |listener: &&ListenerState| {
            format!(
                "HTTP/3 was disabled for listener \"{}\" because the proxy does not support downstream client TLS \
                 validation over QUIC",
                listener.full_name
            )
        };
        without.map(sentence).collect()
    }

    /// Fields of a policy for clients that no listener of a target can have, a sentence each.
    fn idle_for_clients(&self, target: Target) -> Vec<String> {
        let governed = self.governed(target).unwrap_or_default();
        let Some(Object::ClientTrafficPolicy(object)) = self.reader.object(self.policy.kind, self.policy.id) else {
            return Vec::new();
        };
        if governed.is_empty() {
            return Vec::new();
        }
        let listeners: Vec<&api::Listener> = governed.iter().map(|(_, spec)| *spec).collect();
        let idle = of_clients::idle(&object.spec, &listeners).into_iter();
        idle.map(|(field, why)| ineffective::without_effect(self.reader, &field, target, why))
            .collect()
    }

    /// The listeners of a target whose policy for clients this one is; none for other kinds.
    fn governed(&self, target: Target) -> Option<Vec<(&'_ ListenerState, &'_ api::Listener)>> {
        let gateway = match target.kind {
            _ if self.policy.kind != Kind::ClientTrafficPolicy => return None,
            Kind::ListenerSet => listener_set::parent(self.reader, self.reader.listener_set(target.id)?)?,
            _ => target.id,
        };
        let Gateway::Member(member) = &**self.reader.gateway(gateway)? else {
            return None;
        };
        let gateways = &self.reader.listeners(member.fleet)?.gateways;
        let listeners = gateways.iter().flat_map(GatewayListeners::all);
        let meant = listeners.filter(|(listener, _)| {
            let is_in = match target.kind {
                Kind::ListenerSet => listener.id.set == Some(target.id),
                _ => listener.id.gateway == gateway,
            };
            is_in && target.section.is_none_or(|section| listener.id.name == section)
        });
        let is_own = |(listener, _): &(&ListenerState, _)| {
            let governed = listener.governed.as_ref();
            governed.is_some_and(|governed| governed.policy == self.policy.id)
        };
        Some(meant.filter(is_own).collect())
    }

    /// For each listener of a route with a policy that this one merges into: with whom, and what comes of it.
    fn under_parents(&mut self, route: RouteId) {
        let Some(attachments) = policy::merges(self.reader, self.policy)
            .then(|| self.reader.attachments(route))
            .flatten()
        else {
            return;
        };
        for parent in &attachments.parents {
            for attached in parent.verdict.iter().flatten() {
                let listener = attached.listener;
                let views = self.reader.listener_views(listener.gateway);
                let view = views.and_then(|views| views.listeners.iter().find(|view| view.id == listener));
                let above = view.and_then(|view| Some((view, view.inherited.policy(self.policy.kind)?)));
                let Some((view, above)) = above else {
                    continue;
                };
                let (kind, id) = listener.holder();
                let ancestor = Ancestor {
                    section: Some(listener.name),
                    ..Ancestor::object(kind, id)
                };
                let standing = self.standing(Some(above), listener.gateway);
                let fault = standing.fault.map(invalid);
                if let Some(refusal) = fault.or_else(|| self.unplaced_at(view, Some(above))) {
                    self.accept(ancestor, refusal);
                }
                self.awaits(ancestor, standing.awaited);
                let message = format!("Merged with policy {}", self.name_of(above));
                self.said(ancestor).merged = Some(Condition::yes("Merged", "Merged", message));
            }
        }
    }

    /// For a policy over routes: which of them merge theirs into it.
    fn over_routes(&mut self, target: Target) {
        let merging = overridden::merging(self.reader, self.policy, target);
        if merging.is_empty() {
            return;
        }
        let message = format!(
            "This policy is being merged by other {} for these routes: [{}]",
            overridden::plural(self.policy.kind),
            merging.join(" ")
        );
        for ancestor in ancestors_of(self.reader, target) {
            self.said(ancestor).merged = Some(Condition::yes("Merged", "Merged", message.clone()));
        }
    }

    fn name_of(&self, id: Id) -> String {
        format!("{}/{}", self.reader.text(id.namespace), self.reader.text(id.name))
    }
}

/// The Gateway that an ancestor is, or stands in.
fn gateway_of(reader: &Reader<'_>, ancestor: Ancestor) -> Option<Id> {
    match ancestor.kind {
        Kind::ListenerSet => listener_set::parent(reader, reader.listener_set(ancestor.id)?),
        _ => Some(ancestor.id),
    }
}

/// That a policy is invalid.
fn invalid(fault: Arc<str>) -> Condition {
    Condition::no("Accepted", "Invalid", fault.to_string())
}

/// Who holds a target. What a route says of itself stands with its attachments.
fn held<'a>(reader: &Reader<'a>, target: Target) -> Cow<'a, PolicyHolders> {
    match target.route() {
        Some(route) => {
            let attachments = reader.attachments(route);
            let held = attachments.and_then(|a| a.held.as_deref());
            held.map_or_else(Cow::default, Cow::Borrowed)
        }
        None => Cow::Owned(attachment::held(reader, target.kind, target.id)),
    }
}
