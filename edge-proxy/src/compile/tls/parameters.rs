//! Parameters of TLS: versions, suites, groups and signatures.

use std::sync::Arc;

use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::TlsParameters;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::tls_parameters::TlsProtocol;
use rustls::crypto::{CryptoProvider, ring};
use rustls::{CipherSuite, NamedGroup, SupportedProtocolVersion};

use crate::compile::field::{At, Rejection, fields};
use crate::compile::verify::Signatures;

/// What a handshake may agree on.
#[derive(Debug)]
pub(super) struct Parameters {
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) versions: Vec<&'static SupportedProtocolVersion>,
    pub(super) signatures: Signatures,
}

pub(super) fn parameters(at: &At<'_>, message: Option<&TlsParameters>) -> Result<Parameters, Rejection> {
    let default = TlsParameters::default();
    let message = message.unwrap_or(&default);
    fields!(at, message => TlsParameters {
        tls_minimum_protocol_version, tls_maximum_protocol_version, cipher_suites, ecdh_curves,
        signature_algorithms;
        ignore;
        refuse compliance_policies
    });
    let versions = versions(at, *tls_minimum_protocol_version, *tls_maximum_protocol_version)?;
    let mut provider = ring::default_provider();
    if !cipher_suites.is_empty() {
        // As in Envoy, the list is about TLS 1.2; TLS 1.3 has its own. What we don't have is not offered.
        let allowed: Vec<CipherSuite> = cipher_suites
            .iter()
            .flat_map(|entry| entry.trim_matches(['[', ']']).split('|'))
            .filter_map(suite)
            .collect();
        provider
            .cipher_suites
            .retain(|suite| suite.tls13().is_some() || allowed.contains(&suite.suite()));
        let has_tls12 = provider.cipher_suites.iter().any(|suite| suite.tls13().is_none());
        if !has_tls12 && versions.len() == 1 && versions[0].version == rustls::ProtocolVersion::TLSv1_2 {
            return Err(at
                .field("cipher_suites")
                .error("none of them is supported by this proxy"));
        }
    }
    if !ecdh_curves.is_empty() {
        let allowed: Vec<NamedGroup> = ecdh_curves.iter().filter_map(|name| group(name)).collect();
        provider.kx_groups.retain(|group| allowed.contains(&group.name()));
        if provider.kx_groups.is_empty() {
            return Err(at.field("ecdh_curves").error("none of them is supported by this proxy"));
        }
    }
    let signatures = Signatures::new(
        &at.field("signature_algorithms"),
        signature_algorithms,
        &provider.signature_verification_algorithms.supported_schemes(),
    )?;
    Ok(Parameters {
        provider: Arc::new(provider),
        versions,
        signatures,
    })
}

fn versions(at: &At<'_>, minimum: i32, maximum: i32) -> Result<Vec<&'static SupportedProtocolVersion>, Rejection> {
    let max = TlsProtocol::try_from(maximum).unwrap_or(TlsProtocol::TlsAuto);
    let min = TlsProtocol::try_from(minimum).unwrap_or(TlsProtocol::TlsAuto);
    if matches!(max, TlsProtocol::TlSv10 | TlsProtocol::TlSv11) {
        return Err(at
            .field("tls_maximum_protocol_version")
            .error("versions below 1.2 are not supported"));
    }
    // A lower minimum only asks for less security than there is.
    Ok(match (min, max) {
        (TlsProtocol::TlSv13, TlsProtocol::TlSv12) => {
            return Err(at.field("tls_minimum_protocol_version").error("exceeds the maximum"));
        }
        (TlsProtocol::TlSv13, _) => vec![&rustls::version::TLS13],
        (_, TlsProtocol::TlSv12) => vec![&rustls::version::TLS12],
        _ => vec![&rustls::version::TLS13, &rustls::version::TLS12],
    })
}

fn suite(name: &str) -> Option<CipherSuite> {
    Some(match name {
        "ECDHE-ECDSA-AES128-GCM-SHA256" => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-RSA-AES128-GCM-SHA256" => CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-ECDSA-AES256-GCM-SHA384" => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-RSA-AES256-GCM-SHA384" => CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-ECDSA-CHACHA20-POLY1305" => CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        "ECDHE-RSA-CHACHA20-POLY1305" => CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        _ => return None,
    })
}

fn group(name: &str) -> Option<NamedGroup> {
    Some(match name {
        "X25519" => NamedGroup::X25519,
        "P-256" | "prime256v1" => NamedGroup::secp256r1,
        "P-384" | "secp384r1" => NamedGroup::secp384r1,
        _ => return None,
    })
}
