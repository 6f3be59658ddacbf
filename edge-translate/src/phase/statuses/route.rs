//! Routes, under each parent that is ours.

use crate::{
    api::ParentReference,
    engine::reader::Reader,
    name::{BackendKind, BackendPort, Encryption, ListenerId, RouteId, RouteKind},
    phase::{
        backends::{
            backend_tls::BackendTls,
            defaults,
            endpoints::{Readiness, is_of_request},
        },
        routes::{
            attach::{self, Parent, Refusal},
            overlap::MAX_TOLD,
            rules::{Effect, RuleFinding, Summary, Use, every_rule_failed, failed_rules},
        },
    },
    status::{Condition, ParentStatus, Status, StatusBody, sentence},
};
use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

/// The status of a route.
pub(super) fn status(reader: &Reader<'_>, route: RouteId) -> Option<Option<Status>> {
    let attachments = reader.attachments(route)?;
    let lost: Vec<String> = attachments.lost.iter().map(|parent| no_parent(parent)).collect();
    if attachments.parents.is_empty() {
        let unattached = |reasons| Status {
            observed_generation: 0,
            body: StatusBody::Unattached(reasons),
        };
        return Some((!lost.is_empty()).then(|| unattached(lost)));
    }
    // A route without rules is one that our own code failed at.
    let rules = reader.bound(route).map(|bound| &bound.summary);
    let names = attach::bad_hostnames(reader, route);
    let warning = warning(&lost, rules, &names);
    let kind = route.kind.kind().as_str();
    let parents = attachments
        .parents
        .iter()
        .map(|parent| {
            // Nearly all routes have two.
            let mut conditions = Vec::with_capacity(2);
            if let Some(rules) = rules {
                conditions.push(accepted(parent, rules, kind));
                let encryption = encryption(reader, parent);
                let sealed = sealed(reader, parent, rules, encryption);
                let unnamed = unnamed(reader, route, parent, rules);
                conditions.push(resolved_refs(rules, encryption, [sealed, unnamed]));
                conditions.extend(partially_invalid(parent, rules));
                conditions.extend(backends_available(reader, rules));
            }
            conditions.extend(overlap(reader, route, parent));
            conditions.extend(warning.clone());
            ParentStatus {
                parent: Arc::clone(&parent.reference),
                conditions,
            }
        })
        .collect();
    let controller_name = reader.settings().controller_name.clone();
    let body = StatusBody::Parents {
        controller_name,
        parents,
    };
    Some(Some(Status {
        observed_generation: rules.map_or(0, |rules| rules.generation),
        body,
    }))
}

fn accepted(parent: &Parent, rules: &Summary, kind: &str) -> Condition {
    let no = |reason, message: &'static str| Condition::no("Accepted", reason, message);
    match &parent.verdict {
        Err(Refusal::NoMatchingParent) => no("NoMatchingParent", "No listeners match this parent ref"),
        Err(Refusal::NotAllowedByListeners) => no(
            "NotAllowedByListeners",
            "No listeners included by this parent ref allowed this attachment.",
        ),
        Err(Refusal::NoReadyListeners) => no("NoReadyListeners", "There are no ready listeners for this parent ref"),
        Err(Refusal::NoMatchingListenerHostname) => Condition::no(
            "Accepted",
            "NoMatchingListenerHostname",
            format!("There were no hostname intersections between the {kind} and this parent ref's Listener(s)."),
        ),
        Ok(_) if every_rule_failed(rules) => {
            let (reason, message) = joined(failures(rules));
            Condition::no("Accepted", reason, message)
        }
        Ok(_) => Condition::yes("Accepted", "Accepted", "Route is accepted"),
    }
}

