//! Filters of HTTPRoute and GRPCRoute rules, backends and listeners.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::meta::LocalObjectRef;
use crate::api::shape::backend_ref;
use crate::api::text::{is_default, open_enum};

/// A filter of HTTPRoute or GRPCRoute: the type names the one member that is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteFilter {
    /// Which filter.
    pub r#type: RouteFilterType,
    /// Edits request headers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request_header_modifier: Option<Box<HeaderModifier>>,
    /// Edits response headers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub response_header_modifier: Option<Box<HeaderModifier>>,
    /// Sends a copy elsewhere.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request_mirror: Option<Box<RequestMirror>>,
    /// Answers with a redirect.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request_redirect: Option<Box<RequestRedirect>>,
    /// Changes host and path towards the backend.
    #[serde(default, skip_serializing_if = "is_default")]
    pub url_rewrite: Option<Box<UrlRewrite>>,
    /// Cross-origin rules.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cors: Option<Box<CorsFilter>>,
    /// Asks an authorization service.
    #[serde(default, skip_serializing_if = "is_default")]
    pub external_auth: Option<Box<ExternalAuth>>,
    /// A filter kept in an object of its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extension_ref: Option<Box<LocalObjectRef>>,
}

open_enum! {
    /// Which filter.
    pub enum RouteFilterType {
        RequestHeaderModifier = "RequestHeaderModifier",
        ResponseHeaderModifier = "ResponseHeaderModifier",
        RequestMirror = "RequestMirror",
        RequestRedirect = "RequestRedirect",
        UrlRewrite = "URLRewrite",
        Cors = "CORS",
        ExternalAuth = "ExternalAuth",
        ExtensionRef = "ExtensionRef",
    }
}

/// Header edits: set, add, remove.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderModifier {
    /// Replace or create.
    #[serde(default, skip_serializing_if = "is_default")]
    pub set: Box<[HttpHeader]>,
    /// Append.
    #[serde(default, skip_serializing_if = "is_default")]
    pub add: Box<[HttpHeader]>,
    /// Take away.
    #[serde(default, skip_serializing_if = "is_default")]
    pub remove: Box<[Text]>,
}

/// A header with its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpHeader {
    /// Name.
    pub name: Text,
    /// Value.
    pub value: Text,
}

/// Where copies of requests go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestMirror {
    /// The backend that gets the copies.
    pub backend_ref: MirrorBackendRef,
    /// Share in percent; absent with no fraction means all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub percent: Option<u32>,
    /// Share as a fraction.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fraction: Option<Fraction>,
}

backend_ref! {
    /// A backend without weight.
    pub struct MirrorBackendRef {
    }
}

/// A share.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fraction {
    /// Part.
    pub numerator: u32,
    /// Whole; 100 when absent.
    #[serde(default = "hundred")]
    pub denominator: u32,
}

/// The Location of a redirect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestRedirect {
    /// `http` or `https`; absent keeps it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scheme: Option<Text>,
    /// Host; absent keeps it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hostname: Option<Text>,
    /// Path; absent keeps it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub path: Option<PathModifier>,
    /// Port; absent follows the scheme or listener.
    #[serde(default, skip_serializing_if = "is_default")]
    pub port: Option<u16>,
    /// 301, 302, 303, 307 or 308; 302 when absent.
    #[serde(default = "found")]
    pub status_code: u16,
}

/// What the backend sees instead.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UrlRewrite {
    /// Host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hostname: Option<Text>,
    /// Path.
    #[serde(default, skip_serializing_if = "is_default")]
    pub path: Option<PathModifier>,
}

/// How a path is changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathModifier {
    /// Which change.
    pub r#type: PathModifierType,
    /// The new path.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replace_full_path: Option<Text>,
    /// What replaces the matched prefix.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replace_prefix_match: Option<Text>,
}

open_enum! {
    /// How a path is changed.
    pub enum PathModifierType {
        ReplaceFullPath = "ReplaceFullPath",
        ReplacePrefixMatch = "ReplacePrefixMatch",
    }
}

/// Cross-origin rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CorsFilter {
    /// Origins, `*`, or origins with a wildcard host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_origins: Box<[Text]>,
    /// Whether credentials may be sent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_credentials: Option<bool>,
    /// Methods or `*`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_methods: Box<[Text]>,
    /// Request headers or `*`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_headers: Box<[Text]>,
    /// Response headers that scripts may read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expose_headers: Box<[Text]>,
    /// Seconds a preflight answer may be cached.
    #[serde(default = "five")]
    pub max_age: u32,
}

/// An authorization service asked before a request goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuth {
    /// How it is asked.
    pub protocol: ExternalAuthProtocol,
    /// The service.
    pub backend_ref: MirrorBackendRef,
    /// Settings for GRPC.
    #[serde(default, skip_serializing_if = "is_default")]
    pub grpc: Option<Box<ExternalAuthGrpc>>,
    /// Settings for HTTP.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http: Option<Box<ExternalAuthHttp>>,
    /// How much of the body it sees.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forward_body: Option<ForwardBody>,
}

open_enum! {
    /// How an authorization service is asked.
    pub enum ExternalAuthProtocol {
        Http = "HTTP",
        Grpc = "GRPC",
    }
}

/// Settings for a gRPC authorization service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuthGrpc {
    /// Request headers it sees; none means all.
    #[serde(rename = "allowedHeaders", default, skip_serializing_if = "is_default")]
    pub allowed_headers: Box<[Text]>,
}

/// Settings for an HTTP authorization service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuthHttp {
    /// Prefix put before the request's path.
    #[serde(default, skip_serializing_if = "is_default")]
    pub path: Option<Text>,
    /// Request headers it sees besides the core ones.
    #[serde(rename = "allowedHeaders", default, skip_serializing_if = "is_default")]
    pub allowed_headers: Box<[Text]>,
    /// Its response headers that go on to the backend.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allowed_response_headers: Box<[Text]>,
}

/// How much of a body an authorization service sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardBody {
    /// Bytes; 0 means nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_size: i32,
}

fn five() -> u32 {
    5
}

fn hundred() -> u32 {
    100
}

fn found() -> u16 {
    302
}

pub(crate) fn one() -> u32 {
    1
}
