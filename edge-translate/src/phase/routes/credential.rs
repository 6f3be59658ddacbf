//! What an HTTPRouteFilter injects: a text of a Secret, into a header of requests.
//!
//! Asked by the rules that refer to the filter, which fail where there is nothing to inject, and by the sockets that
//! carry it out.

use crate::{
    api::{HttpRouteFilter, Kind},
    engine::reader::Reader,
    phase::{
        origin,
        reference::{Referent, Referrer, is_permitted},
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
    Some(secret(reader, filter).map(|secret| Credential {
        injected: InjectedCredential {
            header: header.into(),
            existing,
            secret: secret.name.clone(),
        },
        secret,
    }))
}

/// The Secret that a filter names. Permission comes before existence.
fn secret(reader: &Reader<'_>, filter: &HttpRouteFilter) -> Result<Arc<Secret>, String> {
    let own = &filter.metadata.namespace;
    let Some(injection) = filter.spec.credential_injection.as_deref() else {
        return Err("it injects nothing".to_owned());
    };
    let reference = &injection.credential.value_ref;
    let (namespace, name) = (reference.namespace.as_deref().unwrap_or(own), &*reference.name);
    if !reference.group.is_empty() || reference.kind != "Secret" {
        return Err(format!(
            "a credential must be in a Secret, and {}/{} is none",
            reference.group, reference.kind
        ));
    }
    let from = Referrer {
        group: Kind::HttpRouteFilter.group(),
        kind: Kind::HttpRouteFilter.as_str(),
        namespace: own,
    };
    let to = Referent {
        group: "",
        kind: "Secret",
        namespace,
        name,
    };
    if !is_permitted(reader, from, to) {
        return Err(format!(
            "ref to Secret {namespace}/{name} not permitted by any ReferenceGrant"
        ));
    }
    let Some(object) = reader.secret(reader.id(namespace, name)) else {
        return Err(format!("secret {namespace}/{name} does not exist"));
    };
    let value = object.data.get(KEY).map(|bytes| &*bytes.0).unwrap_or_default();
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
