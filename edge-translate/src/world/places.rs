//! Who names whom: a reverse index over references between objects.
//!
//! Whatever names another object (parameters, a parent, a certificate, a backend of a BackendTLSPolicy) is found here
//! from the other end. Policies with targets have an index of their own, [`super::covers`].

use super::World;
use crate::{
    api::{self, Kind, Object},
    name::{BackendKind, Id},
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Objects that an object points at, sorted.
pub(super) type Pointing = SmallVec<[(Kind, Id); 2]>;

/// The index.
#[derive(Default)]
pub(super) struct Places(FxHashMap<(Kind, Id), BTreeSet<(Kind, Id)>>);

impl Places {
    /// Who points at an object.
    pub(super) fn at(&self, place: (Kind, Id)) -> impl Iterator<Item = (Kind, Id)> {
        self.0.get(&place).into_iter().flatten().copied()
    }

    /// Moves an object from where it pointed to where it points; returns the places that differ.
    pub(super) fn turn(&mut self, object: (Kind, Id), was: &[(Kind, Id)], now: &[(Kind, Id)]) -> Pointing {
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

impl World {
    /// Where an object points.
    pub(super) fn places_of(&self, object: Option<&Object>) -> Pointing {
        let mut places = Pointing::new();
        match object {
            Some(Object::GatewayClass(class)) => {
                let parameters = class.spec.parameters_ref.as_deref().filter(|r| r.kind == "EdgeProxy");
                let namespaced = parameters.and_then(|r| Some((r.namespace.as_deref()?, &*r.name)));
                places.extend(namespaced.map(|(ns, name)| (Kind::EdgeProxy, self.id(ns, name))));
            }
            Some(Object::Gateway(gateway)) => self.point_gateway(gateway, &mut places),
            Some(Object::ListenerSet(set)) => {
                let own = &set.metadata.namespace;
                let parent = &set.spec.parent_ref;
                let namespace = parent.namespace.as_deref().unwrap_or(own);
                places.push((Kind::Gateway, self.id(namespace, &parent.name)));
                self.point_certificates(own, &set.spec.listeners, &mut places);
            }
            Some(Object::EdgePatchPolicy(policy)) => {
                let target = &policy.spec.target_ref;
                let kind = Kind::of(&target.group, &target.kind);
                let namespace = match kind {
                    Some(Kind::GatewayClass) => "",
                    _ => &policy.metadata.namespace,
                };
                places.extend(kind.map(|kind| (kind, self.id(namespace, &target.name))));
            }
            Some(Object::Backend(backend)) => {
                let tls = backend.spec.tls.as_deref();
                let shown = tls.and_then(|tls| tls.client_certificate_ref.as_deref());
                places.extend(shown.and_then(|reference| self.secret_at(&backend.metadata.namespace, reference)));
            }
            Some(Object::EdgeProxy(proxy)) => {
                let tls = proxy.spec.backend_tls.as_deref();
                let shown = tls.and_then(|tls| tls.client_certificate_ref.as_deref());
                // One in another namespace is refused, whatever it is.
                let own = &proxy.metadata.namespace;
                let shown = shown.and_then(|reference| self.secret_at(own, reference));
                places.extend(shown.filter(|(_, id)| *self.text(id.namespace) == **own));
            }
            Some(Object::BackendTlsPolicy(policy)) => {
                let target = |t: &api::PolicyTargetRef| {
                    let kind = BackendKind::of(&t.group, &t.kind)?.kind()?;
                    Some((kind, self.id(&policy.metadata.namespace, &t.name)))
                };
                places.extend(policy.spec.target_refs.iter().filter_map(target));
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
        places.extend(proxy.map(|r| (Kind::EdgeProxy, self.id(own, &r.name))));
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

    fn secret_at(&self, own: &str, reference: &api::SecretRef) -> Option<(Kind, Id)> {
        let is_secret = reference.group.is_empty() && reference.kind == "Secret";
        let namespace = reference.namespace.as_deref().unwrap_or(own);
        is_secret.then(|| (Kind::Secret, self.id(namespace, &reference.name)))
    }
}
