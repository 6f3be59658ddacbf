//! SecurityPolicy: what it says of who may send what.
//!
//! The object is kept as it was written, so that a guard which can't be read still stands (`world/policies`), and read
//! as these types where its meaning is asked for. They know every field, and one that they don't know is a fault: what
//! was meant to guard must not get lost by a slip.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::meta::SecretRef;
use crate::api::security::authorization::Authorization;
use crate::api::text::{DurationText, Symbol, is_default};

pub mod authorization;

/// What a SecurityPolicy says, besides what it is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecuritySettings {
    /// Requests carry a key.
    #[serde(default, skip_serializing_if = "is_default")]
    pub api_key_auth: Option<Box<ApiKeyAuth>>,
    /// What scripts of other origins may do.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cors: Option<Box<Cors>>,
    /// Refuses requests that other sites forge.
    #[serde(default, skip_serializing_if = "is_default")]
    pub csrf: Option<Value>,
    /// Requests carry a user and a password.
    #[serde(default, skip_serializing_if = "is_default")]
    pub basic_auth: Option<Box<BasicAuth>>,
    /// Requests carry a token.
    #[serde(default, skip_serializing_if = "is_default")]
    pub jwt: Option<Value>,
    /// Clients log in at an identity provider.
    #[serde(default, skip_serializing_if = "is_default")]
    pub oidc: Option<Value>,
    /// Another service decides.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ext_auth: Option<Value>,
    /// Who may do what.
    #[serde(default, skip_serializing_if = "is_default")]
    pub authorization: Option<Box<Authorization>>,
}

/// A reference to an object of a namespace that is that of the policy unless it says otherwise. In a merged policy that
/// is the one which the reference came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyRef {
    /// Namespace of the policy. Nobody writes it: whoever reads a policy puts it there, over whatever stands there.
    #[serde(rename = "~home")]
    pub home: Box<str>,
    /// API group; empty is core.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: Symbol,
    /// Kind.
    #[serde(default = "secret_kind")]
    pub kind: Symbol,
    /// Name.
    pub name: Box<str>,
    /// Namespace; absent means that of the policy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespace: Option<Box<str>>,
}

impl PolicyRef {
    /// As a reference to a Secret.
    pub fn secret(&self) -> SecretRef {
        SecretRef {
            group: self.group.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
        }
    }
}

fn secret_kind() -> Symbol {
    Symbol::new("Secret")
}

/// Requests carry a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiKeyAuth {
    /// Secrets: each key names a client, its value is the key of the client.
    pub credential_refs: Box<[PolicyRef]>,
    /// Where requests carry the key; the first place that has one counts.
    pub extract_from: Box<[ExtractFrom]>,
    /// Header that tells the backend the name of the client.
    #[serde(default, rename = "forwardClientIDHeader", skip_serializing_if = "is_default")]
    pub forward_client_id_header: Option<Box<str>>,
    /// Takes the key off the request.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sanitize: Option<bool>,
}

/// Where keys are; exactly one member is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExtractFrom {
    /// Headers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub headers: Box<[Box<str>]>,
    /// Query parameters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub params: Box<[Box<str>]>,
    /// Cookies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cookies: Box<[Box<str>]>,
}

/// What scripts of other origins may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cors {
    /// Origins that scripts may come from: `*`, an origin, or one with a wildcard as in `https://*.example.com`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_origins: Box<[Box<str>]>,
    /// Methods that scripts may use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_methods: Box<[Box<str>]>,
    /// Headers that scripts may send.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_headers: Box<[Box<str>]>,
    /// Headers that scripts may read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expose_headers: Box<[Box<str>]>,
    /// How long browsers may remember the answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_age: Option<DurationText>,
    /// Whether scripts may send credentials.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_credentials: Option<bool>,
}

/// Requests carry a user and a password.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BasicAuth {
    /// Secret that holds users under `.htpasswd`, with passwords in the form {SHA}.
    pub users: PolicyRef,
    /// Header that tells the backend the name of the user.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forward_username_header: Option<Box<str>>,
}
