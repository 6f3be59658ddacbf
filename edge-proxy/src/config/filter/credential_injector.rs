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

/// A place for a secret, or what is made of one; it may be another tomorrow.
pub struct Slot<T>(RwLock<Option<T>>);

/// A place for the value of a header.
pub type CredentialSlot = Slot<HeaderValue>;

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(RwLock::new(None))
    }
}

impl<T: Clone> Slot<T> {
    /// What is in it, once there is something.
    pub fn get(&self) -> Option<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts something in.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }
}

/// Nobody is shown a secret.
impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}
