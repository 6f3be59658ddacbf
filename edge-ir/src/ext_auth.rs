//! Another service that decides about requests.

use crate::{ClusterName, Rerouting, RetryPolicy, Timeout};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A service that decides whether a request goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuth {
    /// By which protocol it is asked.
    pub service: AuthService,
    /// Its cluster.
    pub cluster: ClusterName,
    /// Host that it is asked as.
    pub authority: Arc<str>,
    /// Longest wait for its answer; then it hasn't decided.
    pub timeout: Timeout,
    /// When a request to it is repeated; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Headers of the client's request that it sees. When absent: all of them by gRPC, by HTTP those that Envoy shows
    /// by itself (`authorization` and such).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Vec<Arc<str>>>,
    /// Bytes of the request's body that it sees; none of it when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<u32>,
    /// What becomes of a request while it can't be reached, or fails.
    pub undecided: Undecided,
    /// What headers that it changed mean for the choice of a route.
    #[serde(default)]
    pub routing: Rerouting,
    /// Whether it sees the metadata of the route.
    #[serde(default)]
    pub metadata: RouteMetadata,
}

/// By which protocol a service of external authorization is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AuthService {
    /// gRPC: `envoy.service.auth.v3.Authorization.Check`.
    Grpc,
    /// HTTP: a request with the head of the client's; status 200 lets that one go on, and any other is its answer.
    Http {
        /// The path of that request.
        path: AuthPath,
        /// Headers of its answer that are put into the request to the backend.
        to_backend: Vec<Arc<str>>,
    },
}

/// At which path a service of external authorization is asked over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AuthPath {
    /// The path of the client's request with this prefix in front of it.
    Behind(Arc<str>),
    /// This path, whatever the client asks for.
    Fixed(Arc<str>),
}

/// What becomes of a request while the service that decides can't be reached, or fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Undecided {
    /// The request goes on (`failOpen`).
    Allowed,
    /// The request is answered with this status.
    Refused(u16),
}

/// Whether a service of external authorization sees the metadata of the route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RouteMetadata {
    /// The service sees none of it.
    #[default]
    Hidden,
    /// The service sees it (`includeRouteMetadata`).
    Shown,
}
