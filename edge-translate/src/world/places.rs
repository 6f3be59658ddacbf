//! Who points where: the one reverse index over objects.
//!
//! Whatever names another object (parameters, a parent, a certificate, the target of a policy) is found here from the
//! other end. A selector points at all objects of a kind in a namespace, or everywhere: who asks decides by labels and
//! permission whether it is meant.

use super::World;
use crate::{
    api::{self, Kind, LabelSelector, Object},
    name::{BackendKind, Id, Sym},
};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Something that can be pointed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    /// One object.
    Object(Kind, Id),
    /// Every object of a kind in a namespace.
    Namespace(Kind, Sym),
    /// Every object of a kind.
    Everywhere(Kind),
}

impl Place {
    /// The place that readers note for what a kind of object points at. Policies are asked for by every route and
    /// listener: one entry a namespace, instead of one an object that nearly always has none.
    pub(crate) fn watched(self, by: Kind) -> Self {
        match self {
            Self::Object(kind, id) if is_guard(by) => Self::Namespace(kind, id.namespace),
            place => place,
        }
    }
}

/// Places that an object points at, sorted.
pub(super) type Pointing = SmallVec<[Place; 2]>;

/// The index.
#[derive(Default)]
pub(super) struct Places(FxHashMap<Place, BTreeSet<(Kind, Id)>>);

impl Places {
    /// Who points at a place.
    pub(super) fn at(&self, place: Place) -> impl Iterator<Item = (Kind, Id)> {
        self.0.get(&place).into_iter().flatten().copied()
    }

    /// Moves an object from where it pointed to where it points; returns the places that differ.
    pub(super) fn turn(&mut self, object: (Kind, Id), was: &[Place], now: &[Place]) -> Pointing {
        let mut turned = Pointing::new();
        for place in was.iter().filter(|p| now.binary_search(p).is_err()) {
            if let Some(pointers) = self.0.get_mut(place) {
                pointers.remove(&object);
                if pointers.is_empty() {
                    self.0.remove(place);
                }
            }
            turned.push(*place);
        }
        for place in now.iter().filter(|p| was.binary_search(p).is_err()) {
            self.0.entry(*place).or_default().insert(object);
            turned.push(*place);
        }
        turned
    }
}

/// Kinds of policies that may protect what they point at in a way that this version can't honour. A route that somebody
/// put behind authentication must not be open because we don't know the policy yet: what such a policy covers is
/// closed. Each kind leaves the list when its translation arrives.
pub(crate) fn is_guard(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::SecurityPolicy | Kind::ClientTrafficPolicy | Kind::EdgeExtensionPolicy
    )
}

/// Whether an object is a policy that protects what it covers, so that this must be closed.
pub(crate) fn protects(object: &Object) -> bool {
    match object {
        Object::SecurityPolicy(_) => true,
        Object::ClientTrafficPolicy(policy) => validates_clients(&policy.spec),
        Object::EdgeExtensionPolicy(policy) => must_run(&policy.spec),
        _ => false,
    }
}

/// Whether a ClientTrafficPolicy asks for certificates of clients, or for something in that place which can't be read.
fn validates_clients(spec: &Value) -> bool {
    match &spec["tls"] {
        Value::Null => false,
        Value::Object(tls) => tls.contains_key("clientValidation"),
        _ => true,
    }
}

/// Fields of an EdgeExtensionPolicy that add nothing to what requests pass.
const NO_EXTENSION: [&str; 4] = ["targetRef", "targetRefs", "targetSelectors", "mergeType"];

/// Whether an extension of an EdgeExtensionPolicy must not be left out: any may authenticate, and only a Wasm module or
/// an external processor can be told to let requests pass that it can't see. So does whatever a later version adds.
fn must_run(spec: &Value) -> bool {
    let fields = spec.as_object().into_iter().flatten();
    let mut extensions = fields.filter(|(field, _)| !NO_EXTENSION.contains(&field.as_str()));
    extensions.any(|(field, listed)| {
        let may_fail_open = matches!(field.as_str(), "wasm" | "extProc");
        let may_be_missing = |extension: &Value| may_fail_open && extension["failOpen"] == Value::Bool(true);
        !entries(listed).iter().all(may_be_missing)
    })
}

/// The entries of a list in a policy. What stands alone where a list belongs is its one entry: a policy from a file has
/// passed no API server, and what it protects must not be open for a slip.
fn entries(value: &Value) -> &[Value] {
    match value {
        Value::Null => &[],
        Value::Array(list) => list,
        one => std::slice::from_ref(one),
    }
}

/// A target as a policy names it, in its own namespace.
pub(crate) struct NamedTarget<'a> {
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its name.
    pub(crate) name: &'a str,
    /// A listener or rule of it.
    pub(crate) section: Option<&'a str>,
}

