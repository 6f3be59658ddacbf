//! Secrets. The only place where a private key is written out.

use crate::snapshot::{Body, Entry};
use edge_ir::{Secret, SecretContent};
use envoy_types::pb::envoy::{
    config::core::v3::{DataSource, data_source::Specifier},
    extensions::transport_sockets::tls::v3::{
        self as pb, CertificateValidationContext, GenericSecret, TlsCertificate, secret::Type,
    },
};
use prost::Message;

/// Where the images of proxies keep the authorities of their system.
pub(crate) const SYSTEM_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Encodes a secret.
pub(super) fn encode_secret(secret: &Secret) -> Entry {
    let content = match &secret.content {
        SecretContent::Certificate { chain, key } => Type::TlsCertificate(TlsCertificate {
            certificate_chain: Some(inline(chain.as_bytes())),
            private_key: Some(inline(key.expose())),
            ..Default::default()
        }),
        SecretContent::Generic { value } => Type::GenericSecret(GenericSecret {
            secret: Some(inline(value.expose())),
            ..Default::default()
        }),
        SecretContent::Authorities { bundle, revoked } => Type::ValidationContext(CertificateValidationContext {
            trusted_ca: Some(inline(bundle.as_bytes())),
            crl: revoked.as_ref().map(|list| inline(list.as_bytes())),
            ..Default::default()
        }),
        SecretContent::SystemAuthorities => Type::ValidationContext(CertificateValidationContext {
            trusted_ca: Some(DataSource {
                specifier: Some(Specifier::Filename(SYSTEM_BUNDLE.to_owned())),
                ..Default::default()
            }),
            ..Default::default()
        }),
    };
    let message = pb::Secret {
        name: secret.name.to_string(),
        r#type: Some(content),
    };
    Entry::new(
        secret.name.as_str(),
        Body::Whole(message.encode_to_vec().into()),
        secret.origins.clone(),
    )
}

fn inline(bytes: &[u8]) -> DataSource {
    DataSource {
        specifier: Some(Specifier::InlineBytes(bytes.to_vec())),
        ..Default::default()
    }
}
