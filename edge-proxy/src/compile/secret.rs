//! Secrets: certificates with keys, and what a peer's certificate must meet.

mod authority;
mod revocation;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use data_encoding::HEXLOWER_PERMISSIVE;
use envoy_types::pb::envoy::config::core::v3::api_config_source::ApiType;
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use envoy_types::pb::envoy::config::core::v3::{ApiConfigSource, ApiVersion, GrpcService};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::certificate_validation_context::TrustChainVerification;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::secret::Type;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::subject_alt_name_matcher::SanType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, GenericSecret, SdsSecretConfig, Secret as ProtoSecret, TlsCertificate,
};
use prost::Message;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::der_parser::oid::Oid;
use x509_parser::prelude::{FromDer, X509Certificate};
use xxhash_rust::xxh3::xxh3_64;

pub use self::authority::Authorities;
pub(super) use self::authority::{Authority, Period, may_sign};
pub use self::revocation::RevocationList;
use crate::compile::field::{At, Rejection, fields, truth};
use crate::compile::files::{self, Files};
use crate::compile::header::string_condition;
use crate::config::header::StringCondition;

/// Where a secret comes from and what it is called there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretKey {
    /// Static in the bootstrap, or by SDS over ADS.
    Named(String),
    /// In a file in the form of an SDS answer.
    File {
        /// The file.
        path: String,
        /// The secret's name in it.
        name: String,
    },
    /// By SDS from a server of its own.
    Server {
        /// The server's cluster.
        cluster: String,
        /// What the server calls it.
        name: String,
    },
}

impl SecretKey {
    /// The key that a reference stands for.
    pub(super) fn of(at: &At<'_>, reference: &SdsSecretConfig) -> Result<Self, Rejection> {
        let name = reference.name.clone();
        let source = reference
            .sds_config
            .as_ref()
            .and_then(|source| source.config_source_specifier.as_ref());
        match (source, &reference.sds_config) {
            (None, None) | (Some(ConfigSourceSpecifier::Ads(_) | ConfigSourceSpecifier::Self_(_)), _) => {
                Ok(Self::Named(name))
            }
            (Some(ConfigSourceSpecifier::PathConfigSource(file)), _) => Ok(Self::File {
                path: file.path.clone(),
                name,
            }),
            #[allow(deprecated)]
            (Some(ConfigSourceSpecifier::Path(path)), _) => Ok(Self::File {
                path: path.clone(),
                name,
            }),
            (Some(ConfigSourceSpecifier::ApiConfigSource(source)), _) => Ok(Self::Server {
                cluster: server(&at.field("sds_config").field("api_config_source"), source)?,
                name,
            }),
            _ => Err(at
                .field("sds_config")
                .error("only ads, self, path_config_source and api_config_source are supported by this proxy")),
        }
    }
}

/// The cluster of a server that is asked over a stream of gRPC.
fn server(at: &At<'_>, source: &ApiConfigSource) -> Result<String, Rejection> {
    fields!(at, source => ApiConfigSource {
        api_type, transport_api_version, grpc_services;
        // The node is said in the first message of each stream, which is where servers look for it.
        ignore set_node_on_first_message_only;
        refuse cluster_names, refresh_delay, request_timeout, rate_limit_settings, config_validators
    });
    if *api_type != i32::from(ApiType::Grpc) {
        return Err(at.field("api_type").error("only GRPC is supported by this proxy"));
    }
    if *transport_api_version != i32::from(ApiVersion::V3) {
        return Err(at
            .field("transport_api_version")
            .error("only V3 is supported by this proxy"));
    }
    let at = at.field("grpc_services");
    let [service] = grpc_services.as_slice() else {
        return Err(at.error("one service is supported by this proxy"));
    };
    let at = at.index(0);
    fields!(&at, service => GrpcService {
        target_specifier;
        ignore;
        refuse timeout, initial_metadata, retry_policy
    });
    let Some(TargetSpecifier::EnvoyGrpc(service)) = target_specifier else {
        return Err(at
            .field("target_specifier")
            .error("only envoy_grpc is supported by this proxy"));
    };
    let at = at.field("envoy_grpc");
    fields!(&at, service => EnvoyGrpc {
        cluster_name;
        ignore;
        refuse authority, retry_policy, max_receive_message_length, skip_envoy_headers
    });
    Ok(cluster_name.clone())
}

/// All secrets that have arrived.
pub type Secrets = BTreeMap<SecretKey, Arc<Secret>>;

