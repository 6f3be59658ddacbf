//! Another service that decides.

use crate::cluster_settings::BackendCluster;
use crate::reference::LocalObjectReference;
use crate::rule;
use crate::text::DurationText;
use crate::values::values;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Another service decides.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("(has(self.grpc) || has(self.http))", "one of grpc or http must be specified"))]
#[x_kube(validation = ("(has(self.grpc) && !has(self.http)) || (!has(self.grpc) && has(self.http))", "only one of grpc or http can be specified"))]
pub struct ExtAuth {
    /// A service that is asked by gRPC.
    pub grpc: Option<GrpcExtAuthService>,
    /// A service that is asked by HTTP.
    pub http: Option<HttpExtAuthService>,
    /// Headers that are sent along; when absent all by gRPC, and Host, Method, Path, Content-Length and Authorization
    /// by HTTP.
    pub headers_to_ext_auth: Option<Vec<String>>,
    /// Sends the body along.
    pub body_to_ext_auth: Option<BodyToExtAuth>,
    /// Longest wait for the decision; 10s when absent.
    pub timeout: Option<DurationText>,
    /// Allows requests when the service can not be asked.
    #[schemars(extend("default" = false))]
    pub fail_open: Option<bool>,
    /// Looks for the route again when headers were changed. Filters before this one have run by the first route's
    /// settings: where the route that is found then asks for more (users, tokens, authorization), stock Envoy doesn't
    /// ask, and edge-proxy answers 403.
    pub recompute_route: Option<bool>,
    /// Tells the service about the route.
    pub include_route_metadata: Option<bool>,
    /// Further attributes that the service is told.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub context_extensions: Option<Vec<ContextExtension>>,
    /// Status when the service can not be asked; 403 when absent.
    #[schemars(extend("enum" = [400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 422, 423, 424, 426, 428, 429, 431, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511]))]
    pub status_on_error: Option<i32>,
}

/// A service that is asked by gRPC.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::some_backend())]
#[x_kube(validation = rule::kinds_of_services())]
#[x_kube(validation = rule::groups_of_services())]
pub struct GrpcExtAuthService {
    /// The service.
    #[serde(flatten)]
    pub backend_cluster: BackendCluster,
}

/// A service that is asked by HTTP.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::some_backend())]
#[x_kube(validation = rule::kinds_of_services())]
#[x_kube(validation = rule::groups_of_services())]
#[x_kube(validation = ("!(has(self.path) && has(self.pathOverride))", "only one of path or pathOverride can be specified"))]
pub struct HttpExtAuthService {
    /// The service.
    #[serde(flatten)]
    pub backend_cluster: BackendCluster,
    /// Goes before the path of the request.
    pub path: Option<String>,
    /// Takes the place of the path of the request.
    pub path_override: Option<String>,
    /// Headers of the answer that the backend gets.
    pub headers_to_backend: Option<Vec<String>>,
}

/// Bodies that are sent along.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BodyToExtAuth {
    /// Largest body; larger ones are answered with 413.
    #[schemars(range(min = 1))]
    pub max_request_bytes: u32,
}

/// An attribute of what the service is asked.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("(self.type == 'Value' && has(self.value) && !has(self.valueRef)) || (self.type == 'ValueRef' && !has(self.value) && has(self.valueRef))", "Exactly one of value or valueRef must be set with correct type."))]
pub struct ContextExtension {
    /// Name of the attribute.
    pub name: String,
    /// Which member is set.
    #[schemars(extend("default" = "Value"))]
    pub r#type: ContextExtensionValueType,
    /// A fixed value.
    pub value: Option<String>,
    /// A key of a ConfigMap or Secret.
    #[x_kube(validation = ("self.kind in ['ConfigMap', 'Secret'] && self.group in ['', 'v1']", "Only a reference to an object of kind ConfigMap or Secret belonging to default v1 API group is supported."))]
    pub value_ref: Option<LocalObjectKeyReference>,
}

/// A key of an object in the same namespace.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalObjectKeyReference {
    /// The object.
    #[serde(flatten)]
    pub local_object_reference: LocalObjectReference,
    /// The key.
    pub key: String,
}

values! {
    /// Values of `ContextExtensionValueType`.
    pub enum ContextExtensionValueType {
        Value = "Value",
        ValueRef = "ValueRef",
    }
}
