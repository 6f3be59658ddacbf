//! BackendTrafficPolicy: how the proxy treats requests to backends.

pub mod failure;
pub mod rate_limit;
pub mod response;

use crate::backend_traffic::failure::{AdmissionControl, FaultInjection};
use crate::backend_traffic::rate_limit::{BandwidthLimitSpec, RateLimitSpec};
use crate::backend_traffic::response::ResponseOverride;
use crate::cluster_settings::ClusterSettings;
use crate::number::ByteQuantity;
use crate::rule;
use crate::shape::{Compression, MergeType, RoutingType};
use crate::status::PolicyStatus;
use crate::target::PolicyTargetReferences;
use crate::tracing::Tracing;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the proxy treats requests to backends.
#[derive(Clone, CustomResource, Debug, Deserialize, Serialize, KubeSchema)]
#[kube(
    group = "gateway.edge",
    version = "v1alpha1",
    kind = "BackendTrafficPolicy",
    plural = "backendtrafficpolicies",
    shortname = "btp",
    category = "edge-gateway",
    namespaced,
    doc = "How the proxy treats requests to backends.",
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
#[x_kube(validation = ("!has(self.compression) || !has(self.compressor)", "either compression or compressor can be set, not both"))]
#[x_kube(validation = ("!has(self.requestBuffer) || !has(self.httpUpgrade) || self.httpUpgrade.size() == 0", "requestBuffer cannot be used together with httpUpgrade"))]
#[x_kube(validation = rule::admission_control_is_of_http())]
pub struct BackendTrafficPolicySpec {
    /// What the policy is for.
    #[serde(flatten)]
    pub policy_target_references: PolicyTargetReferences,
    /// How the proxy speaks with backends.
    #[serde(flatten)]
    pub cluster_settings: ClusterSettings,
    /// Merges into the policy of the parent, for policies of routes; when absent the most specific one stands alone.
    #[x_kube(validation = ("self != 'Replace'", "Replace is not a valid MergeType for BackendTrafficPolicySpec"))]
    pub merge_type: Option<MergeType>,
    /// How many requests are let through.
    pub rate_limit: Option<RateLimitSpec>,
    /// How many bytes are let through.
    pub bandwidth_limit: Option<BandwidthLimitSpec>,
    /// Failures on purpose.
    pub fault_injection: Option<FaultInjection>,
    /// Refuses requests while too few succeed, of all that the policy is for at a listener.
    pub admission_control: Option<AdmissionControl>,
    /// Speaks the HTTP version of the client with the backend.
    pub use_client_protocol: Option<bool>,
    /// Older form of `compressor`.
    pub compression: Option<Vec<Compression>>,
    /// How responses are compressed, the best liked first.
    pub compressor: Option<Vec<Compression>>,
    /// Other responses in place of some.
    pub response_override: Option<Vec<ResponseOverride>>,
    /// Upgrades that clients may ask for; websocket when absent, and none with requestBuffer.
    pub http_upgrade: Option<Vec<ProtocolUpgradeConfig>>,
    /// Reads requests whole before they go on.
    pub request_buffer: Option<RequestBuffer>,
    /// Traces and metrics.
    pub telemetry: Option<BackendTelemetry>,
    /// Whether requests go to pods or to the address of a Service; as the EdgeProxy says when absent.
    pub routing_type: Option<RoutingType>,
}

/// An upgrade that clients may ask for.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.connect) || self.type == 'CONNECT'", "The connect configuration is only allowed when the type is CONNECT."))]
pub struct ProtocolUpgradeConfig {
    /// Name of the upgrade: websocket, CONNECT or another. Where CONNECT is the only one, nothing but tunnels is
    /// served.
    pub r#type: String,
    /// What becomes of CONNECT.
    pub connect: Option<ConnectConfig>,
}

/// What becomes of CONNECT.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectConfig {
    /// Sends what is in the tunnel on as TCP. Without it the backend is a proxy that gets CONNECT itself.
    pub terminate: Option<bool>,
}

/// Requests are read whole before they go on.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestBuffer {
    /// Largest body; larger ones are answered with 413.
    pub limit: Option<ByteQuantity>,
}

/// Traces and metrics of routes.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendTelemetry {
    /// Traces of these routes.
    pub tracing: Option<Tracing>,
    /// Names of metrics.
    pub metrics: Option<BackendMetrics>,
}

/// Metrics of routes.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendMetrics {
    /// Name of the route in metrics; %ROUTE_NAME%, %ROUTE_NAMESPACE% and %ROUTE_KIND% are filled in.
    pub route_stat_name: Option<String>,
}
