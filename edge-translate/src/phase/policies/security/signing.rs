//! The Secret that cookies of logins are signed with: one of the controller's own, which no policy names.

use crate::{
    api::{Kind, Metadata, Object, ObjectKey, Secret, SecretData},
    engine::reader::Reader,
    name::{SecretForm, SecretKey},
    phase::policies::secret_text,
};
use std::sync::Arc;

/// Its names, in the namespace of the controller: ours first.
const NAMES: [&str; 2] = ["edge-oidc-hmac", "envoy-oidc-hmac"];
/// The key in it.
const KEY: &str = "hmac-secret";

/// What cookies are signed with, or the Secret that isn't there.
pub(super) fn signing(reader: &Reader<'_>) -> Result<SecretKey, String> {
    let namespace = &reader.settings().controller_namespace;
    let named = NAMES.map(|name| SecretKey {
        id: reader.id(namespace, name),
        key: KEY,
        form: SecretForm::Bytes,
    });
    let found = named
        .into_iter()
        .find(|named| secret_text::text(reader, *named).is_some());
    found.ok_or_else(|| format!("{namespace}/{}", NAMES[0]))
}

/// Secrets of the controller that an object needs without naming them: who reads Secrets only as they are named reads
/// these too.
pub fn needed_of_controller(object: &Object, home: &Arc<str>) -> Vec<ObjectKey> {
    match object {
        Object::SecurityPolicy(policy) if !policy.spec["oidc"].is_null() => {
            let names = NAMES.iter();
            names.map(|name| ObjectKey::new(Kind::Secret, &**home, *name)).collect()
        }
        _ => Vec::new(),
    }
}

/// The Secret of a controller without a cluster, made of its key.
pub fn signing_secret(home: &Arc<str>, key: Vec<u8>) -> Object {
    let secret = Secret {
        metadata: Metadata {
            name: NAMES[0].into(),
            namespace: Arc::clone(home),
            ..Metadata::default()
        },
        data: [(KEY.into(), SecretData::new(key))].into(),
        ..Secret::default()
    };
    Object::Secret(Arc::new(secret))
}
