//! SecurityPolicy: what it says of who may send what.
//!
//! The object is kept as it was written, so that a guard which can't be read still stands (`world/policies`), and read
//! as these types where its meaning is asked for. They know every field, and one that they don't know is a fault: what
//! was meant to guard must not get lost by a slip.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::cluster_settings::ClusterSettings;
use crate::api::meta::SecretRef;
use crate::api::route_filter::Fraction;
use crate::api::security::authorization::Authorization;
use crate::api::security::ext_auth::ExtAuth;
use crate::api::security::jwt::Jwt;
use crate::api::security::oidc::Oidc;
use crate::api::text::{DurationText, Symbol, is_default, open_enum};

pub mod authorization;
pub mod ext_auth;
pub mod geoip;
pub mod jwt;
pub mod oidc;

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
    pub csrf: Option<Box<Csrf>>,
    /// Requests carry a user and a password.
    #[serde(default, skip_serializing_if = "is_default")]
    pub basic_auth: Option<Box<BasicAuth>>,
    /// Requests carry a token.
    #[serde(default, skip_serializing_if = "is_default")]
    pub jwt: Option<Box<Jwt>>,
    /// Clients log in at an identity provider.
    #[serde(default, skip_serializing_if = "is_default")]
    pub oidc: Option<Box<Oidc>>,
    /// Another service decides.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ext_auth: Option<Box<ExtAuth>>,
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
    pub home: Text,
    /// API group; empty is core.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: Symbol,
    /// Kind.
    #[serde(default = "secret_kind")]
    pub kind: Symbol,
    /// Name.
    pub name: Text,
    /// Namespace; absent means that of the policy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespace: Option<Text>,
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

fn service_kind() -> Symbol {
    Symbol::new("Service")
}

/// A reference to an object in the namespace of the policy that it was written in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LocalRef {
    /// Namespace of the policy, as in [`PolicyRef`].
    #[serde(rename = "~home")]
    pub home: Text,
    /// API group; empty is core.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: Symbol,
    /// Kind.
    pub kind: Symbol,
    /// Name.
    pub name: Text,
    /// A key of it, where one must be chosen.
    #[serde(default, skip_serializing_if = "is_default")]
    pub key: Option<Text>,
}

open_enum! {
    /// Where a text stands.
    pub enum TextSource {
        Inline = "Inline",
        ValueRef = "ValueRef",
    }
}

/// A reference to a service that a policy asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceRef {
    /// Namespace of the policy, as in [`PolicyRef`].
    #[serde(rename = "~home")]
    pub home: Text,
    /// API group; empty is core.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: Symbol,
    /// Kind.
    #[serde(default = "service_kind")]
    pub kind: Symbol,
    /// Name.
    pub name: Text,
    /// Namespace; absent means that of the policy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespace: Option<Text>,
    /// Port; required for Services.
    #[serde(default, skip_serializing_if = "is_default")]
    pub port: Option<u16>,
    /// Share of the requests.
    #[serde(default, skip_serializing_if = "is_default")]
    pub weight: Option<u32>,
    /// Used only when the others fail.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fallback: Option<bool>,
}

/// A service that a policy asks, whatever the type that names it.
#[derive(Clone, Debug, PartialEq)]
pub struct Services<'a> {
    /// The one that the older form names.
    pub older: Option<&'a ServiceRef>,
    /// The backends, by either form.
    pub references: Vec<&'a ServiceRef>,
    /// Settings of the connections to them.
    pub settings: Option<&'a ClusterSettings>,
}

/// Declares a service that a policy asks, with further fields.
macro_rules! service {
    ($(#[$meta:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            /// Older form of `backendRefs`.
            #[serde(default, skip_serializing_if = "is_default")]
            pub backend_ref: Option<Box<crate::api::security::ServiceRef>>,
            /// The service.
            #[serde(default, skip_serializing_if = "is_default")]
            pub backend_refs: Box<[crate::api::security::ServiceRef]>,
            /// Settings of the connections to it.
            #[serde(default, skip_serializing_if = "is_default")]
            pub backend_settings: Option<Box<crate::api::cluster_settings::ClusterSettings>>,
            $($own)*
        }

        impl $name {
            /// The service.
            pub fn services(&self) -> crate::api::security::Services<'_> {
                crate::api::security::Services {
                    older: self.backend_ref.as_deref(),
                    references: self.backend_refs.iter().chain(self.backend_ref.as_deref()).collect(),
                    settings: self.backend_settings.as_deref(),
                }
            }
        }
    };
}
pub(crate) use service;

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
    pub forward_client_id_header: Option<Text>,
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
    pub headers: Box<[Text]>,
    /// Query parameters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub params: Box<[Text]>,
    /// Cookies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cookies: Box<[Text]>,
}

/// What scripts of other origins may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cors {
    /// Origins that scripts may come from: `*`, an origin, or one with a wildcard as in `https://*.example.com`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_origins: Box<[Text]>,
    /// Methods that scripts may use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_methods: Box<[Text]>,
    /// Headers that scripts may send.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_headers: Box<[Text]>,
    /// Headers that scripts may read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expose_headers: Box<[Text]>,
    /// How long browsers may remember the answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_age: Option<DurationText>,
    /// Whether scripts may send credentials.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_credentials: Option<bool>,
}

/// Refuses requests that other sites forge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Csrf {
    /// Share of the requests that are looked at and not refused; none when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shadow_fraction: Option<Fraction>,
    /// Further origins that are trusted; the scheme is not compared.
    #[serde(default, skip_serializing_if = "is_default")]
    pub additional_origins: Box<[Text]>,
}

/// Requests carry a user and a password.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BasicAuth {
    /// Secret that holds users under `.htpasswd`, with passwords in the form {SHA}.
    pub users: PolicyRef,
    /// Header that tells the backend the name of the user.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forward_username_header: Option<Text>,
}
