//! An issuer of tokens: Ed25519 signatures (RFC 8037) in the compact form (RFC 7515 §7.1).

use anyhow::Result;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PKCS_ED25519, SigningKey as _};
use serde_json::{Value, json};

/// Seconds since 1970: the year 2100.
pub(super) const LATER: u64 = 4_102_444_800;
/// The year 2001.
pub(super) const EARLIER: u64 = 978_307_200;

/// Signs tokens with a key of its own.
pub(super) struct Signer {
    key: KeyPair,
}

impl Signer {
    /// A new one.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            key: KeyPair::generate_for(&PKCS_ED25519)?,
        })
    }

    /// Its key as a set of keys (RFC 7517 §5).
    pub(super) fn keys(&self) -> String {
        let public = URL_SAFE_NO_PAD.encode(self.key.public_key_raw());
        let key = json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": "one", "x": public});
        json!({"keys": [key]}).to_string()
    }

    /// A token that claims something, as a header's value.
    pub(super) fn bearer(&self, claims: &Value) -> Result<String> {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({"alg": "EdDSA", "kid": "one"})), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(signed.as_bytes())?);
        Ok(format!("Bearer {signed}.{signature}"))
    }
}
