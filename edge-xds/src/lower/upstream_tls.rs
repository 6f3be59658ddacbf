//! TLS towards backends.

use super::{common::secret_from, listener::lower_version, matches::string_matcher};
use edge_ir::{ServerNaming, SubjectName, TlsParameters as Parameters, TlsVersion, UpstreamTls, ValueMatcher};
use envoy_types::{
    pb::envoy::{
        config::core::v3::{TransportSocket, transport_socket},
        extensions::transport_sockets::tls::v3::{
            CertificateValidationContext, CommonTlsContext, SubjectAltNameMatcher, TlsParameters, UpstreamTlsContext,
            common_tls_context::{CombinedCertificateValidationContext, ValidationContextType},
            subject_alt_name_matcher::SanType,
            tls_parameters::TlsProtocol,
        },
    },
    util::pack_any,
};
use std::sync::Arc;

/// The transport socket of a cluster that is spoken to in TLS.
pub(super) fn lower(tls: &UpstreamTls) -> TransportSocket {
    let validation = tls
        .authorities
        .as_ref()
        .map(|authorities| CombinedCertificateValidationContext {
            default_validation_context: Some(CertificateValidationContext {
                match_typed_subject_alt_names: tls.subjects.iter().map(subject).collect(),
                ..Default::default()
            }),
            validation_context_sds_secret_config: Some(secret_from(authorities)),
            ..Default::default()
        });
    // The name that is asked for is the one that is looked for.
    let of_endpoint = tls.naming == ServerNaming::OfEndpoint;
    let context = UpstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(parameters(&tls.parameters)),
            alpn_protocols: tls.alpn.iter().map(|protocol| protocol.to_string()).collect(),
            tls_certificate_sds_secret_configs: tls.client_certificate.iter().map(secret_from).collect(),
            validation_context_type: validation.map(ValidationContextType::CombinedValidationContext),
            ..Default::default()
        }),
        sni: tls.server_name.to_string(),
        auto_host_sni: of_endpoint,
        auto_sni_san_validation: of_endpoint && tls.authorities.is_some(),
        ..Default::default()
    };
    TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(pack_any(context))),
    }
}

/// What may be agreed on. Left to itself a client of Envoy stops at TLS 1.2.
fn parameters(parameters: &Parameters) -> TlsParameters {
    let texts = |list: &[Arc<str>]| list.iter().map(|text| text.to_string()).collect();
    let version = |version: Option<TlsVersion>| version.map_or(TlsProtocol::TlsAuto, lower_version);
    TlsParameters {
        tls_minimum_protocol_version: version(parameters.min_version).into(),
        tls_maximum_protocol_version: parameters.max_version.map_or(TlsProtocol::TlSv13, lower_version).into(),
        cipher_suites: texts(&parameters.ciphers),
        ecdh_curves: texts(&parameters.curves),
        signature_algorithms: texts(&parameters.signature_algorithms),
        ..Default::default()
    }
}

fn subject(name: &SubjectName) -> SubjectAltNameMatcher {
    let (san_type, text) = match name {
        SubjectName::Dns(host) => (SanType::Dns, (&**host).into()),
        SubjectName::Uri(uri) => (SanType::Uri, (&**uri).into()),
        SubjectName::Ip(ip) => (SanType::IpAddress, ip.to_string().into()),
    };
    SubjectAltNameMatcher {
        san_type: san_type.into(),
        matcher: Some(string_matcher(&ValueMatcher::Exact(text))),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_ir::{Inside, SecretName, SecretSource};
    use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
    use prost::Message;

    fn lowered(tls: &UpstreamTls) -> CommonTlsContext {
        let Some(transport_socket::ConfigType::TypedConfig(any)) = lower(tls).config_type else {
            return CommonTlsContext::default();
        };
        let context = UpstreamTlsContext::decode(any.value.as_slice()).unwrap_or_default();
        assert_eq!(context.sni, *tls.server_name);
        context.common_tls_context.unwrap_or_default()
    }

    #[test]
    fn a_certificate_of_the_pod_is_read_from_its_file() {
        let source = SecretSource::File {
            file: "/sds/a.json".into(),
            secret: "a".into(),
        };
        let config = secret_from(&source);
        assert_eq!(config.name, "a");
        let Some(ConfigSourceSpecifier::PathConfigSource(file)) =
            config.sds_config.and_then(|source| source.config_source_specifier)
        else {
            unreachable!("no file");
        };
        assert_eq!(file.path, "/sds/a.json");
    }

    #[test]
    fn the_certificate_is_checked_by_authority_and_name() {
        let tls = UpstreamTls {
            naming: ServerNaming::Fixed,
            server_name: "app.internal".into(),
            authorities: Some(SecretName::from("ca").into()),
            subjects: vec![
                SubjectName::Dns("app.internal".into()),
                SubjectName::Uri("spiffe://x".into()),
            ],
            client_certificate: Some(SecretName::from("mine").into()),
            alpn: vec!["h2".into()],
            inside: Inside::default(),
            parameters: Parameters::default(),
        };
        let context = lowered(&tls);
        let Some(ValidationContextType::CombinedValidationContext(validation)) = context.validation_context_type else {
            unreachable!("no validation");
        };
        let authorities = validation.validation_context_sds_secret_config;
        assert_eq!(authorities.map(|sds| sds.name).as_deref(), Some("ca"));
        let names = validation.default_validation_context.unwrap_or_default();
        let types: Vec<i32> = names.match_typed_subject_alt_names.iter().map(|m| m.san_type).collect();
        assert_eq!(types, [i32::from(SanType::Dns), i32::from(SanType::Uri)]);
        assert_eq!(context.tls_certificate_sds_secret_configs.len(), 1);
        assert_eq!(context.alpn_protocols, ["h2"]);
    }
}
