//! ReferenceGrant and BackendTLSPolicy.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::meta::{LocalObjectRef, Metadata, StatusAsRead};
use crate::api::string_map::StringMap;
use crate::api::text::{Symbol, is_default, open_enum};

/// Lets objects elsewhere refer to objects of its namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceGrant {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is granted.
    #[serde(default)]
    pub spec: ReferenceGrantSpec,
}

/// What a ReferenceGrant allows: every `from` to every `to`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceGrantSpec {
    /// Who may refer.
    #[serde(default)]
    pub from: Box<[GrantFrom]>,
    /// To what.
    #[serde(default)]
    pub to: Box<[GrantTo]>,
}

/// Who may refer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantFrom {
    /// API group.
    #[serde(default)]
    pub group: Symbol,
    /// Kind.
    pub kind: Symbol,
    /// Namespace.
    pub namespace: Text,
}

/// What may be referred to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantTo {
    /// API group; empty is core.
    #[serde(default)]
    pub group: Symbol,
    /// Kind.
    pub kind: Symbol,
    /// Name; absent means every object of the kind.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Text>,
}

/// How connections to a backend use TLS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTlsPolicy {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: BackendTlsPolicySpec,
    /// Status as read.
    #[serde(default, skip_serializing_if = "StatusAsRead::is_absent")]
    pub status: StatusAsRead,
}

/// What a BackendTLSPolicy asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTlsPolicySpec {
    /// Services or ports that it is for.
    #[serde(default)]
    pub target_refs: Box<[PolicyTargetRef]>,
    /// How the backend is validated.
    pub validation: BackendTlsValidation,
    /// Implementation-specific settings.
    #[serde(default, skip_serializing_if = "is_default")]
    pub options: StringMap,
}

/// The target of a policy, in the policy's namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyTargetRef {
    /// API group; empty is core.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: Symbol,
    /// Kind.
    pub kind: Symbol,
    /// Name.
    pub name: Text,
    /// Listener, rule or port name; absent means the whole object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub section_name: Option<Text>,
}

/// How a backend's certificate is validated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTlsValidation {
    /// Trust anchors.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ca_certificate_refs: Box<[LocalObjectRef]>,
    /// Trust anchors that exist already.
    #[serde(rename = "wellKnownCACertificates", default, skip_serializing_if = "is_default")]
    pub well_known_ca_certificates: Option<WellKnownCa>,
    /// Server name asked for, and matched unless alternative names are given.
    pub hostname: Text,
    /// Names of which one must be in the certificate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub subject_alt_names: Box<[SubjectAltName]>,
}

open_enum! {
    /// Trust anchors that exist already.
    pub enum WellKnownCa {
        System = "System",
    }
}

/// A name expected in a certificate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubjectAltName {
    /// Which member is set.
    pub r#type: SubjectAltNameType,
    /// A host name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hostname: Option<Text>,
    /// A URI, such as a SPIFFE identity.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uri: Option<Text>,
}

open_enum! {
    /// What kind of name is expected.
    pub enum SubjectAltNameType {
        Hostname = "Hostname",
        Uri = "URI",
    }
}
