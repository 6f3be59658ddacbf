//! Parameters of TLS connections.

use crate::reference::SecretObjectReference;
use crate::values::values;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// TLS towards backends.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendTlsConfig {
    /// Secret with `tls.crt` and `tls.key` that the proxy shows; it lies in the namespace of the EdgeProxy.
    pub client_certificate_ref: Option<SecretObjectReference>,
    /// Parameters of the connections.
    #[serde(flatten)]
    pub tls_settings: TlsSettings,
}

/// Parameters of TLS connections.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.minVersion) || self.minVersion != '1.3' || !has(self.ciphers)", "setting ciphers has no effect if the minimum possible TLS version is 1.3"))]
#[x_kube(validation = ("!has(self.maxVersion) || {'Auto': 0, '1.0': 1, '1.1': 2, '1.2': 3, '1.3': 4}[has(self.minVersion) ? self.minVersion : '1.2'] <= {'1.0': 1, '1.1': 2, '1.2': 3, '1.3': 4, 'Auto': 5}[self.maxVersion]", "minVersion must be smaller or equal to maxVersion"))]
pub struct TlsSettings {
    /// Lowest version; 1.2 when absent.
    pub min_version: Option<TlsVersion>,
    /// Highest version; 1.3 when absent.
    pub max_version: Option<TlsVersion>,
    /// Cipher suites up to TLS 1.2, by the names of OpenSSL.
    pub ciphers: Option<Vec<String>>,
    /// Groups of the key exchange; X25519 and P-256 when absent.
    pub ecdh_curves: Option<Vec<String>>,
    /// Signature algorithms.
    pub signature_algorithms: Option<Vec<String>>,
    /// Protocols that are offered; h2 and http/1.1 when absent, none with an empty list.
    pub alpn_protocols: Option<Vec<AlpnProtocol>>,
    /// Fingerprints of clients that are computed (listeners).
    pub fingerprints: Option<Vec<TlsFingerprintType>>,
}

values! {
    /// Values of `TLSVersion`.
    pub enum TlsVersion {
        Auto = "Auto",
        V10 = "1.0",
        V11 = "1.1",
        V12 = "1.2",
        V13 = "1.3",
    }
}

values! {
    /// Values of `ALPNProtocol`.
    pub enum AlpnProtocol {
        Http10 = "http/1.0",
        Http11 = "http/1.1",
        H2 = "h2",
    }
}

values! {
    /// Values of `TLSFingerprintType`.
    pub enum TlsFingerprintType {
        Ja3 = "JA3",
        Ja4 = "JA4",
    }
}
