//! How a ClientTrafficPolicy has TLS towards clients.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::meta::SecretRef;
use crate::api::string_match::{StringMatch, StringMatchType};
use crate::api::text::{is_default, open_enum};
use crate::api::tls::{AlpnProtocol, TlsFingerprint, TlsVersion};

/// TLS towards clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientTlsSettings {
    /// How certificates of clients are checked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client_validation: Option<Box<ClientValidationContext>>,
    /// Sessions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub session: Option<TlsSession>,
    /// Lowest version.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_version: Option<TlsVersion>,
    /// Highest version.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_version: Option<TlsVersion>,
    /// Cipher suites up to TLS 1.2.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ciphers: Box<[Text]>,
    /// Key exchange groups.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ecdh_curves: Box<[Text]>,
    /// Signature algorithms.
    #[serde(default, skip_serializing_if = "is_default")]
    pub signature_algorithms: Box<[Text]>,
    /// Protocols offered; an empty list offers none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub alpn_protocols: Option<Box<[AlpnProtocol]>>,
    /// Fingerprints of clients to compute.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fingerprints: Box<[TlsFingerprint]>,
}

/// How certificates of clients are checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientValidationContext {
    /// Older form of `mode`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optional: Option<bool>,
    /// Whether a certificate is asked for, wanted and checked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mode: Option<ClientValidationMode>,
    /// Trust anchors.
    #[serde(rename = "caCertificateRefs", default, skip_serializing_if = "is_default")]
    pub ca_certificate_refs: Box<[SecretRef]>,
    /// SHA-256 of public keys, base64.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spki_hashes: Box<[Text]>,
    /// SHA-256 of certificates, hexadecimal.
    #[serde(default, skip_serializing_if = "is_default")]
    pub certificate_hashes: Box<[Text]>,
    /// Names, one of which the certificate has.
    #[serde(default, skip_serializing_if = "is_default")]
    pub subject_alt_names: Option<Box<ClientNames>>,
    /// Certificates that were revoked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub crl: Option<CrlContext>,
    /// Takes certificates that have expired.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_expired_certificate: bool,
}

open_enum! {
    /// What is done with certificates of clients.
    pub enum ClientValidationMode {
        RequireAndVerify = "RequireAndVerify",
        VerifyIfGiven = "VerifyIfGiven",
        RequireAny = "RequireAny",
        Request = "Request",
    }
}

/// Names of certificates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientNames {
    /// Hosts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dns_names: Box<[StringMatch]>,
    /// Mailboxes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub email_addresses: Box<[StringMatch]>,
    /// Addresses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ip_addresses: Box<[StringMatch]>,
    /// URIs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uris: Box<[StringMatch]>,
    /// Others, by object identifier.
    #[serde(default, skip_serializing_if = "is_default")]
    pub other_names: Box<[OtherNameMatch]>,
}

/// A name by its object identifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OtherNameMatch {
    /// Object identifier.
    pub oid: Text,
    /// How it is compared.
    #[serde(default)]
    pub r#type: StringMatchType,
    /// Text or expression.
    pub value: Text,
}

/// Certificates that were revoked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CrlContext {
    /// Lists of them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refs: Box<[SecretRef]>,
    /// Asks for the certificate alone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub only_verify_leaf_certificate: bool,
}

/// TLS sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsSession {
    /// How they are resumed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resumption: Option<TlsResumption>,
}

/// How TLS sessions are resumed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsResumption {
    /// By tickets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stateless: Option<TlsTickets>,
    /// By session ids.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stateful: Option<TlsSessionIds>,
}

/// Sessions are resumed by tickets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsTickets {}

/// Sessions are resumed by session ids.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsSessionIds {}
