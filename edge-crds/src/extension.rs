//! EdgeExtensionPolicy: code of users in the path of requests.

use crate::cluster_settings::BackendCluster;
use crate::free::AnyJson;
use crate::reference::{LocalObjectReference, SecretObjectReference};
use crate::rule;
use crate::shape::MergeType;
use crate::status::PolicyStatus;
use crate::target::PolicyTargetReferences;
use crate::text::DurationText;
use crate::values::values;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Code of users in the path of requests.
#[derive(Clone, CustomResource, Debug, Deserialize, Serialize, KubeSchema)]
#[kube(
    group = "gateway.edge",
    version = "v1alpha1",
    kind = "EdgeExtensionPolicy",
    plural = "edgeextensionpolicies",
    shortname = "eep",
    category = "edge-gateway",
    namespaced,
    doc = "Code of users in the path of requests.",
    status = "PolicyStatus",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::one_form_of_target())]
#[x_kube(validation = rule::group_of_target())]
#[x_kube(validation = rule::kind_of_target("this policy can only have a targetRef.kind of Gateway/ListenerSet/HTTPRoute/GRPCRoute/TCPRoute/UDPRoute/TLSRoute", &["Gateway", "ListenerSet", "HTTPRoute", "GRPCRoute", "UDPRoute", "TCPRoute", "TLSRoute"]))]
#[x_kube(validation = rule::group_of_targets())]
#[x_kube(validation = rule::kinds_of_targets("this policy can only have a targetRefs[*].kind of Gateway/ListenerSet/HTTPRoute/GRPCRoute/TCPRoute/UDPRoute/TLSRoute", &["Gateway", "ListenerSet", "HTTPRoute", "GRPCRoute", "UDPRoute", "TCPRoute", "TLSRoute"]))]
#[x_kube(validation = rule::merged_policies_are_of_routes())]
pub struct EdgeExtensionPolicySpec {
    /// What the policy is for.
    #[serde(flatten)]
    pub policy_target_references: PolicyTargetReferences,
    /// Merges into the policy of the parent, for policies of routes; when absent the most specific one stands alone.
    #[x_kube(validation = ("self != 'Replace'", "Replace is not a valid MergeType for EdgeExtensionPolicy"))]
    pub merge_type: Option<MergeType>,
    /// Wasm filters, in order.
    #[schemars(length(max = 16))]
    pub wasm: Option<Vec<Wasm>>,
    /// Services that see and change requests, in order.
    #[schemars(length(max = 16))]
    pub ext_proc: Option<Vec<ExtProc>>,
    /// Lua filters, in order.
    #[schemars(length(max = 16))]
    pub lua: Option<Vec<Lua>>,
    /// Native modules of the EdgeProxy, in order.
    #[schemars(length(max = 16))]
    pub dynamic_module: Option<Vec<DynamicModule>>,
}

/// A Wasm filter.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wasm {
    /// Name of the filter; made from the policy when absent.
    pub name: Option<String>,
    /// Id under which the module registers.
    #[serde(rename = "rootID")]
    pub root_id: Option<String>,
    /// Where the module comes from.
    pub code: WasmCodeSource,
    /// Settings of the module, any JSON.
    pub config: Option<AnyJson>,
    /// Passes requests on when the module fails.
    #[schemars(extend("default" = false))]
    pub fail_open: Option<bool>,
    /// Environment of the module.
    pub env: Option<WasmEnv>,
}

/// Where a Wasm module comes from.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.http) == (self.type == 'HTTP')", "If type is HTTP, http field needs to be set."))]
#[x_kube(validation = ("has(self.image) == (self.type == 'Image')", "If type is Image, image field needs to be set."))]
pub struct WasmCodeSource {
    /// Which member is set; ConfigMap is not supported.
    pub r#type: WasmCodeSourceType,
    /// A download.
    pub http: Option<HttpWasmCodeSource>,
    /// An image of a registry.
    pub image: Option<ImageWasmCodeSource>,
    /// When the module is fetched again, where no SHA-256 is given; IfNotPresent when absent, and Always for the tag
    /// latest.
    pub pull_policy: Option<ImagePullPolicy>,
}

/// A module that is downloaded.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpWasmCodeSource {
    /// From where.
    #[schemars(regex(
        pattern = r"^((https?:)(\/\/\/?)([\w]*(?::[\w]*)?@)?([\d\w\.-]+)(?::(\d+))?)?([\/\\\w\.()-]*)?(?:([?][^#]*)?(#.*)?)*"
    ))]
    pub url: String,
    /// SHA-256 of the file in hexadecimal digits; not checked when absent.
    pub sha256: Option<String>,
    /// TLS towards the server.
    pub tls: Option<WasmCodeSourceTlsConfig>,
}

/// TLS towards the server of a module.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WasmCodeSourceTlsConfig {
    /// Trust anchors.
    pub ca_certificate_ref: SecretObjectReference,
}

