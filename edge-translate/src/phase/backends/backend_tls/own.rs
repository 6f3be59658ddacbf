//! TLS as a Backend itself asks for it.

use super::{Authorities, Holder, Trust, authorities, told};
use crate::{
    api::{AlpnProtocol, Backend, BackendTlsSettings, Kind, SecretRef, TlsVersion as Version},
    engine::reader::Reader,
    name::{BackendKind, BackendPort},
};
use edge_ir::{ServerNaming, SubjectName, TlsParameters, TlsVersion, UpstreamTls};
use std::sync::Arc;

/// Cipher suites up to TLS 1.2 that proxies know, by their names in OpenSSL.
const CIPHERS: [&str; 14] = [
    "AES128-GCM-SHA256",
    "AES128-SHA",
    "AES256-GCM-SHA384",
    "AES256-SHA",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-SHA",
    "ECDHE-RSA-CHACHA20-POLY1305",
];
/// Groups of the key exchange that proxies know.
const CURVES: [&str; 5] = ["P-256", "P-384", "P-521", "X25519", "X25519MLKEM768"];
/// Signature algorithms that proxies know.
const SIGNATURE_ALGORITHMS: [&str; 10] = [
    "ecdsa_secp256r1_sha256",
    "ecdsa_secp384r1_sha384",
    "ecdsa_secp521r1_sha512",
    "ed25519",
    "rsa_pkcs1_sha256",
    "rsa_pkcs1_sha384",
    "rsa_pkcs1_sha512",
    "rsa_pss_rsae_sha256",
    "rsa_pss_rsae_sha384",
    "rsa_pss_rsae_sha512",
];

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
pub(super) fn trust(reader: &Reader<'_>, own: &Own<'_>) -> Result<Trust, String> {
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
            authorities: authorities.as_ref().map(|a| a.name.clone()),
            subjects,
            client_certificate: None,
            alpn: Vec::new(),
            parameters: TlsParameters::default(),
        },
        authorities,
        client_certificate: None,
        alpn: None,
    })
}

fn anchors(reader: &Reader<'_>, own: &Own<'_>) -> Result<Arc<edge_ir::Secret>, String> {
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
    let texts = |list: &[Box<str>]| list.iter().map(|text| Arc::from(&**text)).collect();
    let protocols = |list: &[AlpnProtocol]| list.iter().map(|p| Arc::from(p.as_str())).collect();
    Ok(Trust {
        tls: UpstreamTls {
            parameters: TlsParameters {
                min_version: tls.min_version.as_ref().and_then(version),
                max_version: tls.max_version.as_ref().and_then(version),
                ciphers: texts(&tls.ciphers),
                curves: texts(&tls.ecdh_curves),
                signature_algorithms: texts(&tls.signature_algorithms),
            },
            ..trust.tls
        },
        client_certificate,
        alpn: tls.alpn_protocols.as_deref().map(protocols),
        ..trust
    })
}

fn version(version: &Version) -> Option<TlsVersion> {
    match version {
        Version::V1_0 => Some(TlsVersion::V1_0),
        Version::V1_1 => Some(TlsVersion::V1_1),
        Version::V1_2 => Some(TlsVersion::V1_2),
        Version::V1_3 => Some(TlsVersion::V1_3),
        Version::Auto | Version::Other(_) => None,
    }
}

/// What is wrong with the parameters of a Backend's TLS, whatever it refers to. A proxy refuses a cluster for any of
/// it.
pub(crate) fn parameters_problem(namespace: &str, tls: &BackendTlsSettings) -> Option<String> {
    let versions = [(&tls.min_version, "minVersion"), (&tls.max_version, "maxVersion")];
    for (version, field) in versions {
        if let Some(Version::Other(other)) = version {
            return Some(format!(
                "{field} {other} is no TLS version: it must be one of {}",
                Version::KNOWN.join(", ")
            ));
        }
    }
    let least = tls.min_version.as_ref().map_or(Some(TlsVersion::V1_2), version);
    let most = tls.max_version.as_ref().and_then(version);
    if least.zip(most).is_some_and(|(least, most)| least > most) {
        return Some("minVersion must be smaller or equal to maxVersion".to_owned());
    }
    let unknown = |list: &[Box<str>], known: &[&str]| list.iter().find(|text| !known.contains(&&***text)).cloned();
    if let Some(cipher) = unknown(&tls.ciphers, &CIPHERS) {
        return Some(format!("unsupported cipher suite: {cipher}"));
    }
    if let Some(curve) = unknown(&tls.ecdh_curves, &CURVES) {
        return Some(format!("unsupported ECDH curve: {curve}"));
    }
    if let Some(algorithm) = unknown(&tls.signature_algorithms, &SIGNATURE_ALGORITHMS) {
        return Some(format!("unsupported signature algorithm: {algorithm}"));
    }
    let protocols = tls.alpn_protocols.iter().flatten();
    if let Some(other) = protocols.into_iter().find(|p| matches!(p, AlpnProtocol::Other(_))) {
        return Some(format!("unsupported ALPN protocol: {}", other.as_str()));
    }
    if !tls.fingerprints.is_empty() {
        return Some("fingerprints are of clients, and a Backend has none".to_owned());
    }
    names_problem(tls).or_else(|| elsewhere(namespace, tls.client_certificate_ref.as_deref()?))
}

fn names_problem(tls: &BackendTlsSettings) -> Option<String> {
    if tls.sni.is_some() && tls.auto_sni_from_endpoint_hostname {
        return Some("sni and autoSNIFromEndpointHostname are mutually exclusive".to_owned());
    }
    let sni = tls.sni.as_deref()?;
    let is_host = matches!(crate::api::Hostname::parse(sni), Ok(crate::api::Hostname::Exact(_)));
    (!is_host).then(|| format!("sni \"{sni}\" is not a host name"))
}

fn elsewhere(own: &str, reference: &SecretRef) -> Option<String> {
    let namespace = reference.namespace.as_deref().unwrap_or(own);
    if !reference.group.is_empty() || reference.kind != "Secret" {
        return Some("clientCertificateRef must name a Secret".to_owned());
    }
    (namespace != own).then(|| {
        format!(
            "ClientCertificateRef Secret is not located in the same namespace as Backend. Secret namespace: {namespace} \
             does not match Backend namespace: {own}"
        )
    })
}
