//! EdgeExtensionPolicy: code of users in the path of requests.
//!
//! The object is kept as it was written, as a SecurityPolicy is: an extension may authenticate, and one that can't be
//! read must not get lost. Each entry of its lists is read by itself, because each says for itself what becomes of
//! requests that it can't see.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::Text;
use crate::api::security::{LocalRef, PolicyRef, TextSource, service};
use crate::api::text::{DurationText, is_default, open_enum};

service! {
    /// A service that sees requests and responses, and may change them.
    pub struct ExtProc {
        /// Longest wait for an answer; 200 ms when absent.
        #[serde(default, skip_serializing_if = "is_default")]
        pub message_timeout: Option<DurationText>,
        /// Passes requests on when the service fails.
        #[serde(default, skip_serializing_if = "is_default")]
        pub fail_open: Option<bool>,
        /// What the service sees; nothing when absent.
        #[serde(default, skip_serializing_if = "is_default")]
        pub processing_mode: Option<ProcessingMode>,
        /// Ignores its answers.
        #[serde(default, skip_serializing_if = "is_default")]
        pub shadow_mode: Option<bool>,
        /// Metadata that it shares.
        #[serde(default, skip_serializing_if = "is_default")]
        pub metadata: Option<ProcessorMetadata>,
        /// Status when it fails.
        #[serde(default, skip_serializing_if = "is_default")]
        pub status_on_error: Option<u16>,
    }
}

/// What a service sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessingMode {
    /// Of requests: their headers, and what is said here.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request: Option<ProcessedMessage>,
    /// Of responses: their headers, and what is said here.
    #[serde(default, skip_serializing_if = "is_default")]
    pub response: Option<ProcessedMessage>,
    /// The service may change what it sees.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_mode_override: Option<bool>,
}

/// What a service sees of requests or responses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessedMessage {
    /// How the body is sent; not at all when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub body: Option<BodyMode>,
    /// Attributes that are sent along.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attributes: Box<[Text]>,
}

open_enum! {
    /// How a body is sent.
    pub enum BodyMode {
        Streamed = "Streamed",
        Buffered = "Buffered",
        BufferedPartial = "BufferedPartial",
        FullDuplexStreamed = "FullDuplexStreamed",
    }
}

/// Metadata that a service shares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessorMetadata {
    /// Namespaces that it reads.
    #[serde(default, skip_serializing_if = "is_default")]
    pub accessible_namespaces: Box<[Text]>,
    /// Namespaces that it writes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub writable_namespaces: Box<[Text]>,
}

/// A script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lua {
    /// Which member is set.
    #[serde(default, skip_serializing_if = "is_default")]
    pub r#type: TextSource,
    /// The text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub inline: Option<Text>,
    /// ConfigMap that holds it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value_ref: Option<LocalRef>,
    /// A JSON object that it is given.
    #[serde(default, skip_serializing_if = "is_default")]
    pub filter_context: Option<Value>,
}

/// A filter of a Wasm module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Wasm {
    /// Name of the filter; made from the policy when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Text>,
    /// Id under which the module has registered it.
    #[serde(default, rename = "rootID", skip_serializing_if = "is_default")]
    pub root_id: Option<Text>,
    /// Where the module comes from.
    pub code: WasmCode,
    /// Settings of the filter.
    #[serde(default, skip_serializing_if = "is_default")]
    pub config: Option<Value>,
    /// Passes requests on when the module fails.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fail_open: Option<bool>,
    /// Environment of the module.
    #[serde(default, skip_serializing_if = "is_default")]
    pub env: Option<WasmEnv>,
}

/// Where a Wasm module comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WasmCode {
    /// Which member is set.
    pub r#type: WasmCodeType,
    /// A file behind a URL.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http: Option<HttpWasmCode>,
    /// An image of a registry.
    #[serde(default, skip_serializing_if = "is_default")]
    pub image: Option<ImageWasmCode>,
    /// When it is looked at again, where no SHA-256 is given.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pull_policy: Option<PullPolicy>,
}

open_enum! {
    /// What a Wasm module comes from.
    pub enum WasmCodeType {
        Http = "HTTP",
        Image = "Image",
    }
}

open_enum! {
    /// When a module is looked at again.
    pub enum PullPolicy {
        IfNotPresent = "IfNotPresent",
        Always = "Always",
    }
}

/// A module behind a URL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpWasmCode {
    /// The URL.
    pub url: Text,
    /// SHA-256 of the file in hexadecimal digits; anything will do when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sha256: Option<Text>,
    /// TLS towards the server.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: Option<WasmCodeTls>,
}

/// A module in an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageWasmCode {
    /// The image.
    pub url: Text,
    /// SHA-256 of its manifest in hexadecimal digits; anything will do when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sha256: Option<Text>,
    /// Secret that the registry is shown.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pull_secret_ref: Option<PolicyRef>,
    /// TLS towards the registry.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: Option<WasmCodeTls>,
}

/// TLS towards the server of a module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WasmCodeTls {
    /// Authorities that vouch for it.
    pub ca_certificate_ref: PolicyRef,
}

/// Environment of a module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WasmEnv {
    /// Variables of the proxy's environment that it sees.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host_keys: Box<[Text]>,
}

/// A filter of a native module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModuleFilter {
    /// The module, by its name in the EdgeProxy.
    pub name: Text,
    /// Name of the filter inside of it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub filter_name: Option<Text>,
    /// Settings of the filter.
    #[serde(default, skip_serializing_if = "is_default")]
    pub config: Option<Value>,
    /// It answers requests itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub terminal_filter: Option<bool>,
}
