//! Other responses in place of some.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::http_route_filter::{ResponseHeaders, ResponseText};
use crate::api::string_match::StringMatch;
use crate::api::text::{is_default, open_enum};

/// Another response in place of some.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponseOverride {
    /// In place of which.
    pub r#match: ResponseMatch,
    /// A response.
    #[serde(default, skip_serializing_if = "is_default")]
    pub response: Option<Box<OtherResponse>>,
    /// A redirect.
    #[serde(default, skip_serializing_if = "is_default")]
    pub redirect: Option<Box<OtherLocation>>,
    /// Whose responses count.
    #[serde(default, skip_serializing_if = "is_default")]
    pub source: Option<ResponseSource>,
}

open_enum! {
    /// Whose responses count.
    pub enum ResponseSource {
        All = "All",
        Local = "Local",
        Backend = "Backend",
    }
}

/// Conditions on a response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponseMatch {
    /// Its code, any of these.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status_codes: Box<[StatusCodeMatch]>,
    /// Its headers, all of these.
    #[serde(default, skip_serializing_if = "is_default")]
    pub response_headers: Box<[ResponseHeaderMatch]>,
}

/// A code or a range of codes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusCodeMatch {
    /// Which member is set.
    #[serde(default)]
    pub r#type: StatusCodeMatchType,
    /// One code.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value: Option<i32>,
    /// A range, its ends included.
    #[serde(default, skip_serializing_if = "is_default")]
    pub range: Option<StatusCodeRange>,
}

open_enum! {
    /// Which member is set.
    pub enum StatusCodeMatchType {
        Value = "Value",
        Range = "Range",
    }
}

/// A range of codes, its ends included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusCodeRange {
    /// The first.
    pub start: i32,
    /// The last.
    pub end: i32,
}

/// A condition on a header of a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponseHeaderMatch {
    /// Its name.
    pub name: Text,
    /// What it must be.
    pub value: StringMatch,
}

/// The other response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OtherResponse {
    /// Type of its body.
    #[serde(default, skip_serializing_if = "is_default")]
    pub content_type: Option<Text>,
    /// Its body.
    #[serde(default, skip_serializing_if = "is_default")]
    pub body: Option<ResponseText>,
    /// Its code; unchanged when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status_code: Option<u16>,
    /// Its headers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub header: Option<Box<ResponseHeaders>>,
}

/// A redirect in place of a response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OtherLocation {
    /// Scheme; that of the request when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scheme: Option<Text>,
    /// Host; that of the request when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hostname: Option<Text>,
    /// Path; that of the request when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub path: Option<crate::api::route_filter::PathModifier>,
    /// Port; that of the scheme when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub port: Option<u16>,
    /// 301 or 302.
    #[serde(default = "found")]
    pub status_code: u16,
}

fn found() -> u16 {
    302
}
