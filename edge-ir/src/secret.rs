//! Certificates, keys and authorities, kept from prying output.

use crate::{ClusterName, Origins, SecretName};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, sync::Arc};

/// A named secret that listeners and clusters refer to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    /// `<namespace>/<name>`, authorities with the kind in front and `ca.crt` behind, `system_ca_certificates`.
    pub name: SecretName,
    /// What it holds.
    pub content: SecretContent,
    /// The object it was read from, or that asked for it; none for what the system brings.
    pub origins: Origins,
}

/// What a secret holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SecretContent {
    /// A certificate chain and its private key, both PEM.
    Certificate {
        /// Leaf first.
        chain: Arc<str>,
        /// PKCS#1, PKCS#8 or SEC1.
        key: SecretBytes,
    },
    /// A text that is put into requests.
    Generic {
        /// The text.
        value: SecretBytes,
    },
    /// Certificates of authorities to trust, PEM.
    Authorities {
        /// One or more certificates.
        bundle: Arc<str>,
        /// What they revoked, PEM; asked for nothing where there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revoked: Option<Arc<str>>,
    },
    /// The authorities that the proxy's system trusts.
    SystemAuthorities,
}

/// Where a proxy gets a certificate, or authorities to trust, from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SecretSource {
    /// From whom it gets its configuration: a secret of the fleet.
    Fleet(SecretName),
    /// From a file in its pod, in the form in which servers of secrets answer.
    File {
        /// The file.
        file: Arc<str>,
        /// What the file calls the secret.
        secret: Arc<str>,
    },
    /// From a server of secrets beside it (Envoy's SDS), which nobody else sees the secret of.
    Server {
        /// Cluster of the server.
        server: ClusterName,
        /// What the server calls the secret.
        secret: Arc<str>,
    },
}

impl SecretSource {
    /// The secret of the fleet, if it is one.
    pub fn of_fleet(&self) -> Option<&SecretName> {
        match self {
            Self::Fleet(name) => Some(name),
            Self::File { .. } | Self::Server { .. } => None,
        }
    }

    /// The cluster of the server, if one has it.
    pub fn server(&self) -> Option<&ClusterName> {
        match self {
            Self::Fleet(_) | Self::File { .. } => None,
            Self::Server { server, .. } => Some(server),
        }
    }
}

impl From<SecretName> for SecretSource {
    fn from(name: SecretName) -> Self {
        Self::Fleet(name)
    }
}

/// Bytes that must not be shown. Debug prints their length; so does serialisation, because IR is written for people:
/// a secret reaches a proxy by xDS only.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretBytes(Arc<[u8]>);

impl SecretBytes {
    /// Takes the bytes.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes themselves, for the one place that sends them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[redacted, {} bytes]", self.0.len())
    }
}

impl Serialize for SecretBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

impl<'de> Deserialize<'de> for SecretBytes {
    /// Reads whatever text stands there: a redacted secret stays one.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(String::deserialize(deserializer)?.into_bytes().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_prints_its_bytes() {
        let secret = SecretBytes::new(b"hunter2".to_vec());
        assert_eq!(format!("{secret:?}"), "[redacted, 7 bytes]");
        assert_eq!(secret.expose(), b"hunter2");
    }
}
