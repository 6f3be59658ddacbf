//! What an HTTPRouteFilter injects: a text of a Secret, into a header of requests.
//!
//! Asked by the rules that refer to the filter, which fail where there is nothing to inject, and by the sockets that
//! carry it out.

use crate::{
    api::{HttpRouteFilter, Kind, SecretRef},
    engine::reader::Reader,
    phase::{
        origin,
        reference::{self, SecretRefusal},
    },
};
use edge_ir::{ExistingHeader, InjectedCredential, Secret, SecretBytes, SecretContent};
use std::sync::Arc;

/// A credential, and how it is injected.
pub(crate) struct Credential {
    /// How.
    pub(crate) injected: InjectedCredential,
    /// What.
    pub(crate) secret: Arc<Secret>,
}

/// Key of the text in the Secret.
const KEY: &str = "credential";
/// The header that it goes into where the filter names none.
const HEADER: &str = "Authorization";

/// What a filter injects, or why it can't; none where it injects nothing.
pub(crate) fn credential(reader: &Reader<'_>, filter: &HttpRouteFilter) -> Option<Result<Credential, String>> {
    let injection = filter.spec.credential_injection.as_deref()?;
    let header = injection.header.as_deref().unwrap_or(HEADER);
    let existing = match injection.overwrite {
        true => ExistingHeader::Replaced,
        false => ExistingHeader::Kept,
    };
    let found = secret(reader, &filter.metadata.namespace, &injection.credential.value_ref);
    Some(found.map(|secret| Credential {
        injected: InjectedCredential {
            header: header.into(),
            existing,
            secret: secret.name.clone(),
        },
        secret,
    }))
}

/// The Secret that a filter of a namespace names. Permission comes before existence.
fn secret(reader: &Reader<'_>, own: &str, reference: &SecretRef) -> Result<Arc<Secret>, String> {
    let (group, kind, name) = (&reference.group, &reference.kind, &*reference.name);
    let namespace = reference.namespace.as_deref().unwrap_or(own);
    let id = reference::secret(reader, Kind::HttpRouteFilter, own, reference).map_err(|refusal| match refusal {
        SecretRefusal::Kind => format!("a credential must be in a Secret, and {group}/{kind} is none"),
        SecretRefusal::NotPermitted => {
            format!("ref to Secret {namespace}/{name} not permitted by any ReferenceGrant")
        }
    })?;
    let Some(object) = reader.secret(id) else {
        return Err(format!("secret {namespace}/{name} does not exist"));
    };
    let value = object.data.get(KEY).map(|bytes| &**bytes.expose()).unwrap_or_default();
    if value.is_empty() {
        return Err(format!("secret {namespace}/{name} has nothing under the key `{KEY}`"));
    }
    if value.iter().any(|b| *b != b'\t' && (*b < b' ' || *b == 0x7f)) {
        return Err(format!(
            "the key `{KEY}` of secret {namespace}/{name} can't be the value of a header: it holds line breaks or \
             other control characters"
        ));
    }
    let metadata = &object.metadata;
    let origin = origin::origin(
        Kind::Secret,
        Arc::clone(&metadata.namespace),
        Arc::clone(&metadata.name),
    );
    Ok(Arc::new(Secret {
        name: format!("{namespace}/{name}/{KEY}").into(),
        content: SecretContent::Generic {
            value: SecretBytes::new(value.to_vec()),
        },
        origins: Arc::new([origin]),
    }))
}
