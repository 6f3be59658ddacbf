//! Parameters of TLS, on either side of the proxy.

use crate::api::{AlpnProtocol, TlsVersion as Version};
use edge_ir::TlsVersion;

/// Cipher suites up to TLS 1.2 that proxies know, by their names in OpenSSL.
const CIPHERS: [&str; 14] = [
    "AES128-GCM-SHA256",
    "AES128-SHA",
    "AES256-GCM-SHA384",
    "AES256-SHA",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-SHA",
    "ECDHE-RSA-CHACHA20-POLY1305",
];
/// Groups of the key exchange that proxies know.
const CURVES: [&str; 5] = ["P-256", "P-384", "P-521", "X25519", "X25519MLKEM768"];
/// Signature algorithms that proxies know.
const SIGNATURE_ALGORITHMS: [&str; 10] = [
    "ecdsa_secp256r1_sha256",
    "ecdsa_secp384r1_sha384",
    "ecdsa_secp521r1_sha512",
    "ed25519",
    "rsa_pkcs1_sha256",
    "rsa_pkcs1_sha384",
    "rsa_pkcs1_sha512",
    "rsa_pss_rsae_sha256",
    "rsa_pss_rsae_sha384",
    "rsa_pss_rsae_sha512",
];

/// Parameters as they are written.
pub(crate) struct Parameters<'a> {
    pub(crate) min_version: Option<&'a Version>,
    pub(crate) max_version: Option<&'a Version>,
    pub(crate) ciphers: &'a [Box<str>],
    pub(crate) curves: &'a [Box<str>],
    pub(crate) signature_algorithms: &'a [Box<str>],
    pub(crate) protocols: &'a [AlpnProtocol],
}

impl Parameters<'_> {
    /// What is wrong with them. A proxy refuses a resource for any of it.
    pub(crate) fn problem(&self) -> Option<String> {
        let versions = [(self.min_version, "minVersion"), (self.max_version, "maxVersion")];
        for (version, field) in versions {
            if let Some(Version::Other(other)) = version {
                return Some(format!(
                    "{field} {other} is no TLS version: it must be one of {}",
                    Version::KNOWN.join(", ")
                ));
            }
        }
        let least = self.min_version.map_or(Some(TlsVersion::V1_2), version);
        let most = self.max_version.and_then(version);
        if least.zip(most).is_some_and(|(least, most)| least > most) {
            return Some("minVersion must be smaller or equal to maxVersion".to_owned());
        }
        let unknown = |list: &[Box<str>], known: &[&str]| list.iter().find(|text| !known.contains(&&***text)).cloned();
        if let Some(cipher) = unknown(self.ciphers, &CIPHERS) {
            return Some(format!("unsupported cipher suite: {cipher}"));
        }
        if let Some(curve) = unknown(self.curves, &CURVES) {
            return Some(format!("unsupported ECDH curve: {curve}"));
        }
        if let Some(algorithm) = unknown(self.signature_algorithms, &SIGNATURE_ALGORITHMS) {
            return Some(format!("unsupported signature algorithm: {algorithm}"));
        }
        if let Some(other) = self.protocols.iter().find(|p| matches!(p, AlpnProtocol::Other(_))) {
            return Some(format!("unsupported ALPN protocol: {}", other.as_str()));
        }
        None
    }
}

/// The version that is meant; none for the proxy's own.
pub(crate) fn version(version: &Version) -> Option<TlsVersion> {
    match version {
        Version::V1_0 => Some(TlsVersion::V1_0),
        Version::V1_1 => Some(TlsVersion::V1_1),
        Version::V1_2 => Some(TlsVersion::V1_2),
        Version::V1_3 => Some(TlsVersion::V1_3),
        Version::Auto | Version::Other(_) => None,
    }
}
