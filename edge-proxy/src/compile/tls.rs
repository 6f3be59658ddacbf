//! Transport sockets → rustls configurations, in two steps like listeners: the message first, its secrets later.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::TransportSocket;
use envoy_types::pb::envoy::config::core::v3::transport_socket::ConfigType;
use envoy_types::pb::envoy::extensions::transport_sockets::raw_buffer::v3::RawBuffer;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::downstream_tls_context::SessionTicketKeysType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CommonTlsContext, DownstreamTlsContext, UpstreamTlsContext,
};
use envoy_types::pb::google::protobuf::Any;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ServerConfig};

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, is, truth, type_name, unpack};
use crate::compile::secret::{self, Secret, SecretKey, SecretKind, Secrets, Validation};
use crate::compile::verify::{CertificateChoice, ClientVerifier, HandshakeCheck, OneCertificate, ServerVerifier, uris};
use crate::config::tls::{DownstreamTls, OwnCertificate, Sni, TlsReports, UpstreamTls};

use self::parameters::{Parameters, parameters};

mod parameters;
#[cfg(test)]
mod tests;

/// TLS termination without its secrets.
#[derive(Debug)]
pub struct DownstreamTlsSpec {
    common: CommonSpec,
    require_client_certificate: bool,
    resumption: Resumption,
}

/// How a client that comes again may spare itself a handshake.
#[derive(Clone, Copy, Debug)]
struct Resumption {
    /// With a ticket that it keeps. Costs no memory here, whatever the number of clients.
    tickets: bool,
    /// With the number of a session that is kept here.
    sessions: bool,
}

/// Sessions that are kept for each filter chain.
const SESSIONS: usize = 20_000;

/// TLS origination without its secrets.
#[derive(Debug)]
pub struct UpstreamTlsSpec {
    common: CommonSpec,
    sni: Sni,
    verify_sni: bool,
}

#[derive(Debug)]
struct CommonSpec {
    parameters: Parameters,
    inline_certificates: Vec<Arc<CertifiedKey>>,
    certificate_refs: Vec<SecretKey>,
    inline_validation: Option<Arc<Validation>>,
    validation_ref: Option<SecretKey>,
    alpn: Vec<Vec<u8>>,
}

fn config<'a>(at: &At<'_>, socket: &'a TransportSocket) -> Result<Option<&'a Any>, Rejection> {
    match &socket.config_type {
        Some(ConfigType::TypedConfig(config)) if is::<RawBuffer>(config) => Ok(None),
        Some(ConfigType::TypedConfig(config)) => Ok(Some(config)),
        None if socket.name == "envoy.transport_sockets.raw_buffer" => Ok(None),
        None => Err(at
            .field("typed_config")
            .error(format!("is required for {:?}", socket.name))),
    }
}

/// The transport socket of a filter chain; `None` is cleartext.
pub(super) fn downstream(
    context: &Context,
    at: &At<'_>,
    socket: &TransportSocket,
) -> Result<Option<DownstreamTlsSpec>, Rejection> {
    let Some(config) = config(at, socket)? else {
        return Ok(None);
    };
    let at = &at.field("typed_config");
    if !is::<DownstreamTlsContext>(config) {
        return Err(at.error(format!(
            "transport socket {:?} is not supported by this proxy",
            type_name(config)
        )));
    }
    let message: DownstreamTlsContext = unpack(at, config)?;
    fields!(at, &message => DownstreamTlsContext {
        common_tls_context, require_client_certificate, require_sni, disable_stateful_session_resumption,
        session_ticket_keys_type;
        // All certificates are looked at in any case; the server's order of suites is kept.
        ignore full_scan_certs_on_sni_mismatch, prefer_client_ciphers;
        // Keys of tickets live for six hours, whatever a resource says; no staples are served.
        refuse ocsp_staple_policy, session_timeout
    });
    if truth(require_sni.as_ref()) {
        return Err(at.unsupported("require_sni"));
    }
    let no_tickets = match session_ticket_keys_type {
        None => false,
        Some(SessionTicketKeysType::DisableStatelessSessionResumption(disabled)) => *disabled,
        Some(_) => return Err(at.unsupported("session_ticket_keys")),
    };
    let common = common(context, &at.field("common_tls_context"), common_tls_context.as_ref())?;
    if common.inline_certificates.is_empty() && common.certificate_refs.is_empty() {
        return Err(at.field("common_tls_context").error("a certificate is required"));
    }
    Ok(Some(DownstreamTlsSpec {
        common,
        require_client_certificate: truth(require_client_certificate.as_ref()),
        resumption: Resumption {
            tickets: !no_tickets,
            sessions: !*disable_stateful_session_resumption,
        },
    }))
}

