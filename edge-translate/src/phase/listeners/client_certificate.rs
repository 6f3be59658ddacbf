//! The client certificate that a Gateway shows to backends: whether its reference is good.
//!
//! It is shown to every backend that a BackendTLSPolicy covers.

use crate::{
    api,
    engine::reader::Reader,
    name::Id,
    phase::reference::{Referent, Referrer, is_permitted},
    status::Condition,
};

/// Reason and message.
type Flaw = (&'static str, String);

/// `ResolvedRefs` of a Gateway; none when it names no TLS material.
pub(crate) fn resolved_refs(reader: &Reader<'_>, gateway: &api::Gateway) -> Option<Condition> {
    gateway.spec.tls.as_deref()?;
    Some(match certificate(reader, gateway) {
        None | Some(Ok(_)) => Condition::yes(
            "ResolvedRefs",
            "ResolvedRefs",
            "Successfully resolved all TLS references for the gateway",
        ),
        Some(Err((reason, message))) => Condition::no("ResolvedRefs", reason, message),
    })
}

/// The Secret of a Gateway's certificate, or why it can't be used; none when it names none.
pub(crate) fn certificate(reader: &Reader<'_>, gateway: &api::Gateway) -> Option<Result<Id, Flaw>> {
    let tls = gateway.spec.tls.as_deref()?;
    let reference = tls.backend.as_ref()?.client_certificate_ref.as_ref()?;
    Some(read(reader, &gateway.metadata.namespace, reference))
}

fn read(reader: &Reader<'_>, own: &str, reference: &api::SecretRef) -> Result<Id, Flaw> {
    let invalid = |message: String| ("InvalidClientCertificateRef", message);
    let (group, kind) = (&reference.group, &reference.kind);
    if !group.is_empty() {
        let message = format!(
            "Invalid backend client certificate reference for gateway: invalid client certificate reference group: {group}"
        );
        return Err(invalid(message));
    }
    if *kind != "Secret" {
        let message = format!(
            "Invalid backend client certificate reference for gateway: invalid client certificate reference kind: {kind}"
        );
        return Err(invalid(message));
    }
    let (namespace, name) = (reference.namespace.as_deref().unwrap_or(own), &*reference.name);
    let from = Referrer {
        group: "gateway.networking.k8s.io",
        kind: "Gateway",
        namespace: own,
    };
    if !is_permitted(
        reader,
        from,
        Referent {
            group: "",
            kind: "Secret",
            namespace,
            name,
        },
    ) {
        return Err((
            "RefNotPermitted",
            "invalid cross-namespace reference to backend client certificate".into(),
        ));
    }
    let id = reader.id(namespace, name);
    match reader.certificate_view(id) {
        Some(Ok(_)) => Ok(id),
        Some(Err(error)) => Err(invalid(format!(
            "invalid backend client cert secret for gateway: {error}"
        ))),
        None => Err(invalid(format!(
            "failed to get backend client certs for gateway: secret {namespace}/{name} does not exist"
        ))),
    }
}