/// The group of what policies point at, where they name none.
const TARGET_GROUP: &str = "gateway.networking.k8s.io";

/// The targets that a policy names; kinds that we don't read are left out.
pub(crate) fn named_targets(spec: &Value) -> impl Iterator<Item = NamedTarget<'_>> {
    let targets = entries(&spec["targetRefs"]).iter().chain(entries(&spec["targetRef"]));
    targets.filter_map(|target| {
        let text = |field: &str| target[field].as_str();
        Some(NamedTarget {
            kind: Kind::of(text("group").unwrap_or(TARGET_GROUP), text("kind")?)?,
            name: text("name")?,
            section: text("sectionName"),
        })
    })
}

/// Objects that a policy chooses, as it says so.
pub(crate) struct Selector {
    /// Their kind.
    pub(crate) kind: Kind,
    /// Their labels.
    pub(crate) labels: LabelSelector,
    /// Which namespaces they may be in.
    pub(crate) from: Reach,
    /// Labels of those namespaces, where these are chosen.
    pub(crate) namespaces: LabelSelector,
}

/// Which namespaces a selector looks into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// That of the policy.
    Same,
    /// Those with certain labels.
    Selector,
    /// Every one.
    All,
}

impl Reach {
    /// What `namespaces` of a selector says: `Same` where it is absent, and every one where it can't be read.
    fn of(namespaces: &Value) -> Self {
        match (namespaces, &namespaces["from"]) {
            (Value::Null, _) | (Value::Object(_), Value::Null) => Self::Same,
            (_, Value::String(from)) if from == "Same" => Self::Same,
            (_, Value::String(from)) if from == "Selector" => Self::Selector,
            _ => Self::All,
        }
    }
}

/// The selectors of a policy; kinds that we don't read are left out. One whose labels can't be read chooses all.
pub(crate) fn selectors(spec: &Value) -> impl Iterator<Item = Selector> {
    let labels = |value: &Value| LabelSelector::deserialize(value).unwrap_or_default();
    entries(&spec["targetSelectors"]).iter().filter_map(move |selector| {
        let group = selector["group"].as_str().unwrap_or(TARGET_GROUP);
        let namespaces = &selector["namespaces"];
        Some(Selector {
            kind: Kind::of(group, selector["kind"].as_str().unwrap_or_default())?,
            labels: labels(selector),
            from: Reach::of(namespaces),
            namespaces: labels(&namespaces["selector"]),
        })
    })
}