/// What TLS with a backend makes of a request's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostUse {
    /// Nothing.
    None,
    /// It is asked for by that name (`auto_sni`).
    Asked,
    /// It must be in the certificate as well (`auto_san_validation`).
    Verified,
}

/// The transport socket of a cluster; `None` is cleartext.
pub(super) fn upstream(
    context: &Context,
    at: &At<'_>,
    socket: &TransportSocket,
    of_host: HostUse,
) -> Result<Option<UpstreamTlsSpec>, Rejection> {
    let Some(config) = config(at, socket)? else {
        return Ok(None);
    };
    let at = &at.field("typed_config");
    if !is::<UpstreamTlsContext>(config) {
        return Err(at.error(format!(
            "transport socket {:?} is not supported by this proxy",
            type_name(config)
        )));
    }
    let message: UpstreamTlsContext = unpack(at, config)?;
    fields!(at, &message => UpstreamTlsContext {
        common_tls_context, sni, auto_host_sni, auto_sni_san_validation, allow_renegotiation;
        // Renegotiation does not exist in rustls; key usage is enforced where a chain is verified; sessions are capped.
        ignore max_session_keys, enforce_rsa_key_usage;
        refuse
    });
    if *allow_renegotiation {
        return Err(at.unsupported("allow_renegotiation"));
    }
    let sni = if !sni.is_empty() {
        let name = ServerName::try_from(sni.clone())
            .map_err(|_| at.field("sni").error(format!("{sni:?} is not a host name")))?;
        Sni::Fixed(name)
    } else if *auto_host_sni {
        Sni::Endpoint
    } else if of_host != HostUse::None {
        Sni::Authority
    } else {
        Sni::None
    };
    if of_host == HostUse::Verified && !matches!(sni, Sni::Authority) {
        return Err(at.error("auto_san_validation is supported without sni and auto_host_sni alone"));
    }
    let common = common(context, &at.field("common_tls_context"), common_tls_context.as_ref())?;
    Ok(Some(UpstreamTlsSpec {
        common,
        sni,
        verify_sni: *auto_sni_san_validation || of_host == HostUse::Verified,
    }))
}