/// Other routes on the parent's listeners that match the same requests. Not wrong, but rarely meant.
fn overlap(reader: &Reader<'_>, route: RouteId, parent: &Parent) -> Option<Condition> {
    let attached = parent.verdict.as_ref().ok()?;
    let here = |listener: ListenerId| attached.iter().any(|a| a.listener == listener);
    let others = reader.overlaps(route).filter(|(listener, _)| here(*listener));
    let name = |(_, other): (ListenerId, RouteId)| {
        let (namespace, name) = (reader.text(other.id.namespace), reader.text(other.id.name));
        format!("{} {namespace}/{name}", other.kind.kind().as_str())
    };
    let others: BTreeSet<String> = others.map(name).collect();
    let more = if others.len() > MAX_TOLD { " and others" } else { "" };
    let told: Vec<String> = others.into_iter().take(MAX_TOLD).collect();
    (!told.is_empty()).then(|| {
        let message = format!("Overlapping match conditions with route(s): {}{more}", told.join(", "));
        Condition::yes("RouteRulesOverlap", "RouteRulesOverlap", message)
    })
}

/// For a parentRef whose object nobody knows. A route says where it is relative to itself, or in full.
fn no_parent(parent: &ParentReference) -> String {
    let namespace = parent.namespace.as_deref().map(|n| format!("{n}/")).unwrap_or_default();
    format!(
        "spec.parentRefs: there is no {} {namespace}{}, so the route doesn't attach to it",
        parent.kind, parent.name
    )
}

/// What isn't as it is written although the route serves: parents that aren't there, hostnames that nothing can be
/// asked for by, and parts of rules.
fn warning(lost: &[String], rules: Option<&Summary>, bad_hostnames: &[&str]) -> Option<Condition> {
    let findings = rules.map_or(&[][..], |rules| &rules.findings).iter();
    let short = findings.filter(|f| f.effect == Effect::FallsShort);
    let short = short.map(|f| format!("spec.rules[{}].{}", f.rule, f.message));
    let names = bad_hostnames.iter().map(|name| name.escape_debug());
    let names = names.map(|name| format!("spec.hostnames: \"{name}\" is not a DNS name"));
    let mut messages = lost.to_vec();
    for message in names.chain(short) {
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    let reason = match (lost.is_empty(), messages.len() == lost.len()) {
        (true, true) => return None,
        (false, true) => "ParentNotFound",
        (true, false) => "UnsupportedValue",
        (false, false) => "Warnings",
    };
    Some(Condition::yes("Warning", reason, messages.join("; ")))
}

fn failures(rules: &Summary) -> impl Iterator<Item = &RuleFinding> {
    rules.findings.iter().filter(|f| f.effect == Effect::RuleFails)
}

/// Who encrypts what the parent's listeners send on; where they differ, what is said is what the proxy needs.
fn encryption(reader: &Reader<'_>, parent: &Parent) -> Encryption {
    let of = |context| reader.variant(reader.context(context).decision.variant).encryption;
    match &parent.verdict {
        Ok(attached) if attached.iter().all(|a| of(a.context) == Encryption::Client) => Encryption::Client,
        Ok(attached) if attached.iter().any(|a| of(a.context) == Encryption::Nobody) => Encryption::Nobody,
        _ => Encryption::Proxy,
    }
}

/// Why backends of the route that want TLS aren't spoken to under a parent.
fn sealed(reader: &Reader<'_>, parent: &Parent, rules: &Summary, encryption: Encryption) -> Option<Unresolved> {
    if encryption != Encryption::Nobody {
        return None;
    }
    let named = rules.targets.iter();
    let held: BTreeSet<String> = named
        .filter(|port| matches!(reader.backend_tls(**port), Some(BackendTls::Tls(_))))
        .map(|port| name(reader, *port))
        .collect();
    let why = defaults::refusal(reader, parent.gateway)?;
    (!held.is_empty()).then(|| {
        let held: Vec<String> = held.into_iter().collect();
        let message = format!(
            "TLS to {} can't be spoken as it must be: {}",
            held.join(", "),
            sentence(&why)
        );
        ("InvalidBackendTLS", message.into())
    })
}

/// Why whoever a client asks for isn't asked under a parent: who opens the client's TLS knows no host to resolve.
fn unnamed(reader: &Reader<'_>, route: RouteId, parent: &Parent, rules: &Summary) -> Option<Unresolved> {
    let is_opened = parent.verdict.is_ok() && encryption(reader, parent) != Encryption::Client;
    if route.kind != RouteKind::Tls || !is_opened {
        return None;
    }
    let mut named = rules.targets.iter();
    let message = "Dynamic resolver backend is only supported with TLS passthrough listeners";
    named
        .any(|port| is_of_request(reader, *port))
        .then(|| ("UnsupportedValue", message.into()))
}

/// Where the parent takes the route, and only some of its rules are of use.
fn partially_invalid(parent: &Parent, rules: &Summary) -> Option<Condition> {
    let failed = failed_rules(rules);
    if parent.verdict.is_err() || failed.is_empty() || failed.len() == rules.n_rules {
        return None;
    }
    let (reason, message) = joined(failures(rules));
    let list: Vec<String> = failed.iter().map(usize::to_string).collect();
    let message = format!("Dropped Rule(s) [{}]: {message}", list.join(" "));
    Some(Condition::yes("PartiallyInvalid", reason, message))
}

/// Reason and message for references that lead nowhere under a parent.
type Unresolved = (&'static str, Cow<'static, str>);

fn resolved_refs(rules: &Summary, encryption: Encryption, here: [Option<Unresolved>; 2]) -> Condition {
    let counts = |effect| match effect {
        Effect::RuleFails | Effect::FallsShort => false,
        Effect::RefUnresolved | Effect::FilterUnresolved => true,
        // What the client encrypts is no business of the backend's settings, be they good or bad.
        Effect::BackendRefused => encryption != Encryption::Client,
    };
    let unresolved: Vec<_> = rules.findings.iter().filter(|f| counts(f.effect)).collect();
    if unresolved.is_empty() && here.iter().all(Option::is_none) {
        let message = "Resolved all the Object references for the Route";
        return Condition::yes("ResolvedRefs", "ResolvedRefs", message);
    }
    let told = unresolved.into_iter().map(|f| (f.reason, &*f.message));
    let here = here.iter().flatten().map(|(reason, message)| (*reason, &**message));
    let (reason, message) = joined_of(told.chain(here));
    Condition::no("ResolvedRefs", reason, message)
}

/// Reasons sorted and joined by commas, messages in order of occurrence; of several each is a sentence.
fn joined<'a>(findings: impl Iterator<Item = &'a RuleFinding>) -> (String, String) {
    joined_of(findings.map(|finding| (finding.reason, &*finding.message)))
}

