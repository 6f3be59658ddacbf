//! How a request is treated on its way to a backend: tries, limits and upgrades.

use crate::Timeout;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// When and how often a request is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// Tries besides the first, > 0.
    pub retries: u32,
    /// After what, in the proxy's words. None: after failed connections, refused streams and calls that say that the
    /// backend is unavailable, and after the codes below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Arc<str>>,
    /// Also retry on these response codes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<u16>,
    /// Base interval between tries, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Timeout>,
    /// Longest interval. Unset: ten times the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_backoff: Option<Timeout>,
    /// Limit for each try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_try_timeout: Option<Timeout>,
    /// Tries after which the next priority of endpoints has its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_per_priority: Option<u32>,
}

/// What policies ask for a route besides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteTraffic {
    /// How long a stream may be idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Timeout>,
    /// How long a stream may last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_stream_duration: Option<Timeout>,
    /// What is hashed to choose an endpoint; all together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hash: Vec<HashInput>,
    /// Upgrades that clients may ask for. Unset: `websocket`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrades: Option<Vec<Upgrade>>,
}

/// Something of a request that is hashed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HashInput {
    /// The address of the client.
    SourceIp,
    /// The value of a header.
    Header(Arc<str>),
    /// The value of a query parameter.
    QueryParameter(Arc<str>),
    /// The value of a cookie.
    Cookie {
        /// Its name.
        name: Arc<str>,
        /// Life of a cookie that the proxy makes where there is none; absent makes none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl: Option<Timeout>,
        /// Attributes of such a cookie.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attributes: Vec<(Arc<str>, Arc<str>)>,
    },
}

/// An upgrade that clients may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// Its name: `websocket`, `CONNECT` or another.
    pub name: Arc<str>,
    /// What goes to the backend.
    #[serde(default)]
    pub tunnel: Tunnel,
}

/// What goes to the backend of an upgraded connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tunnel {
    /// The request, and then what is in the tunnel.
    #[default]
    Whole,
    /// What is in the tunnel alone, as TCP.
    Content,
}
