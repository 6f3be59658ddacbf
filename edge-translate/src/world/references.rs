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
pub(super) struct References(FxHashMap<(Kind, Id), BTreeSet<(Kind, Id)>>);

impl References {
    /// Who points at an object.
    pub(super) fn to(&self, target: (Kind, Id)) -> impl Iterator<Item = (Kind, Id)> {
        self.0.get(&target).into_iter().flatten().copied()
    }

    /// Moves an object from where it pointed to where it points; returns the targets that differ.
    pub(super) fn turn(&mut self, object: (Kind, Id), was: &[(Kind, Id)], now: &[(Kind, Id)]) -> Pointing {
        let mut turned = Pointing::new();
        for target in was.iter().filter(|p| now.binary_search(p).is_err()) {
            if let Some(pointers) = self.0.get_mut(target) {
                pointers.remove(&object);
                if pointers.is_empty() {
                    self.0.remove(target);
                }
            }
            turned.push(*target);
        }
        for target in now.iter().filter(|p| was.binary_search(p).is_err()) {
            self.0.entry(*target).or_default().insert(object);
            turned.push(*target);
        }
        turned
    }
}

fn is_edge_proxy(group: &str, kind: &str) -> bool {
    Kind::of(group, kind) == Some(Kind::EdgeProxy)
}

impl World {
    /// Where an object points.
    pub(super) fn references_of(&self, object: Option<&Object>) -> Pointing {
        let mut targets = Pointing::new();
        match object {
            Some(Object::GatewayClass(class)) => {
                let parameters = class
                    .spec
                    .parameters_ref
                    .as_deref()
                    .filter(|r| is_edge_proxy(&r.group, &r.kind));
                let namespaced = parameters.and_then(|r| Some((r.namespace.as_deref()?, &*r.name)));
                targets.extend(namespaced.map(|(ns, name)| (Kind::EdgeProxy, self.id(ns, name))));
            }
            Some(Object::Gateway(gateway)) => self.point_gateway(gateway, &mut targets),
            Some(Object::ListenerSet(set)) => {
                let own = &set.metadata.namespace;
                let parent = &set.spec.parent_ref;
                let namespace = parent.namespace.as_deref().unwrap_or(own);
                // Another kind of parent is another controller's.
                let kind = Kind::of(&parent.group, &parent.kind).filter(|kind| *kind == Kind::Gateway);
                targets.extend(kind.map(|kind| (kind, self.id(namespace, &parent.name))));
                self.point_certificates(own, &set.spec.listeners, &mut targets);
            }
            Some(Object::EdgePatchPolicy(policy)) => {
                let target = &policy.spec.target_ref;
                let kind = Kind::of(&target.group, &target.kind);
                let namespace = match kind {
                    Some(Kind::GatewayClass) => "",
                    _ => &policy.metadata.namespace,
                };
                targets.extend(kind.map(|kind| (kind, self.id(namespace, &target.name))));
            }
            Some(Object::Backend(backend)) => {
                let tls = backend.spec.tls.as_deref();
                let shown = tls.and_then(|tls| tls.client_certificate_ref.as_deref());
                targets.extend(shown.and_then(|reference| self.secret_at(&backend.metadata.namespace, reference)));
            }
            Some(Object::EdgeProxy(proxy)) => {
                let tls = proxy.spec.backend_tls.as_deref();
                let shown = tls.and_then(|tls| tls.client_certificate_ref.as_deref());
                // One in another namespace is refused, whatever it is.
                let own = &proxy.metadata.namespace;
                let shown = shown.and_then(|reference| self.secret_at(own, reference));
                targets.extend(shown.filter(|(_, id)| *self.text(id.namespace) == **own));
            }
            Some(Object::BackendTlsPolicy(policy)) => {
                let target = |t: &api::PolicyTargetRef| {
                    let kind = BackendKind::of(&t.group, &t.kind)?.kind()?;
                    Some((kind, self.id(&policy.metadata.namespace, &t.name)))
                };
                targets.extend(policy.spec.target_refs.iter().filter_map(target));
            }
            _ => {}
        }
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    fn point_gateway(&self, gateway: &api::Gateway, targets: &mut Pointing) {
        let own = &gateway.metadata.namespace;
        let infrastructure = gateway.spec.infrastructure.as_deref();
        let parameters = infrastructure.and_then(|i| i.parameters_ref.as_ref());
        let proxy = parameters.filter(|r| is_edge_proxy(&r.group, &r.kind));
        targets.extend(proxy.map(|r| (Kind::EdgeProxy, self.id(own, &r.name))));
        self.point_certificates(own, &gateway.spec.listeners, targets);
        let backend = gateway.spec.tls.as_deref().and_then(|tls| tls.backend.as_ref());
        let shown = backend.and_then(|b| b.client_certificate_ref.as_ref());
        targets.extend(shown.and_then(|reference| self.secret_at(own, reference)));
    }

    fn point_certificates(&self, own: &str, listeners: &[api::Listener], targets: &mut Pointing) {
        let references = listeners.iter().filter_map(|l| l.tls.as_deref());
        let references = references.flat_map(|tls| &tls.certificate_refs);
        targets.extend(references.filter_map(|reference| self.secret_at(own, reference)));
    }

    fn secret_at(&self, own: &str, reference: &api::SecretRef) -> Option<(Kind, Id)> {
        let is_secret = reference.group.is_empty() && reference.kind == "Secret";
        let namespace = reference.namespace.as_deref().unwrap_or(own);
        is_secret.then(|| (Kind::Secret, self.id(namespace, &reference.name)))
    }
}
