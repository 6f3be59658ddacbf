//! Every kind under one roof: `Kind`, `ObjectKey` and `Object`.
//!
//! Some policies travel as `Generic` (metadata and free spec) until their types exist; a kind that is
//! not in the table is not an object here at all.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::backend::Backend;
use crate::api::backend_traffic::BackendTrafficPolicy;
use crate::api::core::{ClusterTrustBundle, ConfigMap, EndpointSlice, Namespace, Service, ServiceImport};
use crate::api::custom::CustomObject;
use crate::api::edge_patch_policy::EdgePatchPolicy;
use crate::api::edge_proxy::EdgeProxy;
use crate::api::gateway::{Gateway, GatewayClass, ListenerSet};
use crate::api::grants::{BackendTlsPolicy, ReferenceGrant};
use crate::api::http_route::HttpRoute;
use crate::api::http_route_filter::HttpRouteFilter;
use crate::api::meta::{Metadata, StatusAsRead};
use crate::api::routes::{GrpcRoute, TcpRoute, TlsRoute, UdpRoute};
use crate::api::secret::Secret;
use crate::api::text::is_default;

/// Whether objects of a kind live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// They do.
    Namespaced,
    /// They belong to the whole cluster.
    Cluster,
}

const GATEWAY_API: &str = "gateway.networking.k8s.io";
const EDGE: &str = "gateway.edge";

macro_rules! kinds {
    ($($variant:ident $text:literal $group:expr, $scope:ident, $versions:expr, $type:ty;)+) => {
        /// A kind that this version reads.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(
                #[doc = concat!("`", $text, "`.")]
                $variant,
            )+
            /// One that the configuration names for extension services: of which kind an object is stands in its name.
            Custom,
            /// The same of a policy.
            CustomPolicy,
        }

        impl Kind {
            /// Every kind of which we know what it says, in order.
            pub const ALL: &'static [Kind] = &[$(Kind::$variant),+];

            /// The kind as written in a resource.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Kind::$variant => $text,)+
                    Kind::Custom => "custom resource",
                    Kind::CustomPolicy => "custom policy",
                }
            }

            /// The API group; empty for core kinds.
            pub const fn group(self) -> &'static str {
                match self {
                    $(Kind::$variant => $group,)+
                    Kind::Custom | Kind::CustomPolicy => "",
                }
            }

            /// Versions understood, the one written first.
            pub const fn versions(self) -> &'static [&'static str] {
                match self {
                    $(Kind::$variant => $versions,)+
                    Kind::Custom | Kind::CustomPolicy => &[],
                }
            }

            /// Whether objects live in namespaces.
            pub const fn scope(self) -> Scope {
                match self {
                    $(Kind::$variant => Scope::$scope,)+
                    Kind::Custom | Kind::CustomPolicy => Scope::Namespaced,
                }
            }
        }

        /// One resource of any kind; cheap to clone.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Object {
            $(
                #[doc = concat!("A ", $text, ".")]
                $variant(Arc<$type>),
            )+
            /// An object of a kind that the configuration names.
            Custom(Arc<CustomObject>),
            /// A policy of a kind that the configuration names.
            CustomPolicy(Arc<CustomObject>),
        }

        impl Object {
            /// The kind.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Object::$variant(_) => Kind::$variant,)+
                    Object::Custom(_) => Kind::Custom,
                    Object::CustomPolicy(_) => Kind::CustomPolicy,
                }
            }

            /// Name, namespace, labels and the like.
            pub fn metadata(&self) -> &Metadata {
                match self {
                    $(Object::$variant(object) => &object.metadata,)+
                    Object::Custom(object) | Object::CustomPolicy(object) => &object.metadata,
                }
            }

            /// The same for changing it; none while somebody else has the object.
            pub(crate) fn metadata_mut(&mut self) -> Option<&mut Metadata> {
                Some(match self {
                    $(Object::$variant(object) => &mut Arc::get_mut(object)?.metadata,)+
                    Object::Custom(object) | Object::CustomPolicy(object) => &mut Arc::get_mut(object)?.metadata,
                })
            }

            /// Reads the object of a kind from any serde source; `place` completes its metadata.
            pub(crate) fn deserialize_as<'de, D: serde::Deserializer<'de>>(
                kind: Kind,
                deserializer: D,
                complete: impl FnOnce(&mut Metadata),
            ) -> Result<Self, D::Error> {
                Ok(match kind {
                    $(Kind::$variant => {
                        let mut object = <$type>::deserialize(deserializer)?;
                        complete(&mut object.metadata);
                        Object::$variant(Arc::new(object))
                    })+
                    Kind::Custom | Kind::CustomPolicy => {
                        return Err(serde::de::Error::custom("only the configuration says which kind this is"));
                    }
                })
            }

            fn body(&self) -> Result<Value, serde_json::Error> {
                match self {
                    $(Object::$variant(object) => serde_json::to_value(&**object),)+
                    Object::Custom(object) | Object::CustomPolicy(object) => Ok((*object.value).clone()),
                }
            }
        }

    };
}

