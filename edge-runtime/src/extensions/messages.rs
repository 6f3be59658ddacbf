//! The messages of `proto/extension`, by their numbers. Resources stay encoded: on the wire a message within a message
//! is its bytes, and what isn't decoded isn't lost.

use bytes::Bytes;
use edge_ir::CustomObject;
use edge_translate::config::extension::GroupVersionKind;
use edge_xds::hooks::{Hook, Resources};
use edge_xds::snapshot::ResourceType;
use prost::Message;
use std::sync::Arc;

/// `Post…ModifyRequest` about one resource.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OneRequest {
    /// The resource.
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(super) resource: Option<Bytes>,
    /// What else there is to know.
    #[prost(message, optional, tag = "2")]
    pub(super) context: Option<Context>,
}

/// `Post…ModifyResponse` about one resource.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OneResponse {
    /// The resource; none: it stays as it is.
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(super) resource: Option<Bytes>,
}

/// `Post…ExtensionContext`: that of routes, and of others with what they have of it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Context {
    /// Objects that go with the resource: under one number in every context, whatever its name there.
    #[prost(message, repeated, tag = "1")]
    pub(super) resources: Vec<ExtensionResource>,
    /// Domains of a route's host.
    #[prost(string, repeated, tag = "2")]
    pub(super) hostnames: Vec<String>,
    /// Policies that are for a route.
    #[prost(message, repeated, tag = "3")]
    pub(super) policies: Vec<ExtensionResource>,
}

/// `ExtensionResource`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExtensionResource {
    /// The object as JSON.
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) unstructured_bytes: Bytes,
}

/// Objects as a service is shown them: those of kinds that it asks for.
pub(super) fn resources(objects: &[Arc<CustomObject>], kinds: &[GroupVersionKind]) -> Vec<ExtensionResource> {
    let is_asked_for = |object: &CustomObject| kinds.iter().any(|kind| kind.is(&object.group, &object.kind));
    let objects = objects.iter().filter(|object| is_asked_for(object));
    let shown = objects.map(|object| ExtensionResource {
        unstructured_bytes: Bytes::copy_from_slice(object.json.as_bytes()),
    });
    shown.collect()
}

/// `PostTranslateModifyRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AllRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) context: Option<Context>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) clusters: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(super) secrets: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub(super) listeners: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub(super) routes: Vec<Bytes>,
}

/// `PostTranslateModifyResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AllResponse {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(super) clusters: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) secrets: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(super) listeners: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub(super) routes: Vec<Bytes>,
}

impl AllRequest {
    pub(super) fn new(resources: &Resources, context: Context) -> Self {
        let of = |kind| resources.get(&kind).cloned().unwrap_or_default();
        Self {
            context: Some(context),
            clusters: of(ResourceType::Cluster),
            secrets: of(ResourceType::Secret),
            listeners: of(ResourceType::Listener),
            routes: of(ResourceType::Routes),
        }
    }
}

impl From<AllResponse> for Resources {
    fn from(response: AllResponse) -> Self {
        [
            (ResourceType::Cluster, response.clusters),
            (ResourceType::Secret, response.secrets),
            (ResourceType::Listener, response.listeners),
            (ResourceType::Routes, response.routes),
        ]
        .into()
    }
}

/// The method that is called.
pub(super) fn path(hook: Hook) -> &'static str {
    match hook {
        Hook::Route => "/edgegateway.extension.EdgeGatewayExtension/PostRouteModify",
        Hook::VirtualHost => "/edgegateway.extension.EdgeGatewayExtension/PostVirtualHostModify",
        Hook::HttpListener => "/edgegateway.extension.EdgeGatewayExtension/PostHTTPListenerModify",
        Hook::Cluster => "/edgegateway.extension.EdgeGatewayExtension/PostClusterModify",
        Hook::Endpoints => "/edgegateway.extension.EdgeGatewayExtension/PostEndpointsModify",
        Hook::Translation => "/edgegateway.extension.EdgeGatewayExtension/PostTranslateModify",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_shown_objects_of_kinds_that_it_names() {
        let object = |kind: &str| {
            Arc::new(CustomObject {
                group: "a.example".into(),
                kind: kind.into(),
                namespace: "ns".into(),
                name: "x".into(),
                json: format!("{{\"kind\":\"{kind}\"}}").into(),
            })
        };
        let named = |group: &str, kind: &str| GroupVersionKind {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
        };
        let objects = [object("One"), object("Two")];
        let shown = |kinds: &[GroupVersionKind]| -> Vec<Bytes> {
            let shown = resources(&objects, kinds).into_iter();
            shown.map(|resource| resource.unstructured_bytes).collect()
        };
        assert_eq!(shown(&[named("a.example", "Two")]), ["{\"kind\":\"Two\"}"]);
        assert_eq!(shown(&[named("b.example", "Two")]), [""; 0]);
    }
}
