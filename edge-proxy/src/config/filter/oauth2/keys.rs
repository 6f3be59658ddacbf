//! What sessions are signed with, and what tokens are sealed with.
//!
//! One secret, and keys made of it, so that no signature or seal can stand for another. A session is signed with
//! HMAC-SHA-256 of the secret itself over the same text as Envoy signs, so that either proxy knows the sessions of the
//! other where tokens stay readable. Seals are our own: AES-256-GCM, which nobody can change unnoticed, where Envoy has
//! AES-256-CBC; so sealed tokens of the one mean nothing to the other, and its clients log in once more.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// Keys made of a secret.
pub struct Keys {
    sessions: hmac::Key,
    logins: hmac::Key,
    seal: LessSafeKey,
}

/// Nobody is shown a key.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

/// What is sealed: a seal of one is none of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An access token.
    AccessToken,
    /// An id token.
    IdToken,
    /// A refresh token.
    RefreshToken,
    /// A code verifier.
    Verifier,
}

impl Purpose {
    fn word(self) -> &'static [u8] {
        match self {
            Self::AccessToken => b"access token",
            Self::IdToken => b"id token",
            Self::RefreshToken => b"refresh token",
            Self::Verifier => b"code verifier",
        }
    }
}

/// The message that proves a session.
fn session(parts: [&str; 5]) -> String {
    parts.join("\n")
}

/// The message that proves a login that has begun.
fn login(nonce: &str, url: &str) -> String {
    format!("{nonce}\n{url}")
}

/// So many random bytes, as a text for URLs and cookies.
pub fn random<const N: usize>() -> Option<String> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

impl Keys {
    /// Keys of a secret.
    pub fn of(secret: &[u8]) -> Option<Self> {
        let sessions = hmac::Key::new(hmac::HMAC_SHA256, secret);
        // What is signed for a session has line feeds in it, so it is none of these labels.
        let derived = |label: &str| hmac::sign(&sessions, label.as_bytes());
        let logins = hmac::Key::new(hmac::HMAC_SHA256, derived("edge-proxy: logins").as_ref());
        let seal = UnboundKey::new(&AES_256_GCM, derived("edge-proxy: tokens").as_ref()).ok()?;
        Some(Self {
            logins,
            seal: LessSafeKey::new(seal),
            sessions,
        })
    }

    /// Proves a session: its host or domain, when it is over, and its access, id and refresh tokens.
    pub fn prove_session(&self, parts: [&str; 5]) -> String {
        STANDARD.encode(hmac::sign(&self.sessions, session(parts).as_bytes()))
    }

    /// Whether this proves a session. Takes as long for a proof that is nearly right as for any other.
    pub fn is_session(&self, parts: [&str; 5], proof: &str) -> bool {
        let proof = STANDARD.decode(proof);
        proof.is_ok_and(|proof| hmac::verify(&self.sessions, session(parts).as_bytes(), &proof).is_ok())
    }

    /// Proves that a login has begun here, for a URL.
    pub fn prove_login(&self, nonce: &str, url: &str) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.logins, login(nonce, url).as_bytes()))
    }

    /// Whether this proves it.
    pub fn is_login(&self, nonce: &str, url: &str, proof: &str) -> bool {
        let proof = URL_SAFE_NO_PAD.decode(proof);
        proof.is_ok_and(|proof| hmac::verify(&self.logins, login(nonce, url).as_bytes(), &proof).is_ok())
    }

    /// Seals a text: a random nonce, then the text and its tag. Nonces of 96 bits at random are good for 2^32 seals of
    /// a secret (NIST SP 800-38D §8.3).
    pub fn seal(&self, purpose: Purpose, text: &str) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut sealed = text.as_bytes().to_vec();
        let aad = Aad::from(purpose.word());
        let nonce_of_seal = Nonce::assume_unique_for_key(nonce);
        self.seal
            .seal_in_place_append_tag(nonce_of_seal, aad, &mut sealed)
            .ok()?;
        Some(URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
    }

    /// Opens what was sealed for a purpose.
    pub fn open(&self, purpose: Purpose, sealed: &str) -> Option<String> {
        let mut bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let text = self.seal.open_in_place(nonce, Aad::from(purpose.word()), sealed).ok()?;
        String::from_utf8(text.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(secret: &[u8]) -> Keys {
        Keys::of(secret).expect("keys")
    }

    #[test]
    fn a_session_is_proved_as_by_envoy() {
        let parts = ["www.example.com", "1700000000", "access", "id", "refresh"];
        let proof = keys(b"secret").prove_session(parts);
        // printf 'www.example.com\n1700000000\naccess\nid\nrefresh' | openssl dgst -sha256 -hmac secret -binary |
        // base64
        assert_eq!(proof, "0s/agHy2NkyhZFgBgSrSK/ZlSxRksugv+YQXC0sEbHY=");
        assert!(keys(b"secret").is_session(parts, &proof));
        assert!(!keys(b"other").is_session(parts, &proof));
        assert!(!keys(b"secret").is_session(["www.example.com", "1700000001", "access", "id", "refresh"], &proof));
        assert!(!keys(b"secret").is_session(parts, "") && !keys(b"secret").is_session(parts, "x"));
    }

    #[test]
    fn a_login_is_proved_for_its_url_alone() {
        let keys = keys(b"secret");
        let proof = keys.prove_login("n", "https://a/");
        assert!(keys.is_login("n", "https://a/", &proof));
        assert!(!keys.is_login("n", "https://b/", &proof) && !keys.is_login("m", "https://a/", &proof));
    }

    #[test]
    fn a_seal_opens_for_its_purpose_and_its_secret_alone() {
        let own = keys(b"secret");
        let sealed = own.seal(Purpose::IdToken, "token").expect("sealed");
        assert_ne!(Some(&sealed), own.seal(Purpose::IdToken, "token").as_ref());
        assert_eq!(own.open(Purpose::IdToken, &sealed).as_deref(), Some("token"));
        assert_eq!(own.open(Purpose::AccessToken, &sealed), None);
        assert_eq!(keys(b"other").open(Purpose::IdToken, &sealed), None);
        let mut bytes = URL_SAFE_NO_PAD.decode(&sealed).expect("base64");
        bytes[NONCE_LEN] ^= 1;
        assert_eq!(own.open(Purpose::IdToken, &URL_SAFE_NO_PAD.encode(bytes)), None);
        assert_eq!(own.open(Purpose::IdToken, "AA"), None);
    }
}
