//! The Secret that cookies of logins are signed with: one of the controller's own, which no policy names.

use crate::{
    api::{Kind, Metadata, Object, ObjectKey, Secret, SecretData},
    engine::reader::Reader,
    name::{SecretForm, SecretKey},
    phase::policies::secret_text,
};
use edge_ir::LoginProvider;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Its names, in the namespace of the controller: ours first.
const NAMES: [&str; 2] = ["edge-oidc-hmac", "envoy-oidc-hmac"];
/// The key in it.
const KEY: &str = "hmac-secret";

/// What cookies are signed with, or the Secret that isn't there. Policies share it: what a policy signs with is its
/// [own].
pub(super) fn shared(reader: &Reader<'_>) -> Result<SecretKey, String> {
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

/// What a policy signs with: a key of its own, made of the shared one, for a session that one policy grants is none of
/// another's. Else whoever may have a login anywhere would have one everywhere, by changing names of cookies.
pub(super) fn own(shared: SecretKey, owner: &str, issuer: &str, login: &LoginProvider, client: &str) -> SecretKey {
    SecretKey {
        form: SecretForm::Own(identity(owner, issuer, login, client)),
        ..shared
    }
}

/// What tells a policy's logins from others: half of a digest, which nobody finds another one for.
fn identity(owner: &str, issuer: &str, login: &LoginProvider, client: &str) -> [u8; 16] {
    // None of them holds a line break.
    let parts = [owner, issuer, &login.authorization, &login.token, client];
    let digest = Sha256::digest(parts.join("\n"));
    std::array::from_fn(|i| digest[i])
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

#[cfg(test)]
mod tests {
    use super::*;
    use edge_ir::ClientProof;
    use std::collections::BTreeSet;

    #[test]
    fn policies_sign_with_keys_of_their_own() {
        let of = |[owner, issuer, authorization, token, client]: [&str; 5]| {
            let provider = LoginProvider {
                authorization: authorization.into(),
                token: token.into(),
                end_session: None,
                cluster: "idp".into(),
                retry: None,
                proof: ClientProof::Header,
            };
            identity(owner, issuer, &provider, client)
        };
        let usual = [
            "securitypolicy/a/p",
            "https://idp.example",
            "https://idp.example/auth",
            "https://idp.example/token",
            "app",
        ];
        let mut seen = BTreeSet::from([of(usual)]);
        for changed in 0..usual.len() {
            let other = format!("{}x", usual[changed]);
            let mut parts = usual;
            parts[changed] = &other;
            assert!(seen.insert(of(parts)), "{other}");
        }
        assert!(!seen.insert(of(usual)), "it is the same each time");
    }
}