/// A compiled secret.
#[derive(Debug)]
pub struct Secret {
    /// Changes when the secret (or a file that it names) does.
    pub hash: u64,
    /// What it is.
    pub kind: SecretKind,
}

/// The kinds of secrets.
pub enum SecretKind {
    /// A certificate chain with its key.
    Certificate(Arc<CertifiedKey>),
    /// Requirements for the peer's certificate.
    Validation(Arc<Validation>),
    /// Something to show, a token for one.
    Generic(Box<[u8]>),
}

/// What a generic secret is, nobody is shown.
impl fmt::Debug for SecretKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(certificate) => f.debug_tuple("Certificate").field(certificate).finish(),
            Self::Validation(validation) => f.debug_tuple("Validation").field(validation).finish(),
            Self::Generic(_) => f.write_str("Generic"),
        }
    }
}

/// What a peer's certificate must meet.
#[derive(Debug, Default)]
pub struct Validation {
    /// Trust anchors; `None`: the chain is not verified.
    pub roots: Option<Arc<Authorities>>,
    /// What becomes of a certificate that doesn't meet all this.
    pub trust: Trust,
    /// A certificate may be out of date.
    pub accepts_expired: bool,
    /// Revocation lists.
    pub crls: Vec<Arc<RevocationList>>,
    /// Only the peer's own certificate is looked for in them.
    pub crls_of_leaf: bool,
    /// One of them must match a subject alternative name; empty: any name.
    pub names: Vec<NameCondition>,
    /// One of them must be the SHA-256 of the certificate; empty: any.
    pub hashes: Vec<[u8; 32]>,
    /// One of them must be the SHA-256 of the public key; empty: any.
    pub key_hashes: Vec<[u8; 32]>,
}

/// What becomes of a certificate that doesn't meet the requirements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The connection fails.
    #[default]
    Verified,
    /// The peer is served as if it had none: nothing is verified but that it holds the key.
    Unverified,
}

impl Validation {
    /// Whether it demands something of a certificate, so that none won't do.
    pub fn demands(&self) -> bool {
        !(self.names.is_empty() && self.hashes.is_empty() && self.key_hashes.is_empty())
    }
}

/// A condition on subject alternative names of one type.
#[derive(Debug)]
pub struct NameCondition {
    /// Which names.
    pub kind: NameKind,
    /// What about them.
    pub value: StringCondition,
}

/// Types of subject alternative names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// Host name; a wildcard in the certificate matches an exact condition.
    Dns,
    /// URI.
    Uri,
    /// Mail address.
    Email,
    /// IP address.
    Ip,
    /// Another one, by its object identifier.
    Other(Oid<'static>),
}

/// The files that a secret names.
pub fn files(message: &ProtoSecret) -> Vec<&Path> {
    let sources = match &message.r#type {
        Some(Type::TlsCertificate(it)) => [&it.certificate_chain, &it.private_key],
        Some(Type::ValidationContext(it)) => [&it.trusted_ca, &it.crl],
        Some(Type::GenericSecret(it)) => [&it.secret, &None],
        Some(Type::SessionTicketKeys(_)) | None => [&None, &None],
    };
    let named = sources
        .into_iter()
        .flatten()
        .filter_map(|source| match &source.specifier {
            Some(Specifier::Filename(path)) => Some(Path::new(path)),
            _ => None,
        });
    named.collect()
}

/// Compiles a secret.
pub fn secret(files: &dyn Files, message: &ProtoSecret) -> Result<Secret, Rejection> {
    let at = At::root();
    match &message.r#type {
        Some(Type::TlsCertificate(certificate)) => {
            let (key, hash) = certified_key(&at.field("tls_certificate"), certificate, files)?;
            Ok(Secret {
                hash,
                kind: SecretKind::Certificate(key),
            })
        }
        Some(Type::ValidationContext(context)) => {
            let (validation, hash) = validation(&at.field("validation_context"), context, files)?;
            Ok(Secret {
                hash,
                kind: SecretKind::Validation(Arc::new(validation)),
            })
        }
        Some(Type::SessionTicketKeys(_)) => Err(at.unsupported("session_ticket_keys")),
        Some(Type::GenericSecret(generic)) => {
            let at = at.field("generic_secret");
            fields!(at, generic => GenericSecret { secret; ignore; refuse secrets });
            let Some(source) = secret else {
                return Err(at.field("secret").error("is required"));
            };
            let bytes = files::bytes(&at.field("secret"), source, files)?;
            // A file that is about to be written: to say nothing would be taken for an anonymous client.
            if bytes.trim_ascii().is_empty() {
                return Err(at.field("secret").error("is empty"));
            }
            Ok(Secret {
                hash: xxh3_64(&bytes),
                kind: SecretKind::Generic(bytes.into()),
            })
        }
        None => Err(at.error("tls_certificate, validation_context or generic_secret is required")),
    }
}

