//! What the EdgeProxy of a fleet says of TLS towards backends: it holds where neither a Backend nor a Gateway says
//! otherwise, and makes nothing TLS that is spoken to in clear.
//!
//! What can't be honoured refuses every backend of the fleet that wants TLS: it was asked for to keep somebody out.

use crate::{
    api::{EdgeProxy, SecretRef},
    engine::reader::Reader,
    name::{FleetId, Id},
    phase::{
        gateways::gateway::Gateway,
        listeners::client_certificate,
        tls::{Parameters, TlsPreferences, elsewhere},
    },
};

/// What holds for the backends of a fleet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TlsDefaults {
    /// What is asked of handshakes.
    pub(crate) asked: TlsPreferences,
    /// The certificate that backends are shown, by its Secret.
    pub(crate) certificate: Option<Id>,
}

/// What an EdgeProxy says by itself, or why it can't be honoured.
pub(crate) fn defaults(reader: &Reader<'_>, proxy: &EdgeProxy) -> Result<TlsDefaults, String> {
    Ok(TlsDefaults {
        asked: asked(proxy)?,
        certificate: certificate(reader, proxy, None)?,
    })
}

/// What holds in a fleet of the EdgeProxy that shapes it: its certificate is nobody's where a Gateway names one, be
/// that usable or not.
pub(crate) fn of_fleet(reader: &Reader<'_>, fleet: FleetId, proxy: &EdgeProxy) -> Result<TlsDefaults, String> {
    Ok(TlsDefaults {
        asked: asked(proxy)?,
        certificate: match client_certificate::is_named(reader, fleet) {
            true => None,
            false => certificate(reader, proxy, class_proxy(reader, fleet))?,
        },
    })
}

/// The EdgeProxy of a fleet's class, which that of a Gateway may be laid over.
fn class_proxy<'a>(reader: &Reader<'a>, fleet: FleetId) -> Option<&'a EdgeProxy> {
    let Gateway::Member(member) = &**reader.gateway(*reader.members(fleet).first()?)? else {
        return None;
    };
    reader.class(member.class)?.proxy().map(|proxy| &**proxy)
}

fn asked(proxy: &EdgeProxy) -> Result<TlsPreferences, String> {
    let Some(tls) = proxy.spec.backend_tls.as_deref() else {
        return Ok(TlsPreferences::default());
    };
    let settings = tls.settings();
    if let Some(problem) = Parameters::of(&settings).problem() {
        return Err(format!("backendTLS of the EdgeProxy: {problem}"));
    }
    if !settings.fingerprints.is_empty() {
        return Err("backendTLS of the EdgeProxy: fingerprints are of clients, and a backend has none".to_owned());
    }
    Ok(TlsPreferences::of(&settings))
}

/// The certificate that an EdgeProxy names, which is beside the one that says so: itself, or one that it is laid over.
fn certificate(reader: &Reader<'_>, proxy: &EdgeProxy, below: Option<&EdgeProxy>) -> Result<Option<Id>, String> {
    let Some(reference) = reference(proxy) else {
        return Ok(None);
    };
    let is_said = |below: &&EdgeProxy| self::reference(below).is_some_and(|said| is_same(reference, said, below));
    let by = &below.filter(is_said).unwrap_or(proxy).metadata;
    let (own, by, name) = (&*by.namespace, &by.name, &reference.name);
    if by.is_empty() {
        return Err(
            "clientCertificateRef in the EdgeGateway configuration has no namespace to find a Secret in: name an \
             EdgeProxy"
                .to_owned(),
        );
    }
    if let Some(problem) = elsewhere("EdgeProxy", own, reference) {
        return Err(problem);
    }
    let id = reader.id(own, name);
    match reader.certificate(id) {
        Some(Ok(_)) => Ok(Some(id)),
        Some(Err(why)) => Err(format!("client certificate of secret {own}/{name}: {why}")),
        None => Err(format!(
            "failed to locate TLS secret for client auth: {own}/{name} specified in EdgeProxy {own}/{by}"
        )),
    }
}

fn reference(proxy: &EdgeProxy) -> Option<&SecretRef> {
    proxy.spec.backend_tls.as_deref()?.client_certificate_ref.as_deref()
}

/// Whether a reference is what an EdgeProxy says, as it is told when another is laid over that.
fn is_same(reference: &SecretRef, said: &SecretRef, by: &EdgeProxy) -> bool {
    let home = said.namespace.as_deref().unwrap_or(&by.metadata.namespace);
    reference.namespace.as_deref() == Some(home)
        && (&reference.group, &reference.kind, &reference.name) == (&said.group, &said.kind, &said.name)
}

/// Why no backend of a Gateway's fleet may be spoken to in TLS; none where they may.
pub(crate) fn refusal(reader: &Reader<'_>, gateway: Id) -> Option<String> {
    let Gateway::Member(member) = &**reader.gateway(gateway)? else {
        return None;
    };
    of_fleet(reader, member.fleet, member.proxy.as_ref()?).err()
}