kinds! {
    GatewayClass "GatewayClass" GATEWAY_API, Cluster, &["v1", "v1beta1", "v1alpha2"], GatewayClass;
    Gateway "Gateway" GATEWAY_API, Namespaced, &["v1", "v1beta1", "v1alpha2"], Gateway;
    ListenerSet "ListenerSet" GATEWAY_API, Namespaced, &["v1", "v1alpha1"], ListenerSet;
    HttpRoute "HTTPRoute" GATEWAY_API, Namespaced, &["v1", "v1beta1", "v1alpha2"], HttpRoute;
    GrpcRoute "GRPCRoute" GATEWAY_API, Namespaced, &["v1", "v1alpha2"], GrpcRoute;
    TlsRoute "TLSRoute" GATEWAY_API, Namespaced, &["v1", "v1alpha3", "v1alpha2"], TlsRoute;
    TcpRoute "TCPRoute" GATEWAY_API, Namespaced, &["v1", "v1alpha2"], TcpRoute;
    UdpRoute "UDPRoute" GATEWAY_API, Namespaced, &["v1", "v1alpha2"], UdpRoute;
    ReferenceGrant "ReferenceGrant" GATEWAY_API, Namespaced, &["v1", "v1beta1", "v1alpha2"], ReferenceGrant;
    BackendTlsPolicy "BackendTLSPolicy" GATEWAY_API, Namespaced, &["v1", "v1alpha3"], BackendTlsPolicy;
    Namespace "Namespace" "", Cluster, &["v1"], Namespace;
    Service "Service" "", Namespaced, &["v1"], Service;
    ServiceImport "ServiceImport" "multicluster.x-k8s.io", Namespaced, &["v1alpha1", "v1beta1", "v1"], ServiceImport;
    EndpointSlice "EndpointSlice" "discovery.k8s.io", Namespaced, &["v1"], EndpointSlice;
    Secret "Secret" "", Namespaced, &["v1"], Secret;
    ConfigMap "ConfigMap" "", Namespaced, &["v1"], ConfigMap;
    ClusterTrustBundle "ClusterTrustBundle" "certificates.k8s.io", Cluster, &["v1beta1", "v1alpha1", "v1"], ClusterTrustBundle;
    EdgeProxy "EdgeProxy" EDGE, Namespaced, &["v1alpha1"], EdgeProxy;
    Backend "Backend" EDGE, Namespaced, &["v1alpha1"], Backend;
    HttpRouteFilter "HTTPRouteFilter" EDGE, Namespaced, &["v1alpha1"], HttpRouteFilter;
    ClientTrafficPolicy "ClientTrafficPolicy" EDGE, Namespaced, &["v1alpha1"], Generic;
    BackendTrafficPolicy "BackendTrafficPolicy" EDGE, Namespaced, &["v1alpha1"], BackendTrafficPolicy;
    SecurityPolicy "SecurityPolicy" EDGE, Namespaced, &["v1alpha1"], Generic;
    EdgeExtensionPolicy "EdgeExtensionPolicy" EDGE, Namespaced, &["v1alpha1"], Generic;
    EdgePatchPolicy "EdgePatchPolicy" EDGE, Namespaced, &["v1alpha1"], EdgePatchPolicy;
}

