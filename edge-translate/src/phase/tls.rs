//! Parameters of TLS, on either side of the proxy.

use crate::api::{AlpnProtocol, SecretRef, Text, TlsVersion as Version, shape::TlsSettings};
use edge_ir::{TlsParameters, TlsVersion};
use std::sync::Arc;

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
const SIGNATURE_ALGORITHMS: [&str; 12] = [
    "ecdsa_secp256r1_sha256",
    "ecdsa_secp384r1_sha384",
    "ecdsa_secp521r1_sha512",
    "ecdsa_sha1",
    "ed25519",
    "rsa_pkcs1_sha1",
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
    pub(crate) ciphers: &'a [Text],
    pub(crate) curves: &'a [Text],
    pub(crate) signature_algorithms: &'a [Text],
    pub(crate) protocols: &'a [AlpnProtocol],
}

impl<'a> Parameters<'a> {
    /// Those towards backends.
    pub(crate) fn of(settings: &TlsSettings<'a>) -> Self {
        Self {
            min_version: settings.min_version,
            max_version: settings.max_version,
            ciphers: settings.ciphers,
            curves: settings.ecdh_curves,
            signature_algorithms: settings.signature_algorithms,
            protocols: settings.alpn_protocols.unwrap_or_default(),
        }
    }

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
        let unknown = |list: &[Text], known: &[&str]| list.iter().find(|text| !known.contains(&&***text)).cloned();
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

/// Each text once, the first where it stands: a proxy refuses groups and signature algorithms that are repeated.
pub(crate) fn each_once(list: &[Text]) -> Vec<Arc<str>> {
    let is_first = |(i, text): &(usize, &Text)| !list[..*i].contains(text);
    let first = list.iter().enumerate().filter(is_first);
    first.map(|(_, text)| Arc::from(&**text)).collect()
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

/// What somebody asks of TLS towards backends. What is absent is left to whoever is asked next.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TlsPreferences {
    min_version: Option<Version>,
    max_version: Option<Version>,
    ciphers: Vec<Arc<str>>,
    curves: Vec<Arc<str>>,
    signature_algorithms: Vec<Arc<str>>,
    /// Protocols offered.
    pub(crate) alpn: Option<Vec<Arc<str>>>,
}

impl TlsPreferences {
    /// What is written.
    pub(crate) fn of(settings: &TlsSettings<'_>) -> Self {
        let protocols = |list: &[AlpnProtocol]| list.iter().map(|p| Arc::from(p.as_str())).collect();
        Self {
            min_version: settings.min_version.cloned(),
            max_version: settings.max_version.cloned(),
            ciphers: each_once(settings.ciphers),
            curves: each_once(settings.ecdh_curves),
            signature_algorithms: each_once(settings.signature_algorithms),
            alpn: settings.alpn_protocols.map(protocols),
        }
    }

    /// This, and what is below where this says nothing. A version that is below gives way to one that it excludes: with
    /// both, proxies would refuse the cluster, or no handshake succeed.
    pub(crate) fn over(&self, below: &Self) -> Self {
        let list = |own: &[Arc<str>], below: &[Arc<str>]| if own.is_empty() { below } else { own }.to_vec();
        let fits = |least: Option<&Version>, most: Option<&Version>| {
            let (least, most) = (least.and_then(version), most.and_then(version));
            least.zip(most).is_none_or(|(least, most)| least <= most)
        };
        let min_below = below.min_version.as_ref();
        let min_below = min_below.filter(|least| fits(Some(least), self.max_version.as_ref()));
        let max_below = below.max_version.as_ref();
        let max_below = max_below.filter(|most| fits(self.min_version.as_ref(), Some(most)));
        Self {
            min_version: self.min_version.as_ref().or(min_below).cloned(),
            max_version: self.max_version.as_ref().or(max_below).cloned(),
            ciphers: list(&self.ciphers, &below.ciphers),
            curves: list(&self.curves, &below.curves),
            signature_algorithms: list(&self.signature_algorithms, &below.signature_algorithms),
            alpn: self.alpn.clone().or_else(|| below.alpn.clone()),
        }
    }

    /// In the terms of a cluster.
    pub(crate) fn parameters(self) -> TlsParameters {
        let max_version = self.max_version.as_ref().and_then(version);
        // A proxy's own lowest version may be above the highest that is asked for.
        let lowest = || max_version.filter(|max| *max < TlsVersion::V1_2);
        TlsParameters {
            min_version: self.min_version.as_ref().and_then(version).or_else(lowest),
            max_version,
            ciphers: self.ciphers,
            curves: self.curves,
            signature_algorithms: self.signature_algorithms,
        }
    }
}

/// Why a client certificate can't be the one that an object in a namespace names.
pub(crate) fn elsewhere(holder: &str, own: &str, reference: &SecretRef) -> Option<String> {
    let namespace = reference.namespace.as_deref().unwrap_or(own);
    if !reference.group.is_empty() || reference.kind != "Secret" {
        return Some("clientCertificateRef must name a Secret".to_owned());
    }
    (namespace != own).then(|| {
        format!(
            "ClientCertificateRef Secret is not located in the same namespace as {holder}. Secret namespace: {namespace} \
             does not match {holder} namespace: {own}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(least: Option<Version>, most: Option<Version>) -> TlsPreferences {
        TlsPreferences {
            min_version: least,
            max_version: most,
            ..TlsPreferences::default()
        }
    }

    #[test]
    fn a_version_below_gives_way_to_one_that_it_excludes() {
        let laid = |own: TlsPreferences, below: TlsPreferences| {
            let all = own.over(&below).parameters();
            (all.min_version, all.max_version)
        };
        let (v1_1, v1_2, v1_3) = (Some(Version::V1_1), Some(Version::V1_2), Some(Version::V1_3));
        let none = || versions(None, None);
        let only = |it: &Option<Version>| versions(it.clone(), it.clone());
        let (low, middle, high) = (Some(TlsVersion::V1_1), Some(TlsVersion::V1_2), Some(TlsVersion::V1_3));
        assert_eq!(laid(versions(None, v1_2.clone()), only(&v1_3)), (None, middle));
        assert_eq!(laid(versions(v1_3.clone(), None), only(&v1_2)), (high, None));
        assert_eq!(
            laid(versions(None, v1_1.clone()), versions(v1_2.clone(), None)),
            (low, low)
        );
        assert_eq!(
            laid(versions(v1_2.clone(), None), versions(v1_1, v1_3.clone())),
            (middle, high)
        );
        assert_eq!(laid(none(), only(&v1_2)), (middle, middle));
        assert_eq!(
            laid(versions(Some(Version::Auto), v1_2), versions(v1_3, None)),
            (None, middle)
        );
    }
}
