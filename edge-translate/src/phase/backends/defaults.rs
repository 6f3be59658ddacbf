//! What the EdgeProxy of a fleet says of TLS towards backends: it holds where neither a Backend nor a Gateway says
//! otherwise, and makes nothing TLS that is spoken to in clear.
//!
//! What can't be honoured refuses every backend of the fleet that wants TLS: it was asked for to keep somebody out.

use crate::{
    api::EdgeProxy,
    engine::reader::Reader,
    name::{FleetId, Id},
    phase::{
        gateways::gateway::Gateway,
        tls::{Asked, Parameters, elsewhere},
    },
};

/// What holds for the backends of a fleet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TlsDefaults {
    /// What is asked of handshakes.
    pub(crate) asked: Asked,
    /// The certificate that backends are shown, by its Secret.
    pub(crate) certificate: Option<Id>,
}

/// What an EdgeProxy says, or why it can't be honoured.
pub(crate) fn defaults(reader: &Reader<'_>, proxy: &EdgeProxy) -> Result<TlsDefaults, String> {
    Ok(TlsDefaults {
        asked: asked(proxy)?,
        certificate: certificate(reader, proxy)?,
    })
}

/// What holds of it in a fleet: its certificate is nobody's where a Gateway names one, be that usable or not.
pub(crate) fn of_fleet(reader: &Reader<'_>, fleet: FleetId, proxy: &EdgeProxy) -> Result<TlsDefaults, String> {
    let gateways = reader.members(fleet).iter().filter_map(|id| reader.gateway_object(*id));
    let mut backends = gateways.filter_map(|gateway| gateway.spec.tls.as_deref()?.backend.as_ref());
    match backends.any(|tls| tls.client_certificate_ref.is_some()) {
        true => asked(proxy).map(|asked| TlsDefaults {
            asked,
            certificate: None,
        }),
        false => defaults(reader, proxy),
    }
}

fn asked(proxy: &EdgeProxy) -> Result<Asked, String> {
    let Some(tls) = proxy.spec.backend_tls.as_deref() else {
        return Ok(Asked::default());
    };
    let settings = tls.settings();
    if let Some(problem) = Parameters::of(&settings).problem() {
        return Err(format!("backendTLS of the EdgeProxy: {problem}"));
    }
    if !settings.fingerprints.is_empty() {
        return Err("backendTLS of the EdgeProxy: fingerprints are of clients, and a backend has none".to_owned());
    }
    Ok(Asked::of(&settings))
}

fn certificate(reader: &Reader<'_>, proxy: &EdgeProxy) -> Result<Option<Id>, String> {
    let tls = proxy.spec.backend_tls.as_deref();
    let Some(reference) = tls.and_then(|tls| tls.client_certificate_ref.as_deref()) else {
        return Ok(None);
    };
    let (own, by, name) = (&*proxy.metadata.namespace, &proxy.metadata.name, &reference.name);
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

/// Why no backend of a Gateway's fleet may be spoken to in TLS; none where they may.
pub(crate) fn refusal(reader: &Reader<'_>, gateway: Id) -> Option<String> {
    let Gateway::Member(member) = &**reader.gateway(gateway)? else {
        return None;
    };
    of_fleet(reader, member.fleet, member.proxy.as_ref()?).err()
}
