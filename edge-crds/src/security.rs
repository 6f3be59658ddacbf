//! SecurityPolicy: who may send what.

pub mod authorization;
pub mod ext_auth;
pub mod jwt;
pub mod oidc;

use crate::number::Fraction;
use crate::reference::SecretObjectReference;
use crate::rule;
use crate::security::authorization::Authorization;
use crate::security::ext_auth::ExtAuth;
use crate::security::jwt::Jwt;
use crate::security::oidc::Oidc;
use crate::shape::MergeType;
use crate::status::PolicyStatus;
use crate::target::PolicyTargetReferences;
use crate::text::{DurationText, Origin};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who may send what.
#[derive(Clone, CustomResource, Debug, Deserialize, Serialize, KubeSchema)]
#[kube(
    group = "gateway.edge",
    version = "v1alpha1",
    kind = "SecurityPolicy",
    plural = "securitypolicies",
    shortname = "sp",
    category = "edge-gateway",
    namespaced,
    doc = "Who may send what.",
    status = "PolicyStatus",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::one_form_of_target())]
#[x_kube(validation = rule::group_of_target())]
#[x_kube(validation = rule::kind_of_target("this policy can only have a targetRef.kind of Gateway/ListenerSet/HTTPRoute/GRPCRoute/TCPRoute", &["Gateway", "ListenerSet", "HTTPRoute", "GRPCRoute", "TCPRoute"]))]
#[x_kube(validation = rule::group_of_targets())]
#[x_kube(validation = rule::kinds_of_targets("this policy can only have a targetRefs[*].kind of Gateway/ListenerSet/HTTPRoute/GRPCRoute/TCPRoute", &["Gateway", "ListenerSet", "HTTPRoute", "GRPCRoute", "TCPRoute"]))]
#[x_kube(validation = rule::merged_policies_are_of_routes())]
#[x_kube(validation = ("has(self.jwt) || !has(self.authorization) || !has(self.authorization.rules) || !self.authorization.rules.exists(r, has(r.principal) && has(r.principal.jwt))", "if authorization.rules.principal.jwt is used, jwt must be defined"))]
pub struct SecurityPolicySpec {
    /// What the policy is for.
    #[serde(flatten)]
    pub policy_target_references: PolicyTargetReferences,
    /// Merges into the policy of the parent, for policies of routes; when absent the most specific one stands alone.
    #[x_kube(validation = ("self != 'Replace'", "Replace is not a valid MergeType for SecurityPolicy"))]
    pub merge_type: Option<MergeType>,
    /// Requests carry a key.
    pub api_key_auth: Option<ApiKeyAuth>,
    /// What scripts of other origins may do.
    pub cors: Option<Cors>,
    /// Refuses requests that other sites forge.
    pub csrf: Option<Csrf>,
    /// Requests carry a user and a password.
    pub basic_auth: Option<BasicAuth>,
    /// Requests carry a token.
    pub jwt: Option<Jwt>,
    /// Clients log in at an identity provider.
    pub oidc: Option<Oidc>,
    /// Another service decides.
    pub ext_auth: Option<ExtAuth>,
    /// Who may do what.
    pub authorization: Option<Authorization>,
}

/// Requests carry a key.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeyAuth {
    /// Secrets of type Opaque: each key names a client, its value is the key of the client.
    pub credential_refs: Vec<SecretObjectReference>,
    /// Where requests carry the key; the first place that has one counts.
    #[schemars(length(min = 1))]
    pub extract_from: Vec<ExtractFrom>,
    /// Header that tells the backend the name of the client.
    #[serde(rename = "forwardClientIDHeader")]
    pub forward_client_id_header: Option<String>,
    /// Takes the key off the request.
    pub sanitize: Option<bool>,
}

/// Where keys are; exactly one member is set.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.headers) ? !has(self.params) && !has(self.cookies) : has(self.params) != has(self.cookies)", "exactly one of headers, params, or cookies must be specified"))]
pub struct ExtractFrom {
    /// Headers.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub headers: Option<Vec<String>>,
    /// Query parameters.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub params: Option<Vec<String>>,
    /// Cookies.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub cookies: Option<Vec<String>>,
}

/// What scripts of other origins may do.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cors {
    /// Origins that scripts may come from: `*`, an origin, or one with a wildcard as in `https://*.example.com`.
    pub allow_origins: Option<Vec<Origin>>,
    /// Methods that scripts may use.
    pub allow_methods: Option<Vec<String>>,
    /// Headers that scripts may send.
    pub allow_headers: Option<Vec<String>>,
    /// Headers that scripts may read.
    pub expose_headers: Option<Vec<String>>,
    /// How long browsers may remember the answer.
    pub max_age: Option<DurationText>,
    /// Whether scripts may send credentials.
    pub allow_credentials: Option<bool>,
}

/// Refuses requests that other sites forge.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Csrf {
    /// Share of the requests that are looked at and not refused; none when absent.
    pub shadow_fraction: Option<Fraction>,
    /// Further origins that are trusted; the scheme is not compared.
    #[schemars(length(max = 16))]
    pub additional_origins: Option<Vec<Origin>>,
}

/// Requests carry a user and a password.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuth {
    /// Secret that holds users under `.htpasswd`, with passwords in the form {SHA}.
    pub users: SecretObjectReference,
    /// Header that tells the backend the name of the user.
    pub forward_username_header: Option<String>,
}
