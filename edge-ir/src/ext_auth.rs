//! Another service that decides about requests.

use crate::{ClusterName, Rerouting, RetryPolicy, Timeout};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A service that decides whether a request goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuth {
    /// How it is asked.
    pub service: AuthService,
    /// Its cluster.
    pub cluster: ClusterName,
    /// Host that it is asked as.
    pub authority: Arc<str>,
    /// Longest wait for its answer.
    pub timeout: Timeout,
    /// When it is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Headers of the request that it sees; what its way of asking shows by itself when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Vec<Arc<str>>>,
    /// Largest body that it sees; none of it when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<u32>,
    /// What becomes of a request that it doesn't decide about.
    pub undecided: Undecided,
    /// What headers that it changed mean for the choice of a route.
    #[serde(default)]
    pub routing: Rerouting,
    /// Whether it sees the metadata of the route.
    #[serde(default)]
    pub metadata: RouteMetadata,
}

/// How a service is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AuthService {
    /// By a call.
    Grpc,
    /// By a request.
    Http {
        /// What path it is asked at.
        path: AuthPath,
        /// Headers of its answer that the backend gets.
        to_backend: Vec<Arc<str>>,
    },
}

/// At what path a service is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AuthPath {
    /// That of the request, behind this.
    Behind(Arc<str>),
    /// Always this.
    Fixed(Arc<str>),
}

/// What becomes of a request that nobody decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Undecided {
    /// It goes on.
    Allowed,
    /// It is answered with this status.
    Refused(u16),
}

/// Whether a service sees the metadata of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RouteMetadata {
    /// It doesn't.
    #[default]
    Hidden,
    /// It does.
    Shown,
}