fn common(context: &Context, at: &At<'_>, message: Option<&CommonTlsContext>) -> Result<CommonSpec, Rejection> {
    let default = CommonTlsContext::default();
    let message = message.unwrap_or(&default);
    fields!(at, message => CommonTlsContext {
        tls_params, tls_certificates, tls_certificate_sds_secret_configs, alpn_protocols, validation_context_type;
        ignore;
        refuse tls_certificate_provider_instance, custom_tls_certificate_selector,
               tls_certificate_certificate_provider, tls_certificate_certificate_provider_instance, custom_handshaker,
               key_log
    });
    let list = at.field("tls_certificates");
    let inline_certificates = tls_certificates
        .iter()
        .enumerate()
        .map(|(index, message)| {
            secret::certified_key(&list.index(index), message, &*context.files).map(|(certified, _)| certified)
        })
        .collect::<Result<_, _>>()?;
    let list = at.field("tls_certificate_sds_secret_configs");
    let certificate_refs = tls_certificate_sds_secret_configs
        .iter()
        .enumerate()
        .map(|(index, reference)| SecretKey::of(&list.index(index), reference))
        .collect::<Result<_, _>>()?;
    let (inline, validation_ref) = match validation_context_type {
        None => (None, None),
        Some(ValidationContextType::ValidationContext(message)) => (Some(message), None),
        Some(ValidationContextType::ValidationContextSdsSecretConfig(reference)) => (
            None,
            Some(SecretKey::of(
                &at.field("validation_context_sds_secret_config"),
                reference,
            )?),
        ),
        Some(ValidationContextType::CombinedValidationContext(message)) => {
            let at = at.field("combined_validation_context");
            let Some(reference) = &message.validation_context_sds_secret_config else {
                return Err(at.field("validation_context_sds_secret_config").error("is required"));
            };
            let at = at.field("validation_context_sds_secret_config");
            (
                message.default_validation_context.as_ref(),
                Some(SecretKey::of(&at, reference)?),
            )
        }
        Some(_) => {
            return Err(at
                .field("validation_context_type")
                .error("certificate providers are not supported"));
        }
    };
    let inline_validation = match inline {
        None => None,
        Some(message) if validation_ref.is_some() => Some(partial_validation(context, at, message)?),
        Some(message) => Some(Arc::new(
            secret::validation(&at.field("validation_context"), message, &*context.files)?.0,
        )),
    };
    let parameters = parameters(&at.field("tls_params"), tls_params.as_ref())?;
    let alpn = alpn_protocols.iter().map(|name| name.clone().into_bytes()).collect();
    Ok(CommonSpec {
        parameters,
        inline_certificates,
        certificate_refs,
        inline_validation,
        validation_ref,
        alpn,
    })
}

/// The default part of a combined context brings names and digests, the secret brings the authority.
fn partial_validation(
    context: &Context,
    at: &At<'_>,
    message: &envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::CertificateValidationContext,
) -> Result<Arc<Validation>, Rejection> {
    let at = at.field("combined_validation_context");
    let at = at.field("default_validation_context");
    if message.trusted_ca.is_some() || message.system_root_certs.is_some() {
        return Err(at
            .field("trusted_ca")
            .error("must come from the secret of a combined context"));
    }
    let (validation, _) = secret::requirements(&at, message, &*context.files)?;
    Ok(Arc::new(validation))
}

impl CommonSpec {
    fn secrets(&self) -> impl Iterator<Item = &SecretKey> {
        self.certificate_refs.iter().chain(&self.validation_ref)
    }

    fn certificates(&self, at: &At<'_>, secrets: &Secrets) -> Result<Vec<Arc<CertifiedKey>>, Rejection> {
        let mut certificates = self.inline_certificates.clone();
        for key in &self.certificate_refs {
            match &get(at, secrets, key)?.kind {
                SecretKind::Certificate(certificate) => certificates.push(certificate.clone()),
                SecretKind::Validation(_) | SecretKind::Generic(_) => {
                    return Err(at.error(format!("secret {key:?} is not a certificate")));
                }
            }
        }
        Ok(certificates
            .into_iter()
            .map(|certificate| self.parameters.signatures.restrict(certificate))
            .collect())
    }

    /// What applies: the inline part, the secret, or both together.
    fn validations(&self, at: &At<'_>, secrets: &Secrets) -> Result<Vec<Arc<Validation>>, Rejection> {
        let mut validations: Vec<Arc<Validation>> = self.inline_validation.iter().cloned().collect();
        if let Some(key) = &self.validation_ref {
            match &get(at, secrets, key)?.kind {
                SecretKind::Validation(validation) => validations.push(validation.clone()),
                SecretKind::Certificate(_) | SecretKind::Generic(_) => {
                    return Err(at.error(format!("secret {key:?} is not a validation context")));
                }
            }
        }
        Ok(validations)
    }
}

