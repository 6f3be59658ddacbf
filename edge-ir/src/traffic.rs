//! How a request is treated on its way to a backend: tries, limits and upgrades.

use crate::{Fraction, Timeout};
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
    /// Traces of its requests, where they differ from those of the listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<RouteTracing>,
    /// The name under which its requests are counted besides, with `%ROUTE_KIND%`, `%ROUTE_NAMESPACE%` and
    /// `%ROUTE_NAME%` for those of the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat_name: Option<Arc<str>>,
}

impl RouteTraffic {
    /// CONNECT is all that clients may ask for: the route takes no other requests.
    pub fn is_for_tunnels_alone(&self) -> bool {
        let upgrades = self.upgrades.as_deref().unwrap_or(&[]);
        !upgrades.is_empty() && upgrades.iter().all(Upgrade::is_tunnel)
    }
}

/// Traces of the requests of a route; what is absent is that of the listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteTracing {
    /// How many of those that clients ask to trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_sampling: Option<Fraction>,
    /// How many of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_sampling: Option<Fraction>,
    /// How many at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overall_sampling: Option<Fraction>,
    /// Tags of spans, sorted by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<(Arc<str>, TagValue)>,
    /// Name of spans of the proxy as a server, with command operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_span: Option<Arc<str>>,
    /// Name of spans of the proxy as a client, with command operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_span: Option<Arc<str>>,
}

/// The value of a tag.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TagValue {
    /// A text.
    Text(Arc<str>),
    /// A text with command operators.
    Format(Arc<str>),
    /// A header of the request.
    Header {
        /// Its name.
        name: Arc<str>,
        /// What stands for one that is absent.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        otherwise: Arc<str>,
    },
    /// A variable that the proxy was started with.
    Environment {
        /// Its name.
        name: Arc<str>,
        /// What stands for one that is absent.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        otherwise: Arc<str>,
    },
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

impl Upgrade {
    /// It is that of HTTP itself to a tunnel (RFC 9110 §9.3.6).
    pub fn is_tunnel(&self) -> bool {
        self.name.eq_ignore_ascii_case("CONNECT")
    }
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