/// A module in an image.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageWasmCodeSource {
    /// The image, as `host/repository:tag`, with or without `oci://`.
    pub url: String,
    /// SHA-256 of the image in hexadecimal digits; not checked when absent.
    pub sha256: Option<String>,
    /// Secret for pulling the image.
    #[x_kube(validation = ("self.kind == 'Secret'", "only support Secret kind."))]
    pub pull_secret_ref: Option<SecretObjectReference>,
    /// TLS towards the server.
    pub tls: Option<WasmCodeSourceTlsConfig>,
}

/// Environment of a module.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WasmEnv {
    /// Environment variables of the proxy that the module sees.
    pub host_keys: Option<Vec<String>>,
}

/// A service that sees and changes requests.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::no_single_backend())]
#[x_kube(validation = rule::kinds_of_services())]
#[x_kube(validation = rule::groups_of_services())]
#[x_kube(validation = rule::duplex_fails_closed())]
#[x_kube(validation = rule::shadows_stream())]
pub struct ExtProc {
    /// The service.
    #[serde(flatten)]
    pub backend_cluster: BackendCluster,
    /// Longest wait for an answer; 200ms when absent.
    pub message_timeout: Option<DurationText>,
    /// Passes requests on when the service fails.
    #[schemars(extend("default" = false))]
    pub fail_open: Option<bool>,
    /// What the service sees; nothing when absent.
    pub processing_mode: Option<ExtProcProcessingMode>,
    /// Ignores its answers.
    pub shadow_mode: Option<bool>,
    /// Metadata that it sees.
    pub metadata: Option<ExtProcMetadata>,
    /// Status when it fails.
    #[schemars(extend("enum" = [400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 422, 423, 424, 426, 428, 429, 431, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511]))]
    pub status_on_error: Option<i32>,
}

/// What the service sees.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtProcProcessingMode {
    /// Sends the headers of requests, and what else is said here.
    pub request: Option<ProcessingModeOptions>,
    /// Sends the headers of responses, and what else is said here.
    pub response: Option<ProcessingModeOptions>,
    /// The service may change what it sees.
    pub allow_mode_override: Option<bool>,
}

/// What the service sees of requests or responses.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessingModeOptions {
    /// How the body is sent; not at all when absent.
    pub body: Option<ExtProcBodyProcessingMode>,
    /// Attributes that are sent along.
    #[schemars(inner(regex(
        pattern = r"^(connection\.|source\.|destination\.|request\.|response\.|upstream\.|xds\.route_)[a-z_1-9]*$"
    )))]
    pub attributes: Option<Vec<String>>,
}

/// Metadata that the service sees.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtProcMetadata {
    /// Namespaces that the processor may read.
    pub accessible_namespaces: Option<Vec<String>>,
    /// Namespaces that it may write.
    #[schemars(length(max = 8))]
    #[x_kube(validation = ("self.all(f, !f.startsWith('envoy.filters.http'))", "writableNamespaces cannot contain well-known Envoy HTTP filter namespaces"))]
    pub writable_namespaces: Option<Vec<String>>,
}

/// A Lua filter.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("(self.type == 'Inline' && has(self.inline) && !has(self.valueRef)) || (self.type == 'ValueRef' && !has(self.inline) && has(self.valueRef))", "Exactly one of inline or valueRef must be set with correct type."))]
pub struct Lua {
    /// Which member is set.
    #[schemars(extend("default" = "Inline"))]
    pub r#type: LuaValueType,
    /// The script.
    pub inline: Option<String>,
    /// ConfigMap that holds the script under `lua`, else under its first key.
    #[x_kube(validation = ("self.kind == 'ConfigMap' && self.group in ['', 'v1']", "Only a reference to an object of kind ConfigMap belonging to default v1 API group is supported."))]
    pub value_ref: Option<LocalObjectReference>,
    /// An object that the script is given.
    pub filter_context: Option<AnyJson>,
}

/// A native filter.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicModule {
    /// Module, an entry of `dynamicModules` of the EdgeProxy.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"))]
    pub name: String,
    /// Name of the filter inside of the module.
    #[schemars(length(max = 253))]
    pub filter_name: Option<String>,
    /// Settings of the filter, any JSON.
    pub config: Option<AnyJson>,
    /// The module answers itself.
    #[schemars(extend("default" = false))]
    pub terminal_filter: Option<bool>,
}

values! {
    /// Values of `WasmCodeSourceType`.
    pub enum WasmCodeSourceType {
        Http = "HTTP",
        Image = "Image",
        ConfigMap = "ConfigMap",
    }
}

values! {
    /// Values of `ImagePullPolicy`.
    pub enum ImagePullPolicy {
        IfNotPresent = "IfNotPresent",
        Always = "Always",
    }
}

values! {
    /// Values of `ExtProcBodyProcessingMode`.
    pub enum ExtProcBodyProcessingMode {
        Streamed = "Streamed",
        Buffered = "Buffered",
        BufferedPartial = "BufferedPartial",
        FullDuplexStreamed = "FullDuplexStreamed",
    }
}

values! {
    /// Values of `LuaValueType`.
    pub enum LuaValueType {
        Inline = "Inline",
        ValueRef = "ValueRef",
    }
}
