//! The client certificate that a Gateway shows to backends: whether its reference is good.
//!
//! It is shown to every backend that a BackendTLSPolicy covers.

use super::{
    certificate::{CertificateView, Unusable, referenced},
    finding::OUT_OF_DATE,
};
use crate::{
    api::{self, Kind},
    engine::reader::Reader,
    status::Condition,
};
use std::sync::Arc;

/// Reason and message.
type Flaw = (&'static str, String);

/// What a Gateway says of its certificate: `ResolvedRefs` if it names TLS material, and a warning while backends won't
/// take the certificate. It is shown all the same, as those of listeners are: with none, no backend would take it.
pub(crate) fn conditions(reader: &Reader<'_>, gateway: &api::Gateway) -> Vec<Condition> {
    if gateway.spec.tls.is_none() {
        return Vec::new();
    }
    let resolved = Condition::yes(
        "ResolvedRefs",
        "ResolvedRefs",
        "Successfully resolved all TLS references for the gateway",
    );
    match certificate(reader, gateway) {
        None => vec![resolved],
        Some(Err((reason, message))) => vec![Condition::no("ResolvedRefs", reason, message)],
        Some(Ok(certificate)) => {
            let late = certificate.flaw_of_date().map(|(reason, message)| {
                let message = format!("{message} Backends that verify it refuse the connection.");
                Condition::yes(OUT_OF_DATE, reason, message)
            });
            [resolved].into_iter().chain(late).collect()
        }
    }
}

/// A Gateway's certificate, or why it can't be used; none when it names none.
pub(crate) fn certificate<'a>(
    reader: &Reader<'a>,
    gateway: &api::Gateway,
) -> Option<Result<&'a Arc<CertificateView>, Flaw>> {
    let tls = gateway.spec.tls.as_deref()?;
    let reference = tls.backend.as_ref()?.client_certificate_ref.as_ref()?;
    let own = &*gateway.metadata.namespace;
    let certificate = referenced(reader, Kind::Gateway, own, reference);
    Some(certificate.map_err(|unusable| flaw(&unusable, own, reference)))
}

fn flaw(unusable: &Unusable<'_>, own: &str, reference: &api::SecretRef) -> Flaw {
    let invalid = |message: String| ("InvalidClientCertificateRef", message);
    let (group, kind) = (&reference.group, &reference.kind);
    match unusable {
        Unusable::Kind if !group.is_empty() => invalid(format!(
            "Invalid backend client certificate reference for gateway: invalid client certificate reference group: {group}"
        )),
        Unusable::Kind => invalid(format!(
            "Invalid backend client certificate reference for gateway: invalid client certificate reference kind: {kind}"
        )),
        Unusable::NotPermitted => (
            "RefNotPermitted",
            "invalid cross-namespace reference to backend client certificate".into(),
        ),
        Unusable::Malformed(error) => invalid(format!("invalid backend client cert secret for gateway: {error}")),
        Unusable::Missing => {
            let namespace = reference.namespace.as_deref().unwrap_or(own);
            invalid(format!(
                "failed to get backend client certs for gateway: secret {namespace}/{} does not exist",
                reference.name
            ))
        }
    }
}
