//! The keys of an issuer, and what they have signed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::signature::{RsaPublicKeyComponents, VerificationAlgorithm};
use serde_json::Value;

/// The keys of an issuer (RFC 7517).
#[derive(Debug, Default)]
pub struct KeySet(pub Vec<Key>);

/// A key.
pub struct Key {
    /// Its name.
    pub id: Option<Box<str>>,
    /// The algorithm that it is for, if it says so.
    pub algorithm: Option<Algorithm>,
    /// The key itself.
    pub material: Material,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key {:?}", self.id)
    }
}

/// A key itself.
pub enum Material {
    /// Of RSA: the modulus and the exponent.
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    /// A point on the curve of this algorithm.
    Curve(Algorithm, Vec<u8>),
    /// A secret that both sides know.
    Secret(Vec<u8>),
}

/// Algorithms of signatures (RFC 7518 §3.1, RFC 8037).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
    Hs256,
    Hs384,
    Hs512,
}

impl Algorithm {
    /// The algorithm of this name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            "EdDSA" => Self::EdDsa,
            "HS256" => Self::Hs256,
            "HS384" => Self::Hs384,
            "HS512" => Self::Hs512,
            _ => return None,
        })
    }
}

impl Key {
    /// Whether it can be the one that has signed by this algorithm.
    pub fn fits(&self, algorithm: Algorithm) -> bool {
        use Algorithm as A;
        let kind = match &self.material {
            Material::Rsa(_) => matches!(
                algorithm,
                A::Rs256 | A::Rs384 | A::Rs512 | A::Ps256 | A::Ps384 | A::Ps512
            ),
            Material::Curve(curve, _) => *curve == algorithm,
            Material::Secret(_) => matches!(algorithm, A::Hs256 | A::Hs384 | A::Hs512),
        };
        kind && self.algorithm.is_none_or(|own| own == algorithm)
    }

    /// Whether it has signed a message.
    pub fn has_signed(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        use ring::signature as s;
        if !self.fits(algorithm) {
            return false;
        }
        match &self.material {
            Material::Rsa(key) => {
                let parameters = match algorithm {
                    Algorithm::Rs256 => &s::RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::Rs384 => &s::RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::Rs512 => &s::RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::Ps256 => &s::RSA_PSS_2048_8192_SHA256,
                    Algorithm::Ps384 => &s::RSA_PSS_2048_8192_SHA384,
                    Algorithm::Ps512 => &s::RSA_PSS_2048_8192_SHA512,
                    _ => return false,
                };
                key.verify(parameters, message, signature).is_ok()
            }
            Material::Curve(curve, point) => {
                let parameters: &dyn VerificationAlgorithm = match curve {
                    Algorithm::Es256 => &s::ECDSA_P256_SHA256_FIXED,
                    Algorithm::Es384 => &s::ECDSA_P384_SHA384_FIXED,
                    Algorithm::EdDsa => &s::ED25519,
                    _ => return false,
                };
                s::UnparsedPublicKey::new(parameters, point)
                    .verify(message, signature)
                    .is_ok()
            }
            Material::Secret(secret) => {
                let digest = match algorithm {
                    Algorithm::Hs256 => hmac::HMAC_SHA256,
                    Algorithm::Hs384 => hmac::HMAC_SHA384,
                    Algorithm::Hs512 => hmac::HMAC_SHA512,
                    _ => return false,
                };
                hmac::verify(&hmac::Key::new(digest, secret), message, signature).is_ok()
            }
        }
    }
}

impl KeySet {
    /// A set of keys. Keys of kinds that aren't known are left out: what they have signed is refused, which is no
    /// reason to refuse the listener that has them.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let document: Value = serde_json::from_slice(bytes).map_err(|_| "is not JSON".to_owned())?;
        let keys = document.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or_else(|| "has no list of keys".to_owned())?;
        if keys.is_empty() {
            return Err("has no key".to_owned());
        }
        Ok(Self(keys.iter().filter_map(key).collect()))
    }
}

fn key(key: &Value) -> Option<Key> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?.trim_end_matches('=')).ok();
    let point = |size: usize| {
        let (x, y) = (bytes("x")?, bytes("y")?);
        // Uncompressed (SEC 1 §2.3.3).
        (x.len() == size && y.len() == size).then(|| [&[4], &*x, &*y].concat())
    };
    // As in Envoy: where it isn't said, the curve is that of the algorithm, or the first.
    let usual = match text("alg") {
        Some("ES384") => "P-384",
        _ => "P-256",
    };
    let curve = text("crv").or((text("kty") == Some("EC")).then_some(usual));
    let material = match (text("kty")?, curve) {
        ("RSA", _) => Material::Rsa(RsaPublicKeyComponents {
            n: bytes("n")?,
            e: bytes("e")?,
        }),
        ("EC", Some("P-256")) => Material::Curve(Algorithm::Es256, point(32)?),
        ("EC", Some("P-384")) => Material::Curve(Algorithm::Es384, point(48)?),
        ("OKP", Some("Ed25519")) => Material::Curve(Algorithm::EdDsa, bytes("x").filter(|x| x.len() == 32)?),
        ("oct", _) => Material::Secret(bytes("k").filter(|secret| !secret.is_empty())?),
        _ => return None,
    };
    let algorithm = match text("alg") {
        None => None,
        Some(name) => Some(Algorithm::named(name)?),
    };
    Some(Key {
        id: text("kid").map(Into::into),
        algorithm,
        material,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(keys: Value) -> Result<Vec<Option<Algorithm>>, String> {
        let set = KeySet::read(json!({ "keys": keys }).to_string().as_bytes())?;
        let curve = |key: &Key| match key.material {
            Material::Curve(curve, _) => Some(curve),
            _ => None,
        };
        Ok(set.0.iter().map(curve).collect())
    }

    #[test]
    fn a_curve_that_is_not_said_is_that_of_the_algorithm_or_the_first() {
        let point = |size: usize| URL_SAFE_NO_PAD.encode(vec![1; size]);
        let (small, large) = (point(32), point(48));
        let plain = json!({"kty": "EC", "x": small, "y": small});
        let named = json!({"kty": "EC", "alg": "ES384", "x": large, "y": large});
        assert_eq!(
            read(json!([plain, named])),
            Ok(vec![Some(Algorithm::Es256), Some(Algorithm::Es384)])
        );
    }

    #[test]
    fn keys_of_other_kinds_verify_nothing_and_stop_nobody() {
        let point = URL_SAFE_NO_PAD.encode([1; 66]);
        assert_eq!(
            read(json!([{"kty": "EC", "crv": "P-521", "x": point, "y": point}])),
            Ok(vec![])
        );
        assert!(read(json!([])).is_err());
    }
}