/// A certificate chain with its key, checked to belong together; and a hash of both.
pub(super) fn certified_key(
    at: &At<'_>,
    message: &TlsCertificate,
    files: &dyn Files,
) -> Result<(Arc<CertifiedKey>, u64), Rejection> {
    fields!(at, message => TlsCertificate {
        certificate_chain, private_key;
        // Timestamps are an offer to clients, which work without.
        ignore watched_directory, signed_certificate_timestamp;
        // A certificate may say that clients must not trust it without its staple.
        refuse ocsp_staple, pkcs12, private_key_provider, password, tls_params
    });
    let at_chain = at.field("certificate_chain");
    let at_key = at.field("private_key");
    let Some(chain) = certificate_chain else {
        return Err(at_chain.error("is required"));
    };
    let Some(key) = private_key else {
        return Err(at_key.error("is required"));
    };
    let chain_pem = files::bytes(&at_chain, chain, files)?;
    let key_pem = files::bytes(&at_key, key, files)?;
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&chain_pem)
        .collect::<Result<_, _>>()
        .map_err(|error| at_chain.error(format!("is not PEM: {error}")))?;
    let private = PrivateKeyDer::from_pem_slice(&key_pem)
        .map_err(|error| at_key.error(format!("is not a private key in PEM: {error}")))?;
    let signer = rustls::crypto::ring::sign::any_supported_type(&private)
        .map_err(|error| at_key.error(format!("can't be used: {error}")))?;
    let own = public_key(&at_chain, &certificates)?;
    match signer.public_key() {
        Some(key) if *key == *own => {}
        Some(_) => return Err(at_key.error("does not belong to the certificate: their public keys differ")),
        None => return Err(at_key.error("can't be compared with the certificate")),
    }
    let certified = CertifiedKey::new(certificates, signer);
    let hash = xxh3_64(&chain_pem) ^ xxh3_64(&key_pem).rotate_left(1);
    Ok((Arc::new(certified), hash))
}

/// The public key of the first certificate, encoded. Not read by rustls, whose reader knows version 3 alone (RFC 5280
/// §4.1.2.1): nothing else hinders a certificate of version 1, which `openssl x509 -req` makes, from being presented.
fn public_key(at: &At<'_>, certificates: &[CertificateDer<'_>]) -> Result<Vec<u8>, Rejection> {
    let Some(leaf) = certificates.first() else {
        return Err(at.error("holds no certificate"));
    };
    match X509Certificate::from_der(leaf) {
        Ok((_, parsed)) => Ok(parsed.public_key().raw.to_vec()),
        Err(error) => Err(at.error(format!("its first certificate can't be read: {error}"))),
    }
}

/// Requirements for a peer's certificate, and a hash of them with the files they name.
pub(super) fn validation(
    at: &At<'_>,
    message: &CertificateValidationContext,
    files: &dyn Files,
) -> Result<(Validation, u64), Rejection> {
    let (validation, hash) = requirements(at, message, files)?;
    // Naming what a certificate must say without trusting an authority would check nothing.
    if validation.roots.is_none() && !(validation.names.is_empty() && validation.crls.is_empty()) {
        let at = at.field("trusted_ca");
        return Err(at.error("is required together with subject alternative names or a revocation list"));
    }
    Ok((validation, hash))
}

