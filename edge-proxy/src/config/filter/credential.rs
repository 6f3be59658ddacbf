//! Credentials that are put into requests (Envoy's `credential_injector`).

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use http::{HeaderName, HeaderValue};

/// What puts a credential into requests.
#[derive(Debug)]
pub struct Injector {
    /// The header that holds it.
    pub header: HeaderName,
    /// What becomes of one that a request brings.
    pub existing: Existing,
    /// Requests go on where there is no credential.
    pub optional: bool,
    /// The credential.
    pub slot: Arc<CredentialSlot>,
}

/// What becomes of a credential that a request brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays.
    Kept,
    /// It is replaced.
    Replaced,
}

/// A credential, which is a secret, and may be another tomorrow.
#[derive(Default)]
pub struct CredentialSlot(RwLock<Option<HeaderValue>>);

impl CredentialSlot {
    /// The credential, once there is one.
    pub fn get(&self) -> Option<HeaderValue> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts one in.
    pub fn set(&self, value: HeaderValue) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }
}

impl fmt::Debug for CredentialSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialSlot")
    }
}
