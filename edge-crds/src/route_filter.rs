//! HTTPRouteFilter: what rules of routes may do beyond the standard filters.

use crate::reference::SecretObjectReference;
use crate::shape::{CustomResponseBody, HttpHeaderFilter};
use crate::values::values;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What rules of routes may do beyond the standard filters.
#[derive(Clone, CustomResource, Debug, Deserialize, Serialize, KubeSchema)]
#[kube(
    group = "gateway.edge",
    version = "v1alpha1",
    kind = "HTTPRouteFilter",
    root = "HttpRouteFilter",
    plural = "httproutefilters",
    shortname = "hrf",
    category = "edge-gateway",
    namespaced,
    doc = "What rules of routes may do beyond the standard filters.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteFilterSpec {
    /// Rewrites host and path.
    pub url_rewrite: Option<HttpUrlRewriteFilter>,
    /// The proxy answers itself.
    pub direct_response: Option<HttpDirectResponseFilter>,
    /// Puts a credential into a header of the request.
    pub credential_injection: Option<HttpCredentialInjectionFilter>,
    /// Further conditions of the rule, of which one must hold.
    #[schemars(length(max = 8))]
    pub matches: Option<Vec<HttpRouteMatchFilter>>,
}

/// Rewrites host and path.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpUrlRewriteFilter {
    /// The new host.
    pub hostname: Option<HttpHostnameModifier>,
    /// The new path.
    pub path: Option<HttpPathModifier>,
    /// Tells the old host in X-Forwarded-Host; true when absent.
    pub append_x_forwarded_host: Option<bool>,
}

/// How the host is rewritten.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!(has(self.header) && self.type != 'Header')", "header must be nil if the type is not Header"))]
#[x_kube(validation = ("!(!has(self.header) && self.type == 'Header')", "header must be specified for Header type"))]
#[x_kube(validation = ("!(has(self.pathRegex) && self.type != 'PathRegex')", "pathRegex must be nil if the type is not PathRegex"))]
#[x_kube(validation = ("!(!has(self.pathRegex) && self.type == 'PathRegex')", "pathRegex must be specified for PathRegex type"))]
pub struct HttpHostnameModifier {
    /// From a header, from the backend, or from the path.
    pub r#type: HttpHostnameModifierType,
    /// Header that holds the host, for Header.
    pub header: Option<String>,
    /// Makes the host from the path, for PathRegex.
    pub path_regex: Option<HostnamePathRegexRewrite>,
}

/// Makes a host from the path.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostnamePathRegexRewrite {
    /// Expression in the syntax of RE2.
    #[schemars(length(min = 1))]
    pub pattern: String,
    /// What takes the place of a match; `\\1` is the first group.
    #[schemars(length(min = 1), regex(pattern = r"^[^\r\n\x00]*$"))]
    pub substitution: String,
}

/// How the path is rewritten.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.replaceRegexMatch) == (self.type == 'ReplaceRegexMatch')", "If HTTPPathModifier type is ReplaceRegexMatch, replaceRegexMatch field needs to be set."))]
pub struct HttpPathModifier {
    /// Which member is set.
    pub r#type: HttpPathModifierType,
    /// Replaces what an expression finds.
    pub replace_regex_match: Option<ReplaceRegexMatch>,
}

/// Replaces what an expression finds.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplaceRegexMatch {
    /// Expression in the syntax of RE2.
    #[schemars(length(min = 1))]
    pub pattern: String,
    /// What takes the place of a match; `\\1` is the first group.
    pub substitution: String,
}

/// The proxy answers itself.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpDirectResponseFilter {
    /// Its content-type header.
    pub content_type: Option<String>,
    /// Its body; command operators are filled in.
    pub body: Option<CustomResponseBody>,
    /// Its status; 200 when absent. GRPCRoutes refuse 2xx.
    pub status_code: Option<i32>,
    /// Headers that are added or set.
    #[x_kube(validation = ("!has(self.remove) || self.remove.size() == 0", "header.remove is not supported for DirectResponse"))]
    pub header: Option<HttpHeaderFilter>,
}

/// Puts a credential into a header of the request.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpCredentialInjectionFilter {
    /// The header; Authorization when absent.
    pub header: Option<String>,
    /// Replaces a header that is there.
    pub overwrite: Option<bool>,
    /// The credential.
    pub credential: InjectedCredential,
}

/// Where a credential is.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InjectedCredential {
    /// Secret that holds it under `credential`.
    pub value_ref: SecretObjectReference,
}

/// Further conditions of a rule.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteMatchFilter {
    /// Cookies, all of which match.
    #[schemars(length(min = 1, max = 16))]
    pub cookies: Option<Vec<HttpCookieMatch>>,
}

/// How a cookie is compared.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpCookieMatch {
    /// How values are compared.
    #[schemars(extend("default" = "Exact"))]
    pub r#type: Option<CookieMatchType>,
    /// Name of the cookie.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Text, or an expression in the syntax of RE2.
    #[schemars(length(min = 1, max = 4096))]
    pub value: String,
}

values! {
    /// Values of `HTTPHostnameModifierType`.
    pub enum HttpHostnameModifierType {
        Header = "Header",
        Backend = "Backend",
        PathRegex = "PathRegex",
    }
}

values! {
    /// Values of `HTTPPathModifierType`.
    pub enum HttpPathModifierType {
        ReplaceRegexMatch = "ReplaceRegexMatch",
    }
}

values! {
    /// Values of `CookieMatchType`.
    pub enum CookieMatchType {
        Exact = "Exact",
        RegularExpression = "RegularExpression",
    }
}