impl World {
    /// Where an object points.
    pub(super) fn places_of(&self, object: Option<&Object>) -> Pointing {
        let mut places = Pointing::new();
        match object {
            Some(Object::GatewayClass(class)) => {
                let parameters = class.spec.parameters_ref.as_deref().filter(|r| r.kind == "EdgeProxy");
                let namespaced = parameters.and_then(|r| Some((r.namespace.as_deref()?, &*r.name)));
                places.extend(namespaced.map(|(ns, name)| Place::Object(Kind::EdgeProxy, self.id(ns, name))));
            }
            Some(Object::Gateway(gateway)) => self.point_gateway(gateway, &mut places),
            Some(Object::ListenerSet(set)) => {
                let own = &set.metadata.namespace;
                let parent = &set.spec.parent_ref;
                let namespace = parent.namespace.as_deref().unwrap_or(own);
                places.push(Place::Object(Kind::Gateway, self.id(namespace, &parent.name)));
                self.point_certificates(own, &set.spec.listeners, &mut places);
            }
            Some(Object::BackendTlsPolicy(policy)) => {
                let target = |t: &api::PolicyTargetRef| {
                    let kind = BackendKind::of(&t.group, &t.kind)?.kind();
                    Some(Place::Object(kind, self.id(&policy.metadata.namespace, &t.name)))
                };
                places.extend(policy.spec.target_refs.iter().filter_map(target));
            }
            Some(
                policy @ (Object::SecurityPolicy(generic)
                | Object::ClientTrafficPolicy(generic)
                | Object::EdgeExtensionPolicy(generic)),
            ) if protects(policy) => {
                self.point_targets(&generic.metadata.namespace, &generic.spec, &mut places);
            }
            _ => {}
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    fn point_gateway(&self, gateway: &api::Gateway, places: &mut Pointing) {
        let own = &gateway.metadata.namespace;
        let infrastructure = gateway.spec.infrastructure.as_deref();
        let parameters = infrastructure.and_then(|i| i.parameters_ref.as_ref());
        let proxy = parameters.filter(|r| r.kind == "EdgeProxy");
        places.extend(proxy.map(|r| Place::Object(Kind::EdgeProxy, self.id(own, &r.name))));
        self.point_certificates(own, &gateway.spec.listeners, places);
        let backend = gateway.spec.tls.as_deref().and_then(|tls| tls.backend.as_ref());
        let shown = backend.and_then(|b| b.client_certificate_ref.as_ref());
        places.extend(shown.and_then(|reference| self.secret_at(own, reference)));
    }

    fn point_certificates(&self, own: &str, listeners: &[api::Listener], places: &mut Pointing) {
        let references = listeners.iter().filter_map(|l| l.tls.as_deref());
        let references = references.flat_map(|tls| &tls.certificate_refs);
        places.extend(references.filter_map(|reference| self.secret_at(own, reference)));
    }

    fn secret_at(&self, own: &str, reference: &api::SecretRef) -> Option<Place> {
        let is_secret = reference.group.is_empty() && reference.kind == "Secret";
        let namespace = reference.namespace.as_deref().unwrap_or(own);
        is_secret.then(|| Place::Object(Kind::Secret, self.id(namespace, &reference.name)))
    }

    /// What a policy names and what it selects. The namespaces of selectors are its own, or any.
    fn point_targets(&self, namespace: &str, spec: &Value, places: &mut Pointing) {
        let named = named_targets(spec);
        places.extend(named.map(|target| Place::Object(target.kind, self.id(namespace, target.name))));
        for selector in selectors(spec) {
            places.push(Place::Namespace(selector.kind, self.sym(namespace)));
            if selector.from != Reach::Same {
                places.push(Place::Everywhere(selector.kind));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_extension_must_run_unless_it_says_that_it_may_be_missing() {
        let open = json!({"failOpen": true});
        for (spec, expected) in [
            (
                json!({"targetRefs": [{"kind": "HTTPRoute", "name": "r"}], "mergeType": "StrategicMerge"}),
                false,
            ),
            (
                json!({"wasm": [open], "extProc": [open], "lua": [], "dynamicModule": null}),
                false,
            ),
            (json!({"wasm": open}), false),
            (json!({"wasm": [{}]}), true),
            (json!({"wasm": [open, {"failOpen": false}]}), true),
            (json!({"extProc": {"backendRefs": []}}), true),
            (json!({"extProc": "a-processor"}), true),
            (json!({"wasm": [{"failOpen": "true"}]}), true),
            (json!({"lua": [open]}), true),
            (json!({"lua": {"inline": "-- nothing"}}), true),
            (json!({"dynamicModule": [{"name": "m"}]}), true),
            (json!({"wasmModules": [open]}), true),
        ] {
            assert_eq!(must_run(&spec), expected, "{spec}");
        }
    }

    #[test]
    fn clients_are_validated_where_that_cannot_be_read() {
        for (spec, expected) in [
            (json!({}), false),
            (json!({"tls": {"minVersion": "1.3"}}), false),
            (json!({"tls": {"clientValidation": {"optional": true}}}), true),
            (json!({"tls": [{"clientValidation": {}}]}), true),
        ] {
            assert_eq!(validates_clients(&spec), expected, "{spec}");
        }
    }

    #[test]
    fn a_target_is_found_where_a_list_was_forgotten() {
        let target = json!({"kind": "HTTPRoute", "name": "r"});
        let full = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r"});
        for spec in [
            json!({"targetRefs": [full]}),
            json!({"targetRefs": [target]}),
            json!({"targetRefs": target}),
            json!({"targetRef": target}),
            json!({"targetRef": [target]}),
        ] {
            let found: Vec<_> = named_targets(&spec).map(|t| (t.kind, t.name.to_owned())).collect();
            assert_eq!(found, [(Kind::HttpRoute, "r".to_owned())], "{spec}");
        }
    }

    #[test]
    fn a_selector_that_cannot_be_read_reaches_every_namespace() {
        for (namespaces, expected) in [
            (json!(null), Reach::Same),
            (json!({}), Reach::Same),
            (json!({"from": "Same"}), Reach::Same),
            (json!({"from": "Selector"}), Reach::Selector),
            (json!({"from": "All"}), Reach::All),
            (json!({"from": "Unheard"}), Reach::All),
            (json!({"from": ["Same"]}), Reach::All),
            (json!("All"), Reach::All),
        ] {
            let selector = json!({"kind": "HTTPRoute", "namespaces": namespaces});
            for spec in [
                json!({"targetSelectors": [selector]}),
                json!({"targetSelectors": selector}),
            ] {
                let found: Vec<_> = selectors(&spec).map(|s| (s.kind, s.from)).collect();
                assert_eq!(found, [(Kind::HttpRoute, expected)], "{spec}");
            }
        }
    }
}