fn joined_of<'a>(findings: impl Iterator<Item = (&'static str, &'a str)>) -> (String, String) {
    let mut reasons = BTreeSet::new();
    let mut messages: Vec<&str> = Vec::new();
    for (reason, message) in findings {
        reasons.insert(reason);
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    let reasons: Vec<_> = reasons.into_iter().collect();
    let message = match &messages[..] {
        [one] => (*one).to_owned(),
        several => several
            .iter()
            .map(|message| sentence(message))
            .collect::<Vec<_>>()
            .join(" "),
    };
    (reasons.join(","), message)
}

fn backends_available(reader: &Reader<'_>, rules: &Summary) -> Option<Condition> {
    let mut messages: Vec<String> = Vec::new();
    for (port, purpose) in &rules.wanting {
        if reader.readiness(*port) != Readiness::NoEndpoints {
            continue;
        }
        let what = match purpose {
            Use::Destination => "Failed to find endpoints",
            Use::Mirror => "Failed to validate the RequestMirror filter",
        };
        let message = format!("{what}: no ready endpoints for the related {}.", name(reader, *port));
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    (!messages.is_empty()).then(|| Condition::no("BackendsAvailable", "EndpointsNotFound", messages.join(" ")))
}

fn name(reader: &Reader<'_>, port: BackendPort) -> String {
    let target = port.target;
    let kind = match target.kind {
        BackendKind::Service => "Service",
        BackendKind::ServiceImport => "ServiceImport",
        // Of others it isn't asked whether they have endpoints.
        BackendKind::Backend | BackendKind::Custom | BackendKind::Set => "Backend",
    };
    format!(
        "{kind} {}/{}",
        reader.text(target.id.namespace),
        reader.text(target.id.name)
    )
}
