//! HTTPRouteFilter (gateway.edge): what rules of routes may do beyond the standard filters.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::http_route::MatchType;
use crate::api::meta::{LocalObjectRef, Metadata, SecretRef};
use crate::api::route_filter::HttpHeader;
use crate::api::text::{is_default, open_enum};

/// What rules of routes that refer to it do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteFilter {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(default)]
    pub spec: HttpRouteFilterSpec,
}

/// What an HTTPRouteFilter asks for; all that is set holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteFilterSpec {
    /// Changes host and path towards the backend.
    #[serde(default, skip_serializing_if = "is_default")]
    pub url_rewrite: Option<Box<UrlRewriteFilter>>,
    /// The proxy answers itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub direct_response: Option<Box<DirectResponseFilter>>,
    /// Puts a credential into a header.
    #[serde(default, skip_serializing_if = "is_default")]
    pub credential_injection: Option<Box<CredentialInjection>>,
    /// Further conditions of the rule; all of them must hold.
    #[serde(default, skip_serializing_if = "is_default")]
    pub matches: Box<[RouteMatchFilter]>,
}

/// What the backend sees instead.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UrlRewriteFilter {
    /// Host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hostname: Option<HostModifier>,
    /// Path.
    #[serde(default, skip_serializing_if = "is_default")]
    pub path: Option<RegexPathModifier>,
    /// Whether X-Forwarded-Host tells the old host; it does when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub append_x_forwarded_host: Option<bool>,
}

/// How the host is changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostModifier {
    /// Where the new host comes from.
    pub r#type: HostModifierType,
    /// The header that holds it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub header: Option<Text>,
    /// What makes it of the path.
    #[serde(default, skip_serializing_if = "is_default")]
    pub path_regex: Option<RegexReplacement>,
}

open_enum! {
    /// Where a new host comes from.
    pub enum HostModifierType {
        Header = "Header",
        Backend = "Backend",
        PathRegex = "PathRegex",
    }
}

/// How the path is changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegexPathModifier {
    /// Which change.
    pub r#type: RegexPathModifierType,
    /// What is replaced by what.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replace_regex_match: Option<RegexReplacement>,
}

open_enum! {
    /// How a path is changed.
    pub enum RegexPathModifierType {
        ReplaceRegexMatch = "ReplaceRegexMatch",
    }
}

/// An expression, and what takes the place of what it finds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegexReplacement {
    /// The expression.
    #[serde(default)]
    pub pattern: Text,
    /// What takes the place; `\1` stands for the first group.
    #[serde(default)]
    pub substitution: Text,
}

/// An answer of the proxy's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectResponseFilter {
    /// Its content type.
    #[serde(default, skip_serializing_if = "is_default")]
    pub content_type: Option<Text>,
    /// Its body.
    #[serde(default, skip_serializing_if = "is_default")]
    pub body: Option<ResponseText>,
    /// Its status; 200 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status_code: Option<i32>,
    /// Headers that it has besides.
    #[serde(default, skip_serializing_if = "is_default")]
    pub header: Option<Box<ResponseHeaders>>,
}

/// The body of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponseText {
    /// Where the text is.
    #[serde(default)]
    pub r#type: ResponseTextType,
    /// The text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub inline: Option<Text>,
    /// The ConfigMap that holds it, under `response.body` or its first key.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value_ref: Option<LocalObjectRef>,
}

open_enum! {
    /// Where the text of an answer is.
    pub enum ResponseTextType {
        Inline = "Inline",
        ValueRef = "ValueRef",
    }
}

/// Headers of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponseHeaders {
    /// Replace or create.
    #[serde(default, skip_serializing_if = "is_default")]
    pub set: Box<[HttpHeader]>,
    /// Append.
    #[serde(default, skip_serializing_if = "is_default")]
    pub add: Box<[HttpHeader]>,
    /// Create where there is none; an answer has no use for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub add_if_absent: Box<[HttpHeader]>,
    /// Take away; an answer has no use for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub remove: Box<[Text]>,
    /// Take away by condition; an answer has no use for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub remove_on_match: Box<[serde_json::Value]>,
}

/// Puts a credential into a header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CredentialInjection {
    /// The header; Authorization when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub header: Option<Text>,
    /// Replaces a header that the client sent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overwrite: bool,
    /// Where the credential is.
    pub credential: CredentialSource,
}

/// Where a credential is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CredentialSource {
    /// The Secret that holds it under `credential`.
    pub value_ref: SecretRef,
}

/// Further conditions of a rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteMatchFilter {
    /// On cookies; all of them must hold.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cookies: Box<[CookieMatch]>,
}

/// A condition on a cookie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CookieMatch {
    /// How the value is compared.
    #[serde(default)]
    pub r#type: MatchType,
    /// Name of the cookie.
    pub name: Text,
    /// Text or expression.
    pub value: Text,
}
