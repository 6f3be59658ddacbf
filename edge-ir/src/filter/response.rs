//! Other responses in place of some.

use crate::{HeaderEdits, ResponseBody};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Another response in place of some. Of several for a response the first counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponseOverride {
    /// Whose responses.
    #[serde(default, skip_serializing_if = "ResponseSource::is_any")]
    pub source: ResponseSource,
    /// Codes, of which one must be that of the response; any where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<CodeRange>,
    /// Conditions on headers, all of which must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<TextMatch>,
    /// What the client gets.
    pub instead: Instead,
}

/// Whose responses count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResponseSource {
    /// Everybody's.
    #[default]
    Any,
    /// Those that the proxy makes.
    Proxy,
    /// Those of backends.
    Backend,
}

impl ResponseSource {
    fn is_any(&self) -> bool {
        *self == Self::Any
    }
}

/// Status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CodeRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// A condition on a header.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TextMatch {
    /// Its name.
    pub name: Arc<str>,
    /// What its value must be.
    pub text: TextMatcher,
}

/// What a text must be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TextMatcher {
    /// This one.
    Exact(Arc<str>),
    /// One that begins so.
    Prefix(Arc<str>),
    /// One that ends so.
    Suffix(Arc<str>),
    /// One that an expression matches as a whole.
    Regex(Arc<str>),
}

/// What a client gets in place of a response.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Instead {
    /// This.
    Response(OtherResponse),
    /// The response to another request, which the proxy makes by itself.
    Elsewhere(Elsewhere),
}

/// Another response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OtherResponse {
    /// Its code; unchanged when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Its body; unchanged when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<ResponseBody>,
    /// Its headers.
    #[serde(skip_serializing_if = "HeaderEdits::is_empty")]
    pub headers: HeaderEdits,
}

/// Where a response is taken from; what is absent is that of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Elsewhere {
    /// Scheme.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Arc<str>>,
    /// Host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Arc<str>>,
    /// Path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
    /// Port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The code that the client gets.
    pub status: u16,
}
