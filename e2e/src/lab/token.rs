//! Tokens of ServiceAccounts: as the API server gives them out, and signed by its key as it never would.

use super::{Lab, Object};
use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, api::PostParams};
use rustls::{
    SignatureScheme,
    crypto::ring::sign::any_ecdsa_type,
    pki_types::{PrivateKeyDer, pem::PemObject as _},
};
use serde_json::{Value, json};

/// Who signs, as tokens name it.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

impl Lab {
    /// A token of a ServiceAccount for an audience; if it is bound to a pod, it holds for as long as that lives.
    pub fn token(&self, account: &Object, audience: &str, pod: Option<&Object>) -> Result<String> {
        let bound_object_ref = match pod {
            Some(pod) => Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(pod.name.clone()),
                uid: self.get(pod)?["metadata"]["uid"].as_str().map(str::to_owned),
            }),
            None => None,
        };
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: vec![audience.to_owned()],
                bound_object_ref,
                expiration_seconds: Some(3600),
            },
            ..TokenRequest::default()
        };
        let namespace = account.namespace.as_deref().context("an account without a namespace")?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let parameters = PostParams::default();
        let made = accounts.create_token_request(&account.name, &parameters, &request);
        let made = self.runtime.block_on(made)?;
        Ok(made.status.context("a token request without an answer")?.token)
    }

    /// A token with the API server's own signature that expires then, in seconds since 1970: the API server itself
    /// gives out none that holds for less than ten minutes.
    pub fn forged_token(&self, account: &Object, audience: &str, expires: u64) -> Result<String> {
        let namespace = account.namespace.as_deref().unwrap_or_default();
        let uid = self.get(account)?["metadata"]["uid"].clone();
        let begun = expires - 3600;
        let claims = json!({
            "iss": ISSUER, "sub": format!("system:serviceaccount:{namespace}:{}", account.name), "aud": [audience],
            "iat": begun, "nbf": begun, "exp": expires,
            "kubernetes.io": { "namespace": namespace, "serviceaccount": { "name": account.name, "uid": uid } },
        });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&json!({ "alg": "ES256", "typ": "JWT" })), part(&claims));
        let key =
            PrivateKeyDer::from_pem_file(self.folder.join("pki/sa.key")).context("the key of the lab's accounts")?;
        let signer = any_ecdsa_type(&key)?
            .choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256])
            .context("the key of the lab's accounts is no P-256 key")?;
        let signature = plain(&signer.sign(text.as_bytes())?).context("no signature")?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// From the form of X.509 (RFC 3279 §2.2.3) to that of tokens (RFC 7518 §3.4): two numbers of 32 bytes each.
fn plain(der: &[u8]) -> Option<Vec<u8>> {
    let mut rest = der.get(2..)?;
    let mut plain = Vec::with_capacity(64);
    for _ in 0..2 {
        let length = usize::from(*rest.get(1)?);
        let number = rest.get(2..2 + length)?;
        rest = &rest[2 + length..];
        let number = &number[number.iter().take_while(|byte| **byte == 0).count()..];
        plain.resize(plain.len() + 32_usize.checked_sub(number.len())?, 0);
        plain.extend_from_slice(number);
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_signature_are_filled_up_and_lose_their_sign() {
        let mut der = vec![0x30, 0, 2, 33, 0];
        der.extend([0x80; 32]);
        der.extend([2, 1, 7]);
        let plain = plain(&der).unwrap();
        assert_eq!(
            (plain.len(), &plain[..32], plain[62], plain[63]),
            (64, &[0x80; 32][..], 0, 7)
        );
    }
}
