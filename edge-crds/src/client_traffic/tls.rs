//! TLS towards clients.

use crate::free::Empty;
use crate::reference::SecretObjectReference;
use crate::shape::StringMatch;
use crate::tls::TlsSettings;
use crate::values::values;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// TLS towards clients.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientTlsSettings {
    /// How certificates of clients are checked; not at all when absent.
    pub client_validation: Option<ClientValidationContext>,
    /// Parameters of the connections.
    #[serde(flatten)]
    pub tls_settings: TlsSettings,
    /// How sessions are resumed.
    pub session: Option<Session>,
}

/// How certificates of clients are checked.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.allowExpiredCertificate) || !self.allowExpiredCertificate || !has(self.mode) || self.mode in ['VerifyIfGiven', 'RequireAndVerify']", "allowExpiredCertificate can only be set when mode is VerifyIfGiven or RequireAndVerify"))]
pub struct ClientValidationContext {
    /// Older form of `mode`: clients without a certificate are taken.
    pub optional: Option<bool>,
    /// Whether a certificate is asked for, wanted and checked; RequireAndVerify when absent.
    pub mode: Option<ClientValidationModeType>,
    /// Trust anchors: Secrets or ConfigMaps with `ca.crt`, or ClusterTrustBundles.
    #[schemars(length(max = 8))]
    pub ca_certificate_refs: Option<Vec<SecretObjectReference>>,
    /// SHA-256 of public keys in base64, one of which the certificate has.
    pub spki_hashes: Option<Vec<String>>,
    /// SHA-256 of certificates in hexadecimal digits, one of which it has.
    pub certificate_hashes: Option<Vec<String>>,
    /// Names, one of which the certificate has.
    pub subject_alt_names: Option<SubjectAltNames>,
    /// Certificates that were revoked.
    pub crl: Option<CrlContext>,
    /// Takes certificates that have expired.
    pub allow_expired_certificate: Option<bool>,
}

/// Names of a certificate.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubjectAltNames {
    /// DNS names.
    pub dns_names: Option<Vec<StringMatch>>,
    /// Mail addresses.
    pub email_addresses: Option<Vec<StringMatch>>,
    /// IP addresses.
    pub ip_addresses: Option<Vec<StringMatch>>,
    /// URIs.
    pub uris: Option<Vec<StringMatch>>,
    /// Other names, by their object identifier.
    pub other_names: Option<Vec<OtherSanMatch>>,
}

/// A name by its object identifier.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtherSanMatch {
    /// Object identifier.
    pub oid: String,
    /// What it holds.
    #[serde(flatten)]
    pub string_match: StringMatch,
}

/// Revoked certificates.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CrlContext {
    /// Secrets or ConfigMaps with `ca.crl`.
    #[schemars(length(min = 1, max = 8))]
    pub refs: Vec<SecretObjectReference>,
    /// Asks only for the certificate itself, not for those that signed it.
    pub only_verify_leaf_certificate: Option<bool>,
}

/// TLS sessions.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Whether and how; not at all when absent.
    pub resumption: Option<SessionResumption>,
}

/// How TLS sessions are resumed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionResumption {
    /// By tickets.
    pub stateless: Option<Empty>,
    /// By session ids.
    pub stateful: Option<Empty>,
}

values! {
    /// Values of `ClientValidationModeType`.
    pub enum ClientValidationModeType {
        Request = "Request",
        RequireAny = "RequireAny",
        VerifyIfGiven = "VerifyIfGiven",
        RequireAndVerify = "RequireAndVerify",
    }
}
