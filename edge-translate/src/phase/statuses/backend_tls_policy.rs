//! BackendTLSPolicy, under each parent whose routes lead to what it covers, and each policy that asks it.

use super::{ancestor, attached};
use crate::{
    api::{BackendTlsPolicy, Kind, PolicyTargetRef},
    engine::reader::Reader,
    name::{Ancestor, BackendPort, Id, PolicyId},
    phase::{
        backends::{
            backend_tls::{self, Authorities, BackendTls, Holder},
            endpoints,
        },
        listeners::listener_set,
        precedence::Seniority,
    },
    status::{Condition, ParentStatus, Status, sentence},
};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// The status of a policy; nothing to say while no route of ours leads to what it covers.
pub(super) fn status(reader: &Reader<'_>, id: Id) -> Option<Option<Status>> {
    let policy = &**reader.backend_tls_policy(id)?;
    // Each ancestor, with the elder policy that it finds in force instead.
    let mut ancestors: BTreeMap<Ancestor, Option<String>> = BTreeMap::new();
    let mut refusals = BTreeSet::new();
    for target in &policy.spec.target_refs {
        let rival = rival(reader, id, policy, target);
        for port in ports_of(reader, policy, target) {
            if let Some(BackendTls::Refused(message)) = reader.backend_tls(port).filter(|_| rival.is_none()) {
                refusals.insert(message.as_str());
            }
            for ancestor in reader.ancestors(port).filter(|ancestor| is_ours(reader, ancestor)) {
                let ancestor = gateway_of(reader, ancestor);
                let known = ancestors.entry(ancestor).or_default();
                *known = known.take().or_else(|| rival.clone());
            }
        }
    }
    if ancestors.is_empty() {
        return Some(without_target(reader, policy));
    }
    let found = backend_tls::authorities(reader, &Holder::of_policy(policy));
    let resolved = resolved_refs(&found);
    let entry = |(ancestor, rival): (Ancestor, Option<String>)| ParentStatus {
        parent: reader.parent_reference(ancestor),
        conditions: vec![accepted(rival, &found, &refusals), resolved.clone()],
    };
    let ancestors = ancestors.into_iter().map(entry);
    Some(Some(ancestor::told(reader, policy.metadata.generation, ancestors)))
}

/// Ancestors are Gateways: of what comes by a ListenerSet, the one that it hangs under.
fn gateway_of(reader: &Reader<'_>, ancestor: Ancestor) -> Ancestor {
    let set = match ancestor.kind {
        Kind::ListenerSet => reader.listener_set(ancestor.id),
        _ => None,
    };
    let gateway = set.and_then(|set| listener_set::parent(reader, set));
    gateway.map_or(ancestor, |gateway| Ancestor::object(Kind::Gateway, gateway))
}

/// Whether what leads to a backend is in force: routes are counted where they attach, policies wherever they are.
fn is_ours(reader: &Reader<'_>, ancestor: &Ancestor) -> bool {
    let policy = PolicyId {
        kind: ancestor.kind,
        id: ancestor.id,
    };
    let has_targets = matches!(policy.kind, Kind::SecurityPolicy | Kind::EdgeExtensionPolicy);
    !has_targets || attached::is_attached(reader, policy)
}

/// A policy whose targets don't exist protects nothing, and has no ancestor to say so under.
fn without_target(reader: &Reader<'_>, policy: &BackendTlsPolicy) -> Option<Status> {
    let reasons = policy.spec.target_refs.iter().enumerate().filter_map(|(i, target)| {
        let problem = target_problem(reader, policy, target)?;
        Some(format!("spec.targetRefs[{i}]: {problem}"))
    });
    ancestor::for_nobody(policy.metadata.generation, reasons.collect())
}

fn target_problem(reader: &Reader<'_>, policy: &BackendTlsPolicy, target: &PolicyTargetRef) -> Option<String> {
    let (kind, namespace, name) = (&target.kind, &policy.metadata.namespace, &target.name);
    let Some(backend) = backend_tls::target_of(reader, policy, target) else {
        return Some(format!("kind {kind} can't be a backend"));
    };
    let object = backend.kind.kind().and_then(|kind| reader.object(kind, backend.id));
    if object.is_none() {
        return Some(format!("there is no {kind} {namespace}/{name}"));
    }
    let section = target.section_name.as_deref()?;
    ports_of(reader, policy, target)
        .is_empty()
        .then(|| format!("No section name {section} found for {kind} {namespace}/{name}"))
}

fn ports_of(reader: &Reader<'_>, policy: &BackendTlsPolicy, target: &PolicyTargetRef) -> SmallVec<[BackendPort; 2]> {
    let Some(backend) = backend_tls::target_of(reader, policy, target) else {
        return SmallVec::new();
    };
    let mut ports = reader.backend_ports(backend);
    ports.retain(|port| backend_tls::covers(backend.kind, target, endpoints::port_name(reader, *port)));
    ports
}

/// The elder policy on the same target and section.
fn rival(reader: &Reader<'_>, id: Id, policy: &BackendTlsPolicy, target: &PolicyTargetRef) -> Option<String> {
    let backend = backend_tls::target_of(reader, policy, target)?;
    let own = Seniority::of(&policy.metadata);
    let others = reader.tls_policies(backend).filter(|other| *other != id);
    let elder = others
        .filter_map(|other| reader.backend_tls_policy(other))
        .filter(|other| {
            other.spec.target_refs.iter().any(|t| {
                backend_tls::target_of(reader, other, t) == Some(backend) && t.section_name == target.section_name
            })
        })
        .map(|other| Seniority::of(&other.metadata))
        .min()
        .filter(|other| *other < own)?;
    Some(format!(
        "Policy conflicts with BackendTLSPolicy {}/{}.",
        elder.namespace, elder.name
    ))
}

fn accepted(rival: Option<String>, found: &Authorities, refusals: &BTreeSet<&str>) -> Condition {
    if let Some(message) = rival {
        return Condition::no("Accepted", "Conflicted", message);
    }
    if found.authorities.is_none() {
        return Condition::no("Accepted", "NoValidCACertificate", messages(found));
    }
    if !refusals.is_empty() {
        return Condition::no("Accepted", "Invalid", sentences(refusals.iter().copied()));
    }
    Condition::yes("Accepted", "Accepted", "Policy has been accepted.")
}

fn resolved_refs(found: &Authorities) -> Condition {
    if found.problems.is_empty() {
        return Condition::yes("ResolvedRefs", "ResolvedRefs", "Resolved all the Object references.");
    }
    let reasons: BTreeSet<&str> = found.problems.iter().map(|p| p.reason).collect();
    let reasons: Vec<&str> = reasons.into_iter().collect();
    Condition::no("ResolvedRefs", reasons.join(","), messages(found))
}

fn messages(found: &Authorities) -> String {
    sentences(found.problems.iter().map(|p| p.message.as_str()))
}

fn sentences<'a>(messages: impl Iterator<Item = &'a str>) -> String {
    messages.map(sentence).collect::<Vec<_>>().join(" ")
}