fn get<'a>(at: &At<'_>, secrets: &'a Secrets, key: &SecretKey) -> Result<&'a Secret, Rejection> {
    secrets
        .get(key)
        .map(|secret| &**secret)
        .ok_or_else(|| at.error(format!("secret {key:?} has not arrived")))
}

impl DownstreamTlsSpec {
    /// The secrets that it needs.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretKey> {
        self.common.secrets()
    }

    /// The secret that says which clients are let in, if it is one.
    pub fn trusted(&self) -> Option<&SecretKey> {
        self.common.validation_ref.as_ref()
    }

    /// Adds the secrets.
    pub fn finish(&self, at: &At<'_>, secrets: &Secrets) -> Result<Arc<DownstreamTls>, Rejection> {
        let wrong = |error: rustls::Error| at.error(error.to_string());
        let validations = self.common.validations(at, secrets)?;
        let parameters = &self.common.parameters;
        let builder = ServerConfig::builder_with_provider(parameters.provider.clone())
            .with_protocol_versions(&parameters.versions)
            .map_err(wrong)?;
        let handshake = HandshakeCheck::new(parameters.provider.clone(), parameters.signatures.clone());
        let verifier = ClientVerifier::new(at, handshake, validations, self.require_client_certificate)?;
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(Arc::new(verifier)),
            None => builder.with_no_client_auth(),
        };
        let certificates = self.common.certificates(at, secrets)?;
        let own = certificates.iter().map(|certified| OwnCertificate {
            certified: Arc::clone(certified),
            uris: uris(certified),
        });
        let own = own.collect();
        let mut config = builder.with_cert_resolver(Arc::new(CertificateChoice::new(certificates)));
        config.alpn_protocols = self.common.alpn.clone();
        self.resumption.apply(&mut config).map_err(wrong)?;
        Ok(Arc::new(DownstreamTls::new(config, own)))
    }
}

impl Resumption {
    /// Keys of tickets are made for one configuration: with other certificates, or other rules for those of clients,
    /// nobody resumes what was agreed before.
    fn apply(self, config: &mut ServerConfig) -> Result<(), rustls::Error> {
        if self.tickets {
            config.ticketer = ring::Ticketer::new()?;
        }
        config.session_storage = match self.sessions {
            true => ServerSessionMemoryCache::new(SESSIONS),
            false => Arc::new(NoServerSessionStorage {}),
        };
        if !self.tickets && !self.sessions {
            config.send_tls13_tickets = 0;
        }
        Ok(())
    }
}

impl UpstreamTlsSpec {
    /// The secrets that it needs.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretKey> {
        self.common.secrets()
    }

    /// Adds the secrets. `alpn` is what the cluster's protocol asks for when the context names no list.
    pub fn finish(&self, at: &At<'_>, secrets: &Secrets, alpn: &[&[u8]]) -> Result<UpstreamTls, Rejection> {
        let wrong = |error: rustls::Error| at.error(error.to_string());
        let parameters = &self.common.parameters;
        let handshake = HandshakeCheck::new(parameters.provider.clone(), parameters.signatures.clone());
        let verifier = ServerVerifier::new(handshake, self.common.validations(at, secrets)?, self.verify_sni);
        let builder = ClientConfig::builder_with_provider(parameters.provider.clone())
            .with_protocol_versions(&parameters.versions)
            .map_err(wrong)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut certificates = self.common.certificates(at, secrets)?;
        let mut config = if certificates.is_empty() {
            builder.with_no_client_auth()
        } else {
            builder.with_client_cert_resolver(Arc::new(OneCertificate(certificates.swap_remove(0))))
        };
        let fixed_alpn = !self.common.alpn.is_empty();
        config.alpn_protocols = if fixed_alpn {
            self.common.alpn.clone()
        } else {
            alpn.iter().map(|name| name.to_vec()).collect()
        };
        config.enable_sni = self.sni != Sni::None;
        Ok(UpstreamTls {
            config: Arc::new(config),
            sni: self.sni.clone(),
            fixed_alpn,
            reports: TlsReports::default(),
        })
    }
}
