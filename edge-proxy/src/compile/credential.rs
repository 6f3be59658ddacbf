//! What is put into requests of a cluster: the upstream credential injector, with a generic secret.
//!
//! Of clusters only that of the configuration server may ask for one; what routes put into requests is
//! [`crate::compile::filter`]'s. A token that a file holds is read again whenever the secret is.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
use envoy_types::pb::envoy::extensions::filters::http::credential_injector::v3::CredentialInjector;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType;
use envoy_types::pb::envoy::extensions::http::injected_credentials::generic::v3::Generic;
use http::{HeaderName, HeaderValue, header};

use crate::compile::field::{At, Rejection, fields, unpack};
use crate::compile::secret::{SecretKey, SecretKind, Secrets};
use crate::config::cluster::Credential;
use crate::config::filter::credential_injector::{CredentialSlot, Slot};
use crate::config::filter::oauth2::Keys;

/// A header whose value is a secret.
#[derive(Debug)]
pub struct CredentialSpec {
    header: HeaderName,
    prefix: String,
    /// Where the secret is.
    pub secret: SecretKey,
}

/// Compiles the filter of a cluster.
pub(super) fn injector(at: &At<'_>, filter: &HttpFilter) -> Result<CredentialSpec, Rejection> {
    let at = at.field("typed_config");
    let Some(ConfigType::TypedConfig(config)) = &filter.config_type else {
        return Err(at.error("is required"));
    };
    let message: CredentialInjector = unpack(&at, config)?;
    // Nobody else sets the header, so there is nothing to keep or overwrite; without its secret no request is made.
    fields!(at, &message => CredentialInjector { credential; ignore overwrite; refuse allow_request_without_credential });
    generic(&at.field("credential"), credential.as_ref())
}

/// Compiles a generic credential.
pub(super) fn generic(at: &At<'_>, credential: Option<&TypedExtensionConfig>) -> Result<CredentialSpec, Rejection> {
    let Some(TypedExtensionConfig {
        typed_config: Some(config),
        ..
    }) = credential
    else {
        return Err(at.error("is required"));
    };
    let at = at.field("typed_config");
    let message: Generic = unpack(&at, config)?;
    fields!(at, &message => Generic { credential, header, header_value_prefix; ignore; refuse });
    let Some(secret) = credential else {
        return Err(at.field("credential").error("is required"));
    };
    let name = match header.as_str() {
        "" => header::AUTHORIZATION,
        name => HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| at.field("header").error(format!("{name:?} is not a header name")))?,
    };
    Ok(CredentialSpec {
        header: name,
        prefix: header_value_prefix.clone(),
        secret: SecretKey::of(&at.field("credential"), secret)?,
    })
}

/// A filter that waits for a secret, and the place where it looks for it.
#[derive(Debug)]
pub enum CredentialUse {
    /// A header.
    Header(CredentialSpec, Arc<CredentialSlot>),
    /// The secret as it is.
    Bytes(SecretKey, Arc<Slot<Arc<[u8]>>>),
    /// Keys that are made of it.
    Keys(SecretKey, Arc<Slot<Arc<Keys>>>),
}

impl CredentialUse {
    /// Where the secret is.
    pub(super) fn secret(&self) -> &SecretKey {
        match self {
            Self::Header(spec, _) => &spec.secret,
            Self::Bytes(secret, _) | Self::Keys(secret, _) => secret,
        }
    }

    /// Gives the filter what has arrived.
    pub(super) fn finish(&self, secrets: &Secrets) -> Result<(), Rejection> {
        match self {
            Self::Header(spec, slot) => slot.set(spec.finish(secrets)?.value.clone()),
            Self::Bytes(secret, slot) => slot.set(bytes(secret, secrets)?.into()),
            Self::Keys(secret, slot) => {
                let keys = Keys::of(bytes(secret, secrets)?);
                slot.set(Arc::new(keys.ok_or_else(|| At::root().error("no keys can be made"))?));
            }
        }
        Ok(())
    }
}

/// A generic secret.
fn bytes<'s>(key: &SecretKey, secrets: &'s Secrets) -> Result<&'s [u8], Rejection> {
    match secrets.get(key).map(|secret| &secret.kind) {
        Some(SecretKind::Generic(secret)) => Ok(secret),
        _ => Err(At::root()
            .field("credential")
            .error(format!("secret {key:?} is not a generic secret"))),
    }
}

impl CredentialSpec {
    /// The header that holds it.
    pub(super) fn header(&self) -> &HeaderName {
        &self.header
    }

    /// Adds the secret.
    pub(super) fn finish(&self, secrets: &Secrets) -> Result<Arc<Credential>, Rejection> {
        let at = At::root();
        let at = at.field("credential");
        let secret = bytes(&self.secret, secrets)?;
        let mut value = HeaderValue::from_bytes(&[self.prefix.as_bytes(), secret.trim_ascii_end()].concat())
            .map_err(|_| at.error("the secret can't stand in a header"))?;
        value.set_sensitive(true);
        Ok(Arc::new(Credential {
            header: self.header.clone(),
            value,
        }))
    }
}
