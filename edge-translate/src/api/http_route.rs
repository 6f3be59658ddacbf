//! HTTPRoute, and the filters and backend references that GRPCRoute shares with it.
//!
//! CRD defaults are filled in: an absent path is PathPrefix `/`, absent rules are one rule without matches, an absent
//! weight is 1. A rule without matches keeps an empty list; readers treat it as one match of everything.

use std::sync::Arc;

use edge_ir::Seldom;
use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::meta::{Metadata, ParentReference, StatusAsRead};
use crate::api::route_filter::{RouteFilter, one};
use crate::api::shape::backend_ref;
use crate::api::text::{DurationText, is_default, open_enum};

/// Rules that send HTTP requests to backends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRoute {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(default)]
    pub spec: HttpRouteSpec,
    /// Status as read.
    #[serde(default, skip_serializing_if = "StatusAsRead::is_absent")]
    pub status: StatusAsRead,
}

/// What an HTTPRoute asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteSpec {
    /// Gateways and ListenerSets it attaches to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parent_refs: Box<[Arc<ParentReference>]>,
    /// Experimental: attach to Gateways that offer themselves.
    #[serde(default, skip_serializing_if = "is_default")]
    pub use_default_gateways: Option<Text>,
    /// Host names; none means those of the listener.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hostnames: Box<[Text]>,
    /// Rules; absent means one that matches everything.
    #[serde(default = "default_rules")]
    pub rules: Box<[HttpRouteRule]>,
}

/// Matches, filters and backends that belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteRule {
    /// Name, the `sectionName` of policies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Text>,
    /// Any of them must hold; none means everything.
    #[serde(default, skip_serializing_if = "is_default")]
    pub matches: Box<[HttpRouteMatch]>,
    /// Applied to matching requests.
    #[serde(default, skip_serializing_if = "is_default")]
    pub filters: Box<[RouteFilter]>,
    /// Where requests go, by weight.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_refs: Box<[RouteBackendRef]>,
    /// Time limits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeouts: Option<Box<HttpRouteTimeouts>>,
    /// Retries.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: Option<Box<HttpRouteRetry>>,
    /// Experimental: keep a client on one endpoint.
    #[serde(default, skip_serializing_if = "is_default")]
    pub session_persistence: Option<Box<SessionPersistence>>,
}

/// Conditions that must all hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteMatch {
    /// On the path; absent means PathPrefix `/`.
    #[serde(default = "match_everything")]
    pub path: HttpPathMatch,
    /// On headers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub headers: Seldom<HttpHeaderMatch>,
    /// On query parameters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub query_params: Seldom<HttpQueryParamMatch>,
    /// On the method.
    #[serde(default, skip_serializing_if = "is_default")]
    pub method: Option<HttpMethod>,
}

/// A condition on the path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpPathMatch {
    /// How the value is compared.
    #[serde(default)]
    pub r#type: PathMatchType,
    /// The path, prefix or expression.
    #[serde(default = "root_path")]
    pub value: Text,
}

open_enum! {
    /// How a path is compared.
    pub enum PathMatchType {
        PathPrefix = "PathPrefix",
        Exact = "Exact",
        RegularExpression = "RegularExpression",
    }
}

open_enum! {
    /// How a header or query value is compared.
    pub enum MatchType {
        Exact = "Exact",
        RegularExpression = "RegularExpression",
    }
}

open_enum! {
    /// An HTTP method.
    pub enum HttpMethod {
        Get = "GET",
        Head = "HEAD",
        Post = "POST",
        Put = "PUT",
        Delete = "DELETE",
        Connect = "CONNECT",
        Options = "OPTIONS",
        Trace = "TRACE",
        Patch = "PATCH",
    }
}

/// A condition on a header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpHeaderMatch {
    /// How the value is compared.
    #[serde(default)]
    pub r#type: MatchType,
    /// Header name, in any case.
    pub name: Text,
    /// Value or expression.
    pub value: Text,
}

/// A condition on a query parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpQueryParamMatch {
    /// How the value is compared.
    #[serde(default)]
    pub r#type: MatchType,
    /// Parameter name.
    pub name: Text,
    /// Value or expression.
    pub value: Text,
}

backend_ref! {
    /// A backend of a route with its weight and its own filters.
    pub struct RouteBackendRef {
        /// Share of the requests.
        #[serde(default = "one")]
        pub weight: u32,
        /// Filters for this backend only (HTTPRoute and GRPCRoute).
        #[serde(default, skip_serializing_if = "is_default")]
        pub filters: Seldom<RouteFilter>,
    }
}

/// Time limits of a rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteTimeouts {
    /// For the whole request; `0s` switches it off.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request: Option<DurationText>,
    /// For one try at a backend.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_request: Option<DurationText>,
}

/// Retries of a rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteRetry {
    /// Response codes that are tried again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub codes: Box<[u16]>,
    /// How often; 0 is off, 1 when absent.
    #[serde(default = "one_attempt")]
    pub attempts: u32,
    /// Base interval between tries.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backoff: Option<DurationText>,
}

/// Keeps a client on one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPersistence {
    /// Name of the session in releases before v1.7.
    #[serde(default, skip_serializing_if = "is_default")]
    pub session_name: Option<Text>,
    /// Longest life of a session.
    #[serde(default, skip_serializing_if = "is_default")]
    pub absolute_timeout: Option<DurationText>,
    /// Longest silence of a session.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idle_timeout: Option<DurationText>,
    /// Where the session is kept.
    #[serde(default)]
    pub r#type: SessionPersistenceType,
    /// Cookie settings in releases before v1.7.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cookie_config: Option<CookieSession>,
    /// Cookie settings.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cookie: Option<CookieSession>,
    /// Header settings.
    #[serde(default, skip_serializing_if = "is_default")]
    pub header: Option<HeaderSession>,
}

open_enum! {
    /// Where a session is kept.
    pub enum SessionPersistenceType {
        Cookie = "Cookie",
        Header = "Header",
    }
}

/// A session kept in a cookie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CookieSession {
    /// Cookie name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Text>,
    /// Cookie path.
    #[serde(default = "root_path")]
    pub path: Text,
    /// Whether the cookie outlives the browser session.
    #[serde(default)]
    pub lifetime_type: CookieLifetime,
}

open_enum! {
    /// How long a cookie lives.
    pub enum CookieLifetime {
        Session = "Session",
        Permanent = "Permanent",
    }
}

/// A session kept in a header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderSession {
    /// Header name.
    pub name: Text,
}

impl Default for HttpPathMatch {
    fn default() -> Self {
        Self {
            r#type: PathMatchType::PathPrefix,
            value: root_path(),
        }
    }
}

/// Rules of a route that names none: one that matches everything.
impl Default for HttpRouteSpec {
    fn default() -> Self {
        Self {
            parent_refs: Box::default(),
            use_default_gateways: None,
            hostnames: Box::default(),
            rules: default_rules(),
        }
    }
}

fn match_everything() -> HttpPathMatch {
    HttpPathMatch::default()
}

fn default_rules() -> Box<[HttpRouteRule]> {
    Box::new([HttpRouteRule {
        matches: Box::new([HttpRouteMatch::default()]),
        ..HttpRouteRule::default()
    }])
}

impl Default for HttpRouteMatch {
    fn default() -> Self {
        Self {
            path: match_everything(),
            headers: Seldom::default(),
            query_params: Seldom::default(),
            method: None,
        }
    }
}

fn root_path() -> Text {
    "/".into()
}

fn one_attempt() -> u32 {
    1
}
