//! TLS settings that several gateway.edge kinds share.

use serde::{Deserialize, Serialize};

use crate::api::meta::SecretRef;
use crate::api::text::{is_default, open_enum};

open_enum! {
    /// A TLS version.
    pub enum TlsVersion {
        Auto = "Auto",
        V1_0 = "1.0",
        V1_1 = "1.1",
        V1_2 = "1.2",
        V1_3 = "1.3",
    }
}

open_enum! {
    /// A protocol offered by ALPN.
    pub enum AlpnProtocol {
        Http10 = "http/1.0",
        Http11 = "http/1.1",
        H2 = "h2",
    }
}

open_enum! {
    /// A client fingerprint.
    pub enum TlsFingerprint {
        Ja3 = "JA3",
        Ja4 = "JA4",
    }
}

/// TLS defaults towards every backend, with the client certificate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTlsConfig {
    /// Client certificate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client_certificate_ref: Option<Box<SecretRef>>,
    /// Lowest version.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_version: Option<TlsVersion>,
    /// Highest version.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_version: Option<TlsVersion>,
    /// Cipher suites up to TLS 1.2.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ciphers: Box<[Box<str>]>,
    /// Key exchange groups.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ecdh_curves: Box<[Box<str>]>,
    /// Signature algorithms.
    #[serde(default, skip_serializing_if = "is_default")]
    pub signature_algorithms: Box<[Box<str>]>,
    /// Protocols offered; an empty list offers none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub alpn_protocols: Option<Box<[AlpnProtocol]>>,
    /// Client fingerprints to compute (listeners).
    #[serde(default, skip_serializing_if = "is_default")]
    pub fingerprints: Box<[TlsFingerprint]>,
}
