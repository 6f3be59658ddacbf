//! Small shapes that several kinds use.

use crate::free::{AnyJson, Empty};
use crate::number::ByteQuantity;
use crate::reference::LocalObjectReference;
use crate::text::{HttpHeaderName, PathMatchType};
use crate::values::values;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How bodies are compressed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Compression {
    /// Algorithm.
    pub r#type: CompressorType,
    /// Settings of Brotli.
    pub brotli: Option<Empty>,
    /// Settings of gzip.
    pub gzip: Option<Empty>,
    /// Settings of Zstandard.
    pub zstd: Option<Empty>,
    /// Smallest body that is compressed, at least 30 bytes; 30 when absent.
    pub min_content_length: Option<ByteQuantity>,
}

/// How a text is compared.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StringMatch {
    /// How values are compared.
    #[schemars(extend("default" = "Exact"))]
    pub r#type: Option<StringMatchType>,
    /// Text, or an expression in the syntax of RE2.
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,
}

/// One step of a JSON patch (RFC 6902).
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JsonPatchOperation {
    /// What is done.
    pub op: JsonPatchOperationType,
    /// Where, as a JSON pointer.
    pub path: Option<String>,
    /// Where, as a JSONPath (RFC 9535); `path` is appended to each hit.
    pub json_path: Option<String>,
    /// Where from, for move and copy.
    pub from: Option<String>,
    /// Operand of add, replace and test.
    pub value: Option<AnyJson>,
}

/// How a path is compared.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathMatch {
    /// How paths are compared.
    #[schemars(extend("default" = "PathPrefix"))]
    pub r#type: Option<PathMatchType>,
    /// Path, prefix or expression.
    #[schemars(length(max = 1024), extend("default" = "/"))]
    pub value: String,
    /// Takes what does not match.
    #[schemars(extend("default" = false))]
    pub invert: Option<bool>,
}

/// A body that the proxy answers with.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.type != 'Inline' || has(self.inline)", "inline must be set for type Inline"))]
#[x_kube(validation = ("self.type != 'ValueRef' || has(self.valueRef)", "valueRef must be set for type ValueRef"))]
#[x_kube(validation = ("!has(self.valueRef) || self.valueRef.kind == 'ConfigMap'", "only ConfigMap is supported for ValueRef"))]
pub struct CustomResponseBody {
    /// Which member is set.
    #[schemars(extend("default" = "Inline"))]
    pub r#type: ResponseValueType,
    /// The body as text.
    pub inline: Option<String>,
    /// ConfigMap that holds the body under `response.body`, else under its first key.
    pub value_ref: Option<LocalObjectReference>,
}

/// A header with its value.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpHeader {
    /// Name of the header.
    pub name: HttpHeaderName,
    /// Its value.
    #[schemars(length(min = 1, max = 4096))]
    pub value: String,
}

/// Changes of headers.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpHeaderFilter {
    /// Sets headers, whatever they were.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub set: Option<Vec<HttpHeader>>,
    /// Adds headers to those that there are.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub add: Option<Vec<HttpHeader>>,
    /// Adds headers that are missing.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub add_if_absent: Option<Vec<HttpHeader>>,
    /// Removes headers.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub remove: Option<Vec<String>>,
    /// Removes headers by their names.
    #[schemars(length(min = 1, max = 64))]
    pub remove_on_match: Option<Vec<StringMatch>>,
}

values! {
    /// Values of `CompressorType`.
    pub enum CompressorType {
        Gzip = "Gzip",
        Brotli = "Brotli",
        Zstd = "Zstd",
    }
}

values! {
    /// Values of `StringMatchType`.
    pub enum StringMatchType {
        Exact = "Exact",
        Prefix = "Prefix",
        Suffix = "Suffix",
        RegularExpression = "RegularExpression",
    }
}

values! {
    /// Values of `JSONPatchOperationType`.
    pub enum JsonPatchOperationType {
        Add = "add",
        Remove = "remove",
        Replace = "replace",
        Move = "move",
        Copy = "copy",
        Test = "test",
    }
}

values! {
    /// Values of `ResponseValueType`.
    pub enum ResponseValueType {
        Inline = "Inline",
        ValueRef = "ValueRef",
    }
}

values! {
    /// Values of `RoutingType`.
    pub enum RoutingType {
        Service = "Service",
        Endpoint = "Endpoint",
    }
}

values! {
    /// Values of `MergeType`.
    pub enum MergeType {
        StrategicMerge = "StrategicMerge",
        JsonMerge = "JSONMerge",
        Replace = "Replace",
    }
}
