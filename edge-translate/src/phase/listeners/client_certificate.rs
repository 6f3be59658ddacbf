//! The client certificate that a Gateway shows to backends: whether its reference is good, and what the Gateway says of
//! all its TLS settings.
//!
//! It is shown to every backend that a BackendTLSPolicy covers.

use super::{
    certificate::{CertificateView, Unusable, referenced},
    client_validation,
    finding::OUT_OF_DATE,
};
use crate::{
    api::{self, Kind},
    engine::reader::Reader,
    name::{FleetId, Id},
    phase::precedence::Seniority,
    status::{Condition, sentence},
};
use std::{collections::BTreeSet, sync::Arc};

/// Reason and message.
type Flaw = (&'static str, String);

/// What a Gateway says of its TLS settings: `ResolvedRefs` if it has any, and a warning while backends won't take its
/// certificate. It is shown all the same, as those of listeners are: with none, no backend would take it.
pub(crate) fn conditions(reader: &Reader<'_>, gateway: &api::Gateway) -> Vec<Condition> {
    if gateway.spec.tls.is_none() {
        return Vec::new();
    }
    let (own, late) = match certificate(reader, gateway) {
        None => (None, None),
        Some(Err(flaw)) => (Some(flaw), None),
        Some(Ok(certificate)) => (None, certificate.flaw_of_date()),
    };
    let frontend = client_validation::problems(reader, gateway).into_iter();
    let flaws = own
        .into_iter()
        .chain(frontend.map(|message| ("InvalidParameters", message)));
    let late = late.map(|(reason, message)| {
        let message = format!("{message} Backends that verify it refuse the connection.");
        Condition::yes(OUT_OF_DATE, reason, message)
    });
    [resolved_refs(flaws.collect())].into_iter().chain(late).collect()
}

fn resolved_refs(flaws: Vec<Flaw>) -> Condition {
    if flaws.is_empty() {
        let message = "Successfully resolved all TLS references for the gateway";
        return Condition::yes("ResolvedRefs", "ResolvedRefs", message);
    }
    let reasons: BTreeSet<&str> = flaws.iter().map(|(reason, _)| *reason).collect();
    let reasons = reasons.into_iter().collect::<Vec<_>>().join(",");
    let message = match &flaws[..] {
        [(_, one)] => one.clone(),
        several => several
            .iter()
            .map(|(_, message)| sentence(message))
            .collect::<Vec<_>>()
            .join(" "),
    };
    Condition::no("ResolvedRefs", reasons, message)
}

/// Whether a Gateway of a fleet names a certificate, be that usable or not.
pub(crate) fn is_named(reader: &Reader<'_>, fleet: FleetId) -> bool {
    gateways(reader, fleet).any(|gateway| reference(gateway).is_some())
}

/// The certificate that a fleet shows to backends, by its Secret: that of its oldest Gateway that has a usable one, and
/// another where none names one.
pub(crate) fn of_fleet(reader: &Reader<'_>, fleet: FleetId, otherwise: Option<Id>) -> Option<Id> {
    if !is_named(reader, fleet) {
        return otherwise;
    }
    let mut gateways: Vec<_> = gateways(reader, fleet).collect();
    gateways.sort_by_cached_key(|gateway| Seniority::of(&gateway.metadata));
    let usable = |gateway: &api::Gateway| certificate(reader, gateway)?.ok();
    gateways.into_iter().find_map(usable).map(|certificate| certificate.id)
}

fn gateways<'a>(reader: &Reader<'a>, fleet: FleetId) -> impl Iterator<Item = &'a api::Gateway> {
    let members = reader.members(fleet).iter();
    members
        .filter_map(|id| reader.gateway_object(*id))
        .map(|gateway| &**gateway)
}

fn reference(gateway: &api::Gateway) -> Option<&api::SecretRef> {
    let backend = gateway.spec.tls.as_deref()?.backend.as_ref()?;
    backend.client_certificate_ref.as_ref()
}

/// A Gateway's certificate, or why it can't be used; none when it names none.
pub(crate) fn certificate<'a>(
    reader: &Reader<'a>,
    gateway: &api::Gateway,
) -> Option<Result<&'a Arc<CertificateView>, Flaw>> {
    let reference = reference(gateway)?;
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
