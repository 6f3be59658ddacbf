//! Policies that are read and not honoured yet, under each Gateway and ListenerSet that their targets hang under: none
//! of them is accepted, and the message says what becomes of what they cover.

use crate::{
    api::{Generic, Kind, Object, ParentReference, StringMap, text::Symbol},
    engine::reader::Reader,
    name::{Id, RouteId, RouteKind},
    phase::{gateways::gateway::Gateway, listeners::listener_set, namespace},
    status::{Condition, ParentStatus, Status, StatusBody},
    world::{Place, Reach, Selector, named_targets, protects, selectors},
};
use std::{collections::BTreeMap, sync::Arc};

/// Whether a kind is such a policy.
pub(super) fn is_policy(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::BackendTrafficPolicy | Kind::ClientTrafficPolicy | Kind::EdgeExtensionPolicy | Kind::SecurityPolicy
    )
}

/// The status of a policy; nothing to say while none of its targets hangs under a Gateway of ours.
pub(super) fn status(reader: &Reader<'_>, kind: Kind, id: Id) -> Option<Option<Status>> {
    let object = reader.object(kind, id)?;
    let policy = generic(object)?;
    let named = named_targets(&policy.spec).map(|target| Target {
        kind: target.kind,
        id: Id {
            namespace: id.namespace,
            name: reader.sym(target.name),
        },
        section: target.section,
    });
    let closes = protects(object);
    let chosen = selectors(&policy.spec).flat_map(|selector| chosen(reader, (kind, id), &selector, closes));
    let ancestors: BTreeMap<AncestorKey, ParentReference> = named
        .chain(chosen)
        .flat_map(|target| ancestors_of(reader, &target))
        .map(|ancestor| (sort_key(&ancestor), ancestor))
        .collect();
    if ancestors.is_empty() {
        return Some(without_target(reader, id, policy));
    }
    let refused = Condition::no("Accepted", "Invalid", message(kind, object));
    let entry = |ancestor| ParentStatus {
        parent: Arc::new(ancestor),
        conditions: vec![refused.clone()],
    };
    let body = StatusBody::Ancestors {
        controller_name: reader.settings().controller_name.clone(),
        ancestors: ancestors.into_values().map(entry).collect(),
    };
    Some(Some(Status {
        observed_generation: policy.metadata.generation,
        body,
    }))
}

/// A policy whose targets don't exist has no ancestor to say so under.
fn without_target(reader: &Reader<'_>, id: Id, policy: &Generic) -> Option<Status> {
    let namespace = &policy.metadata.namespace;
    let reasons: Vec<String> = named_targets(&policy.spec)
        .filter(|target| {
            let target_id = Id {
                namespace: id.namespace,
                name: reader.sym(target.name),
            };
            reader.object(target.kind, target_id).is_none()
        })
        .map(|target| {
            format!(
                "spec.targetRefs: there is no {} {namespace}/{}",
                target.kind, target.name
            )
        })
        .collect();
    (!reasons.is_empty()).then_some(Status {
        observed_generation: policy.metadata.generation,
        body: StatusBody::Unattached(reasons),
    })
}

fn generic(object: &Object) -> Option<&Generic> {
    match object {
        Object::BackendTrafficPolicy(policy)
        | Object::ClientTrafficPolicy(policy)
        | Object::EdgeExtensionPolicy(policy)
        | Object::SecurityPolicy(policy) => Some(policy),
        _ => None,
    }
}

fn message(kind: Kind, object: &Object) -> String {
    let (what, effect) = match (kind, protects(object)) {
        (Kind::ClientTrafficPolicy, true) => (
            "Validation of client certificates by a ClientTrafficPolicy".to_owned(),
            "until the policy goes, what it covers answers 500, and nothing is let through that isn't HTTP",
        ),
        (kind, true) => (
            kind.as_str().to_owned(),
            "until the policy goes, what it covers answers 500, and nothing is let through that isn't HTTP",
        ),
        (kind, false) => (kind.as_str().to_owned(), "the policy has no effect"),
    };
    format!("{what} is not supported by this version: {effect}.")
}

/// A target of a policy.
struct Target<'a> {
    kind: Kind,
    id: Id,
    /// A listener or rule of it.
    section: Option<&'a str>,
}

/// The targets that a selector chooses. A policy that closes what it covers does so whatever the labels are (`guards`
/// of the reader), and has to say so.
fn chosen<'a>(reader: &Reader<'_>, policy: (Kind, Id), selector: &Selector, closes: bool) -> Vec<Target<'a>> {
    let (policy_kind, Id { namespace: own, .. }) = policy;
    let kind = selector.kind;
    let place = match selector.from {
        Reach::Same => Place::Namespace(kind, own),
        Reach::Selector | Reach::All => Place::Everywhere(kind),
    };
    let is_meant = |id: Id, labels: &StringMap| {
        let there = selector.from != Reach::Selector
            || namespace::is_selected(reader, &selector.namespaces, &reader.text(id.namespace));
        closes || (there && selector.labels.matches(labels) == Some(true))
    };
    reader
        .choosable(place)
        .filter(|(id, labels)| is_meant(*id, labels))
        .filter(|(id, _)| id.namespace == own || reader.lets_in(policy_kind, own, kind, *id))
        .map(|(id, _)| Target {
            kind,
            id,
            section: None,
        })
        .collect()
}

/// What a target hangs under: a Gateway or ListenerSet is its own ancestor, a route has one for each parent that is
/// ours.
fn ancestors_of(reader: &Reader<'_>, target: &Target<'_>) -> Vec<ParentReference> {
    let id = target.id;
    let is_ours = |gateway: Id| {
        reader
            .gateway(gateway)
            .is_some_and(|g| matches!(**g, Gateway::Member(_)))
    };
    match target.kind {
        Kind::Gateway if is_ours(id) => vec![reference(reader, Kind::Gateway, id, target.section)],
        Kind::ListenerSet => {
            let set = reader
                .listener_set(id)
                .and_then(|set| listener_set::parent(reader, set));
            let ours = set.filter(|gateway| is_ours(*gateway));
            ours.map(|_| reference(reader, Kind::ListenerSet, id, target.section))
                .into_iter()
                .collect()
        }
        kind => {
            let route = RouteKind::of(kind).map(|kind| RouteId { kind, id });
            let attachments = route.and_then(|route| reader.attachments(route));
            let parents = attachments.into_iter().flat_map(|a| &a.parents);
            parents
                .map(|parent| reference(reader, Kind::Gateway, parent.gateway, None))
                .collect()
        }
    }
}

fn reference(reader: &Reader<'_>, kind: Kind, id: Id, section: Option<&str>) -> ParentReference {
    ParentReference {
        group: Symbol::new(kind.group()),
        kind: Symbol::new(kind.as_str()),
        namespace: Some((&*reader.text(id.namespace)).into()),
        name: (&*reader.text(id.name)).into(),
        section_name: section.map(Into::into),
        port: None,
    }
}

/// Namespace, name, kind and section.
type AncestorKey = (Option<Box<str>>, Box<str>, Symbol, Option<Box<str>>);

/// By namespace, then name (interned names have no order of their own), each ancestor once.
fn sort_key(ancestor: &ParentReference) -> AncestorKey {
    (
        ancestor.namespace.clone(),
        ancestor.name.clone(),
        ancestor.kind.clone(),
        ancestor.section_name.clone(),
    )
}