/// The same, of which others may bring the authority.
pub(super) fn requirements(
    at: &At<'_>,
    message: &CertificateValidationContext,
    files: &dyn Files,
) -> Result<(Validation, u64), Rejection> {
    fields!(at, message => CertificateValidationContext {
        trusted_ca, system_root_certs, verify_certificate_spki, verify_certificate_hash,
        match_typed_subject_alt_names, match_subject_alt_names, crl, require_signed_certificate_timestamp,
        max_verify_depth, only_verify_leaf_cert_crl, allow_expired_certificate, trust_chain_verification;
        // The CA list is a hint for clients.
        ignore watched_directory, suppress_client_ca_list;
        refuse ca_certificate_provider_instance, custom_validator_config
    });
    let trust = match TrustChainVerification::try_from(*trust_chain_verification) {
        Ok(TrustChainVerification::VerifyTrustChain) => Trust::Verified,
        Ok(TrustChainVerification::AcceptUntrusted) => Trust::Unverified,
        Err(_) => return Err(at.unsupported("trust_chain_verification")),
    };
    if truth(require_signed_certificate_timestamp.as_ref()) {
        return Err(at.unsupported("require_signed_certificate_timestamp"));
    }
    if max_verify_depth.is_some() {
        return Err(at.unsupported("max_verify_depth"));
    }
    let mut hash = xxh3_64(&message.encode_to_vec());
    let at_ca = at.field("trusted_ca");
    let pem = match (trusted_ca, system_root_certs) {
        (Some(source), _) => Some(files::bytes(&at_ca, source, files)?),
        (None, Some(_)) => {
            Some(files::system_roots(files).ok_or_else(|| at.field("system_root_certs").error("none are installed"))?)
        }
        (None, None) => None,
    };
    let roots = match pem {
        None => None,
        Some(pem) => {
            hash ^= xxh3_64(&pem).rotate_left(1);
            Some(Arc::new(Authorities::read(&at_ca, &pem)?))
        }
    };
    let mut crls = Vec::new();
    if let Some(source) = crl {
        let at = at.field("crl");
        let pem = files::bytes(&at, source, files)?;
        hash ^= xxh3_64(&pem).rotate_left(2);
        crls = RevocationList::read(&at, &pem)?.into_iter().map(Arc::new).collect();
    }
    let names = name_conditions(at, match_typed_subject_alt_names, match_subject_alt_names)?;
    let validation = Validation {
        roots,
        trust,
        accepts_expired: *allow_expired_certificate,
        crls,
        crls_of_leaf: *only_verify_leaf_cert_crl,
        names,
        hashes: digests(&at.field("verify_certificate_hash"), verify_certificate_hash, colon_hex)?,
        key_hashes: digests(&at.field("verify_certificate_spki"), verify_certificate_spki, base64)?,
    };
    Ok((validation, hash))
}

fn name_conditions(
    at: &At<'_>,
    typed: &[envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::SubjectAltNameMatcher],
    untyped: &[envoy_types::pb::envoy::r#type::matcher::v3::StringMatcher],
) -> Result<Vec<NameCondition>, Rejection> {
    let mut names = Vec::new();
    let list = at.field("match_typed_subject_alt_names");
    for (index, matcher) in typed.iter().enumerate() {
        let at = list.index(index);
        let kind = match SanType::try_from(matcher.san_type) {
            Ok(SanType::Dns) => NameKind::Dns,
            Ok(SanType::Uri) => NameKind::Uri,
            Ok(SanType::Email) => NameKind::Email,
            Ok(SanType::IpAddress) => NameKind::Ip,
            Ok(SanType::OtherName) => NameKind::Other(object_identifier(&at.field("oid"), &matcher.oid)?),
            Ok(SanType::Unspecified) | Err(_) => return Err(at.unsupported("san_type")),
        };
        let at = at.field("matcher");
        let Some(matcher) = &matcher.matcher else {
            return Err(at.error("is required"));
        };
        names.push(NameCondition {
            kind,
            value: string_condition(&at, matcher)?,
        });
    }
    let list = at.field("match_subject_alt_names");
    for (index, matcher) in untyped.iter().enumerate() {
        // The older form looks at every type.
        for kind in [NameKind::Dns, NameKind::Uri, NameKind::Email, NameKind::Ip] {
            names.push(NameCondition {
                kind,
                value: string_condition(&list.index(index), matcher)?,
            });
        }
    }
    Ok(names)
}

fn object_identifier(at: &At<'_>, text: &str) -> Result<Oid<'static>, Rejection> {
    text.parse()
        .map_err(|_| at.error(format!("{text:?} is no object identifier")))
}

fn digests(at: &At<'_>, list: &[String], decode: impl Fn(&str) -> Option<Vec<u8>>) -> Result<Vec<[u8; 32]>, Rejection> {
    list.iter()
        .enumerate()
        .map(|(index, text)| {
            decode(text)
                .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
                .ok_or_else(|| at.index(index).error("is not a SHA-256 digest"))
        })
        .collect()
}

/// As OpenSSL writes a digest, with colons between the bytes or without.
fn colon_hex(text: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(text.replace(':', "").as_bytes()).ok()
}

fn base64(text: &str) -> Option<Vec<u8>> {
    use ::base64::Engine as _;
    ::base64::engine::general_purpose::STANDARD.decode(text).ok()
}
