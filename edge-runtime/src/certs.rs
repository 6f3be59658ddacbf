//! Certificates between the controller and its proxies: where they lie, how they are made, how they are followed.
//!
//! A folder holds one sub-folder a secret, laid out like a mounted Secret: `edge-gateway` (the controller's server
//! certificate), `edge` (a client certificate for proxies), `edge-rate-limit`, `edge-gateway-ca` (the authority that
//! signs them) and `edge-oidc-hmac`. Which of them have to be made is decided in [`set`], without I/O; [`folder`] keeps
//! them on a machine, [`secrets`] in a cluster. The proxies that we start here have certificates of their own
//! ([`fleet`]). The keys are ECDSA P-256: as strong as the customary RSA 2048, smaller, and made in a millisecond.

use crate::{Error, error::describe};
use std::path::{Path, PathBuf};

mod authority;
mod check;
mod fleet;
mod folder;
mod reload;
mod secrets;
mod set;
#[cfg(test)]
mod tests;
mod upkeep;

pub use edge_infra::names::{AUTHORITY, CONTROLLER, OIDC_HMAC, PROXY, RATE_LIMIT};
pub use fleet::{FLEET, FleetIdentity, ensure_fleet};
pub use folder::ensure;
pub use reload::ServerTls;
pub use secrets::{Installation, Webhook, ensure_secrets, trust_webhook};
pub use set::{Existing, Outcome};
pub use upkeep::Upkeep;

/// The three files of a TLS secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate chain, PEM.
    pub certificate: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
    /// The authority that the other side is checked against, PEM.
    pub authority: PathBuf,
}

impl TlsFiles {
    /// The files of one secret below a folder of certificates.
    pub fn below(folder: &Path, secret: &str) -> Self {
        Self::within(&folder.join(secret))
    }

    /// The files of the secret in a folder.
    pub fn within(folder: &Path) -> Self {
        Self {
            certificate: folder.join("tls.crt"),
            key: folder.join("tls.key"),
            authority: folder.join("ca.crt"),
        }
    }

    /// The certificates of the authority, PEM.
    pub fn authorities(&self) -> Result<String, Error> {
        std::fs::read_to_string(&self.authority).map_err(|error| {
            let problem = format!("can't be read: {}", describe(&error));
            unusable(&self.authority, problem)
        })
    }
}

/// What cookies of logins are signed with, from a folder of certificates; none where it can't be read.
pub fn hmac_secret(folder: &Path) -> Option<Vec<u8>> {
    std::fs::read(folder.join(OIDC_HMAC).join(set::HMAC)).ok()
}

fn unusable(path: &Path, problem: impl Into<String>) -> Error {
    Error::Certificate {
        path: path.to_owned(),
        problem: problem.into(),
    }
}