impl Kind {
    /// The kind of a group, at any version.
    pub fn of(group: &str, kind: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|known| known.as_str() == kind && known.group() == group)
    }

    /// The `apiVersion` written for the kind.
    pub fn api_version(self) -> String {
        let version = self.versions().first().copied().unwrap_or("v1");
        if self.group().is_empty() {
            version.to_owned()
        } else {
            format!("{}/{version}", self.group())
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A resource of a kind that is carried before it is modelled: metadata and a free spec.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Generic {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// The spec as written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spec: Value,
    /// Status as read.
    #[serde(default, skip_serializing_if = "StatusAsRead::is_absent")]
    pub status: StatusAsRead,
}

/// The identity of an object: `Kind/namespace/name`, the namespace empty for cluster-wide kinds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Kind.
    pub kind: Kind,
    /// Namespace, or empty.
    pub namespace: Arc<str>,
    /// Name; of a kind that the configuration names `<kind>.<group>/<name>`, for there are many such kinds.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// A key from its parts.
    pub fn new(kind: Kind, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// `apiVersion` and `kind` as the API has them; of a kind that the configuration names the group alone, for the
    /// version is no part of what an object is.
    pub fn api_kind(&self) -> (String, &str) {
        match self.custom().and_then(|(kind, _)| kind.split_once('.')) {
            Some((kind, group)) => (group.to_owned(), kind),
            None => (self.kind.api_version(), self.kind.as_str()),
        }
    }

    /// The name that the object has in the API.
    pub fn own_name(&self) -> &str {
        self.custom().map_or(&self.name, |(_, name)| name)
    }

    /// The kind as `<kind>.<group>` and the name, where the configuration names the kind.
    pub fn custom(&self) -> Option<(&str, &str)> {
        let is_custom = matches!(self.kind, Kind::Custom | Kind::CustomPolicy);
        is_custom.then(|| self.name.split_once('/')).flatten()
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((kind, name)) = self.custom() {
            return write!(f, "{kind}/{}/{name}", self.namespace);
        }
        match &*self.namespace {
            "" => write!(f, "{}/{}", self.kind, self.name),
            namespace => write!(f, "{}/{namespace}/{}", self.kind, self.name),
        }
    }
}

impl Object {
    /// The identity.
    pub fn key(&self) -> ObjectKey {
        let metadata = self.metadata();
        ObjectKey {
            kind: self.kind(),
            namespace: metadata.namespace.clone(),
            name: match self {
                Object::Custom(object) | Object::CustomPolicy(object) => object.key_name().into(),
                _ => metadata.name.clone(),
            },
        }
    }

    /// The object of a kind that the configuration names, if it is one.
    pub fn custom(&self) -> Option<&Arc<CustomObject>> {
        match self {
            Object::Custom(object) | Object::CustomPolicy(object) => Some(object),
            _ => None,
        }
    }

    /// The object as JSON with `apiVersion` and `kind`, as it is shown and written; private data of Secrets included.
    pub fn to_value(&self) -> Result<Value, serde_json::Error> {
        if self.custom().is_some() {
            return self.body();
        }
        let mut whole = Map::new();
        whole.insert("apiVersion".to_owned(), self.kind().api_version().into());
        whole.insert("kind".to_owned(), self.kind().as_str().into());
        if let Value::Object(body) = self.body()? {
            whole.extend(body);
        }
        if let Object::BackendTrafficPolicy(policy) = self
            && let Some(unread) = &policy.unread
        {
            whole.insert("spec".to_owned(), unread.spec.clone());
        }
        Ok(Value::Object(whole))
    }
}

impl Serialize for Object {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value()
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

#[cfg(test)]
mod tests;
