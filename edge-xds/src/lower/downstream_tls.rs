//! TLS towards clients.

use super::{
    access,
    common::{secret_from, secret_from_ads, text_matcher, yes},
    listener::lower_version,
};
use edge_ir::{CertificateName, CertificateNameKind, ClientCertificates, ClientValidation, DownstreamTls};
use envoy_types::{
    pb::{
        envoy::{
            config::{
                core::v3::{TransportSocket, transport_socket},
                listener::v3::{Filter, filter},
            },
            extensions::transport_sockets::tls::v3::{
                CertificateValidationContext, CommonTlsContext, DownstreamTlsContext, SubjectAltNameMatcher,
                TlsParameters,
                certificate_validation_context::TrustChainVerification,
                common_tls_context::{CombinedCertificateValidationContext, ValidationContextType},
                downstream_tls_context::SessionTicketKeysType,
                subject_alt_name_matcher::SanType,
            },
        },
        google::protobuf::BoolValue,
    },
    util::pack_any,
};
use std::sync::Arc;

/// The transport socket of a chain that terminates TLS.
pub(super) fn lower(tls: &DownstreamTls) -> TransportSocket {
    TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(pack_any(context(tls)))),
    }
}

/// How TLS is terminated.
pub(super) fn context(tls: &DownstreamTls) -> DownstreamTlsContext {
    let texts = |list: &[Arc<str>]| list.iter().map(|text| text.to_string()).collect();
    let clients = tls.clients.as_deref();
    let no_tickets =
        (!tls.resumption.tickets).then_some(SessionTicketKeysType::DisableStatelessSessionResumption(true));
    DownstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(TlsParameters {
                tls_minimum_protocol_version: lower_version(tls.min_version).into(),
                tls_maximum_protocol_version: lower_version(tls.max_version).into(),
                cipher_suites: texts(&tls.ciphers),
                ecdh_curves: texts(&tls.curves),
                signature_algorithms: texts(&tls.signature_algorithms),
                ..Default::default()
            }),
            alpn_protocols: texts(&tls.alpn),
            tls_certificate_sds_secret_configs: tls.certificates.iter().map(secret_from).collect(),
            validation_context_type: clients.map(validation),
            ..Default::default()
        }),
        require_client_certificate: clients.and_then(requirement),
        disable_stateful_session_resumption: !tls.resumption.sessions,
        session_ticket_keys_type: no_tickets,
        ..Default::default()
    }
}

/// Which certificates of clients are trusted. One that isn't asked to be is taken all the same, but for its hash: Envoy
/// compares none where it accepts what is untrusted, and verifies no chain where there are no authorities.
fn validation(clients: &ClientValidation) -> ValidationContextType {
    let is_pinned = !(clients.key_hashes.is_empty() && clients.certificate_hashes.is_empty());
    let check = match clients.certificates {
        ClientCertificates::Required if is_pinned => TrustChainVerification::VerifyTrustChain,
        ClientCertificates::Verified | ClientCertificates::VerifiedIfGiven => TrustChainVerification::VerifyTrustChain,
        ClientCertificates::Required | ClientCertificates::Requested => TrustChainVerification::AcceptUntrusted,
    };
    let own = CertificateValidationContext {
        trust_chain_verification: check.into(),
        verify_certificate_spki: clients.key_hashes.iter().map(|hash| hash.to_string()).collect(),
        verify_certificate_hash: clients.certificate_hashes.iter().map(|hash| hash.to_string()).collect(),
        match_typed_subject_alt_names: clients.names.iter().map(name).collect(),
        allow_expired_certificate: clients.takes_expired,
        only_verify_leaf_cert_crl: clients.revokes_leaf_alone,
        ..Default::default()
    };
    match &clients.authorities {
        None => ValidationContextType::ValidationContext(own),
        Some(authorities) => ValidationContextType::CombinedValidationContext(CombinedCertificateValidationContext {
            default_validation_context: Some(own),
            validation_context_sds_secret_config: Some(secret_from_ads(authorities)),
            ..Default::default()
        }),
    }
}

fn name(name: &CertificateName) -> SubjectAltNameMatcher {
    let (kind, oid) = match &name.kind {
        CertificateNameKind::Dns => (SanType::Dns, String::new()),
        CertificateNameKind::Email => (SanType::Email, String::new()),
        CertificateNameKind::Ip => (SanType::IpAddress, String::new()),
        CertificateNameKind::Uri => (SanType::Uri, String::new()),
        CertificateNameKind::Other(oid) => (SanType::OtherName, oid.to_string()),
    };
    SubjectAltNameMatcher {
        san_type: kind.into(),
        matcher: Some(text_matcher(&name.value)),
        oid,
    }
}

/// Closes connections of clients without certificate: the handshake asks for one, but insists only where there are
/// authorities to name.
pub(super) fn presence(stat_prefix: &str, clients: &ClientValidation) -> Option<Filter> {
    (clients.certificates == ClientCertificates::Required && clients.authorities.is_none()).then(|| Filter {
        name: "envoy.filters.network.rbac".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(pack_any(access::of_certificates(
            stat_prefix,
        )))),
    })
}

fn requirement(clients: &ClientValidation) -> Option<BoolValue> {
    match clients.certificates {
        ClientCertificates::Verified | ClientCertificates::Required => yes(),
        ClientCertificates::VerifiedIfGiven | ClientCertificates::Requested => None,
    }
}
