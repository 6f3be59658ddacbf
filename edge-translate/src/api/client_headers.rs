//! How a ClientTrafficPolicy treats headers.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::route_filter::HttpHeader;
use crate::api::string_match::StringMatch;
use crate::api::text::{Quantity, is_default, open_enum};

/// How headers are treated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderSettings {
    /// Adds the proxy's own headers; true when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enable_envoy_headers: Option<bool>,
    /// Another name of the same.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enable_edge_headers: Option<bool>,
    /// Sends no X-RateLimit headers; no filter sends any yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub disable_rate_limit_headers: bool,
    /// What becomes of X-Forwarded-Client-Cert.
    #[serde(default, skip_serializing_if = "is_default")]
    pub x_forwarded_client_cert: Option<Box<XForwardedClientCert>>,
    /// What becomes of names with underscores.
    #[serde(default, skip_serializing_if = "is_default")]
    pub with_underscores_action: Option<WithUnderscoresAction>,
    /// Older form of `requestID`.
    #[serde(rename = "preserveXRequestID", default, skip_serializing_if = "is_default")]
    pub preserve_x_request_id: Option<bool>,
    /// Where X-Request-Id comes from.
    #[serde(rename = "requestID", default, skip_serializing_if = "is_default")]
    pub request_id: Option<RequestIdAction>,
    /// Edits to requests before they are routed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub early_request_headers: Option<Box<HeaderFilter>>,
    /// Edits to responses just before they are sent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub late_response_headers: Option<Box<HeaderFilter>>,
    /// The Host header.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host: Option<HostSettings>,
    /// Bytes that the headers of a request may have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_request_header_limit: Option<Quantity>,
}

/// What becomes of X-Forwarded-Client-Cert.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct XForwardedClientCert {
    /// Whether it is removed, passed, added to or replaced.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mode: Option<XfccForwardMode>,
    /// What of the certificate is told.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cert_details_to_add: Box<[XfccCertData]>,
}

/// The Host header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostSettings {
    /// Takes the dot off `example.com.`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub strip_trailing_host_dot: bool,
}

/// Edits to headers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderFilter {
    /// Replace or create.
    #[serde(default, skip_serializing_if = "is_default")]
    pub set: Box<[HttpHeader]>,
    /// Append.
    #[serde(default, skip_serializing_if = "is_default")]
    pub add: Box<[HttpHeader]>,
    /// Create where there is none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub add_if_absent: Box<[HttpHeader]>,
    /// Take away.
    #[serde(default, skip_serializing_if = "is_default")]
    pub remove: Box<[Text]>,
    /// Take away by name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub remove_on_match: Box<[StringMatch]>,
}

open_enum! {
    /// What becomes of headers with underscores in their names.
    pub enum WithUnderscoresAction {
        RejectRequest = "RejectRequest",
        Allow = "Allow",
        DropHeader = "DropHeader",
    }
}

open_enum! {
    /// Where X-Request-Id comes from.
    pub enum RequestIdAction {
        Generate = "Generate",
        PreserveOrGenerate = "PreserveOrGenerate",
        Preserve = "Preserve",
        Disable = "Disable",
    }
}

open_enum! {
    /// What becomes of X-Forwarded-Client-Cert.
    pub enum XfccForwardMode {
        Sanitize = "Sanitize",
        ForwardOnly = "ForwardOnly",
        AppendForward = "AppendForward",
        SanitizeSet = "SanitizeSet",
        AlwaysForwardOnly = "AlwaysForwardOnly",
    }
}

open_enum! {
    /// What of a certificate is told.
    pub enum XfccCertData {
        Subject = "Subject",
        Cert = "Cert",
        Chain = "Chain",
        Dns = "DNS",
        Uri = "URI",
    }
}
