//! TLS as a Backend itself asks for it.

use super::{Authorities, Holder, Speech, Trust, authorities, told};
use crate::{
    api::{Backend, BackendTlsSettings, Kind},
    engine::reader::Reader,
    name::{BackendKind, BackendPort},
    phase::{
        secrets::Provided,
        tls::{Parameters, TlsPreferences, elsewhere},
    },
};
use edge_ir::{Inside, ServerNaming, SubjectName, TlsParameters, UpstreamTls};
use std::sync::Arc;

/// A Backend that asks for TLS.
pub(super) struct Own<'a> {
    backend: &'a Backend,
    tls: &'a BackendTlsSettings,
}

/// What a Backend says of TLS; none where it says nothing, or is no Backend.
pub(super) fn settings<'a>(reader: &Reader<'a>, port: BackendPort) -> Option<Own<'a>> {
    if port.target.kind != BackendKind::Backend {
        return None;
    }
    let backend = reader.backend(port.target.id)?;
    let tls = backend.spec.tls.as_deref()?;
    Some(Own { backend, tls })
}

/// Whom a Backend trusts, under which name.
pub(super) fn trust(reader: &Reader<'_>, own: &Own<'_>, speech: Speech) -> Result<Trust, String> {
    let tls = own.tls;
    let (naming, server_name) = match &tls.sni {
        Some(name) => (ServerNaming::Fixed, Arc::from(&**name)),
        None if tls.auto_sni_from_endpoint_hostname => (ServerNaming::OfEndpoint, Arc::default()),
        None => (ServerNaming::OfRequest, Arc::default()),
    };
    let authorities = match tls.insecure_skip_verify {
        true => None,
        false => Some(anchors(reader, own)?),
    };
    let subjects = match (&authorities, naming) {
        (Some(_), ServerNaming::Fixed) => vec![SubjectName::Dns(Arc::clone(&server_name))],
        _ => Vec::new(),
    };
    Ok(Trust {
        tls: UpstreamTls {
            naming,
            server_name,
            authorities: authorities.as_ref().map(Provided::source),
            subjects,
            client_certificate: None,
            alpn: Vec::new(),
            inside: Inside::default(),
            parameters: TlsParameters::default(),
        },
        authorities,
        speech,
        client_certificate: None,
        asked: TlsPreferences::default(),
    })
}

fn anchors(reader: &Reader<'_>, own: &Own<'_>) -> Result<Provided, String> {
    let Authorities { authorities, problems } = authorities(
        reader,
        &Holder {
            kind: Kind::Backend,
            metadata: &own.backend.metadata,
            references: &own.tls.ca_certificate_refs,
            well_known: own.tls.well_known_ca_certificates.as_ref(),
        },
    );
    // Part of what was asked for is not what was asked for.
    match (authorities, problems.is_empty()) {
        (Some(authorities), true) => Ok(authorities),
        _ => Err(told(problems)),
    }
}

/// Adds what has nothing to do with trust, and holds beside a policy as well.
pub(super) fn complete(reader: &Reader<'_>, own: &Own<'_>, trust: Trust) -> Result<Trust, String> {
    let tls = own.tls;
    let client_certificate = match &tls.client_certificate_ref {
        None => None,
        Some(reference) => {
            let (namespace, name) = (&*own.backend.metadata.namespace, &*reference.name);
            let id = reader.id(namespace, name);
            match reader.certificate(id) {
                Some(Ok(_)) => Some(id),
                Some(Err(why)) => return Err(format!("client certificate of secret {namespace}/{name}: {why}")),
                None => {
                    return Err(format!(
                        "failed to locate TLS secret for client auth: {namespace}/{name}"
                    ));
                }
            }
        }
    };
    let asked = TlsPreferences::of(&tls.settings());
    Ok(Trust {
        client_certificate,
        tls: UpstreamTls {
            inside: inside(trust.speech, &asked),
            ..trust.tls
        },
        asked,
        ..trust
    })
}

/// What is spoken to a Backend that names no protocols: either version of HTTP, unless it wants WebSockets.
fn inside(speech: Speech, asked: &TlsPreferences) -> Inside {
    match (&asked.alpn, speech) {
        (None, Speech::Any) => Inside::Agreed,
        (Some(_), _) | (None, Speech::WebSocket) => Inside::OfCluster,
    }
}

/// What is wrong with the parameters of a Backend's TLS, whatever it refers to. A proxy refuses a cluster for any of
/// it.
pub(crate) fn parameters_problem(namespace: &str, tls: &BackendTlsSettings) -> Option<String> {
    if let Some(problem) = Parameters::of(&tls.settings()).problem() {
        return Some(problem);
    }
    if !tls.fingerprints.is_empty() {
        return Some("fingerprints are of clients, and a Backend has none".to_owned());
    }
    names_problem(tls).or_else(|| elsewhere("Backend", namespace, tls.client_certificate_ref.as_deref()?))
}

fn names_problem(tls: &BackendTlsSettings) -> Option<String> {
    if tls.sni.is_some() && tls.auto_sni_from_endpoint_hostname {
        return Some("sni and autoSNIFromEndpointHostname are mutually exclusive".to_owned());
    }
    let sni = tls.sni.as_deref()?;
    let is_host = matches!(crate::api::Hostname::parse(sni), Ok(crate::api::Hostname::Exact(_)));
    (!is_host).then(|| format!("sni \"{sni}\" is not a host name"))
}
