//! Other responses in place of some.

use crate::number::PortNumber;
use crate::shape::{CustomResponseBody, HttpHeaderFilter, StringMatch};
use crate::text::{HttpHeaderName, PreciseHostname};
use crate::values::values;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Another response in place of some.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("(has(self.response) && !has(self.redirect)) || (!has(self.response) && has(self.redirect))", "exactly one of response or redirect must be specified"))]
pub struct ResponseOverride {
    /// Which responses.
    pub r#match: CustomResponseMatch,
    /// The response that takes the place.
    pub response: Option<CustomResponse>,
    /// Another request, of which the response takes the place: the client isn't told to ask elsewhere.
    pub redirect: Option<CustomRedirect>,
    /// All responses, those of the proxy (Local) or those of backends (Backend).
    pub source: Option<ResponseOverrideSource>,
}

/// Which responses are replaced.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.statusCodes) || has(self.responseHeaders)", "at least one of statusCodes or responseHeaders must be specified"))]
pub struct CustomResponseMatch {
    /// Statuses, one of which it has.
    #[schemars(length(min = 1, max = 50))]
    pub status_codes: Option<Vec<StatusCodeMatch>>,
    /// Headers, all of which match.
    #[schemars(length(min = 1, max = 16))]
    pub response_headers: Option<Vec<ResponseOverrideHeaderMatch>>,
}

/// A status or a range of them.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.type != 'Value' || has(self.value)", "value must be set for type Value"))]
#[x_kube(validation = ("self.type != 'Range' || has(self.range)", "range must be set for type Range"))]
pub struct StatusCodeMatch {
    /// Which member is set.
    #[schemars(extend("default" = "Value"))]
    pub r#type: StatusCodeValueType,
    /// One status.
    pub value: Option<i32>,
    /// A range of statuses.
    pub range: Option<StatusCodeRange>,
}

/// A range of statuses.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.end > self.start", "end must be greater than start"))]
pub struct StatusCodeRange {
    /// The first.
    pub start: i32,
    /// The last.
    pub end: i32,
}

/// A header of a response.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResponseOverrideHeaderMatch {
    /// Name of the header.
    pub name: HttpHeaderName,
    /// What it holds.
    pub value: StringMatch,
}

/// The response that takes the place.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomResponse {
    /// Its content-type header.
    pub content_type: Option<String>,
    /// Its body; command operators are filled in.
    pub body: Option<CustomResponseBody>,
    /// Its status; unchanged when absent.
    pub status_code: Option<i32>,
    /// Headers that are added or set.
    #[x_kube(validation = ("!has(self.remove) || self.remove.size() == 0", "Remove is not supported for header in CustomResponse"))]
    pub header: Option<HttpHeaderFilter>,
}

/// The request that is made instead, by the routes of the same listener: its response takes the place. The response
/// stays as it was where no route is for it. Clients see no `Location`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomRedirect {
    /// Scheme; that of the request when absent.
    #[schemars(extend("enum" = ["http", "https"]))]
    pub scheme: Option<String>,
    /// Host; that of the request when absent.
    pub hostname: Option<PreciseHostname>,
    /// Path, by ReplaceFullPath; that of the request when absent.
    pub path: Option<FullPathModifier>,
    /// Port; that of the scheme, else of the listener, when absent.
    pub port: Option<PortNumber>,
    /// Status of the response that takes the place; where that is an error, edge-proxy leaves it what it is, and stock
    /// Envoy doesn't.
    #[schemars(extend("enum" = [301, 302]), extend("default" = 302))]
    pub status_code: Option<i32>,
}

values! {
    /// Values of `ResponseOverrideSource`.
    pub enum ResponseOverrideSource {
        All = "All",
        Local = "Local",
        Backend = "Backend",
    }
}

values! {
    /// Values of `StatusCodeValueType`.
    pub enum StatusCodeValueType {
        Value = "Value",
        Range = "Range",
    }
}

/// How the path of a redirect is made.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.type == 'ReplaceFullPath'", "only ReplaceFullPath is supported for path.type"))]
pub struct FullPathModifier {
    /// Which member is set.
    pub r#type: PathModifierType,
    /// The new path.
    #[schemars(length(max = 1024))]
    pub replace_full_path: Option<String>,
    /// What takes the place of the prefix that the route matched.
    #[schemars(length(max = 1024))]
    pub replace_prefix_match: Option<String>,
}

values! {
    /// How a path is made.
    pub enum PathModifierType {
        ReplaceFullPath = "ReplaceFullPath",
        ReplacePrefixMatch = "ReplacePrefixMatch",
    }
}
