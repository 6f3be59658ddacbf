//! Another service decides.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::security::{LocalRef, service};
use crate::api::text::{DurationText, is_default, open_enum};

/// Another service decides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExtAuth {
    /// A service that is asked by gRPC.
    #[serde(default, skip_serializing_if = "is_default")]
    pub grpc: Option<Box<GrpcExtAuthService>>,
    /// A service that is asked by HTTP.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http: Option<Box<HttpExtAuthService>>,
    /// Headers that are sent along; when absent all by gRPC, and Host, Method, Path, Content-Length and Authorization
    /// by HTTP.
    #[serde(default, skip_serializing_if = "is_default")]
    pub headers_to_ext_auth: Option<Box<[Text]>>,
    /// Sends the body along.
    #[serde(default, skip_serializing_if = "is_default")]
    pub body_to_ext_auth: Option<BodyToExtAuth>,
    /// Longest wait for the decision; 10s when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeout: Option<DurationText>,
    /// Allows requests when the service can not be asked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fail_open: Option<bool>,
    /// Looks for the route again when headers were changed. Filters before this one have run by the first route's
    /// settings: where the route that is found then asks for more (users, tokens, authorization), stock Envoy doesn't
    /// ask, and edge-proxy answers 403.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recompute_route: Option<bool>,
    /// Tells the service about the route.
    #[serde(default, skip_serializing_if = "is_default")]
    pub include_route_metadata: Option<bool>,
    /// Further attributes that the service is told.
    #[serde(default, skip_serializing_if = "is_default")]
    pub context_extensions: Box<[ContextExtension]>,
    /// Status when the service can not be asked; 403 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status_on_error: Option<u16>,
}

service! {
    /// A service that is asked by gRPC.
    pub struct GrpcExtAuthService {}
}

service! {
    /// A service that is asked by HTTP.
    pub struct HttpExtAuthService {
        /// Goes before the path of the request.
        #[serde(default, skip_serializing_if = "is_default")]
        pub path: Option<Text>,
        /// Takes the place of the path of the request.
        #[serde(default, skip_serializing_if = "is_default")]
        pub path_override: Option<Text>,
        /// Headers of the answer that the backend gets.
        #[serde(default, skip_serializing_if = "is_default")]
        pub headers_to_backend: Box<[Text]>,
    }
}

/// Bodies that are sent along.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BodyToExtAuth {
    /// Largest body; larger ones are answered with 413.
    pub max_request_bytes: u32,
}

/// An attribute of what the service is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextExtension {
    /// Name of the attribute.
    pub name: Text,
    /// Which member is set.
    #[serde(default)]
    pub r#type: ContextExtensionType,
    /// A fixed value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value: Option<Text>,
    /// A key of a ConfigMap or Secret.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value_ref: Option<LocalRef>,
}

open_enum! {
    /// Which member of an attribute is set.
    pub enum ContextExtensionType {
        Value = "Value",
        ValueRef = "ValueRef",
    }
}
