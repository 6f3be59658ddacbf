//! What must exist in a cluster around the service of global rate limits.

use crate::ClusterSettings;
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// The infrastructure of the service of global rate limits: one for a controller, beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitInfra {
    /// Its workload, autoscaler and disruption budget.
    pub cluster: ClusterSettings,
    /// Whom it answers.
    pub clients: RateLimitClients,
    /// Where it counts.
    pub redis: RedisAddress,
    /// How it speaks to Redis.
    pub redis_tls: RedisSecurity,
    /// Whether its measurements can be scraped.
    pub prometheus: bool,
    /// Where its traces go, if anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<RateLimitTraces>,
}

/// Whom the service answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RateLimitClients {
    /// Whoever shows a certificate as proxies beside the controller have it.
    Certified,
    /// Whoever reaches it: proxies beside their Gateways have no certificate.
    Anyone,
}

/// Where a Redis server is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RedisAddress {
    /// `host:port`, several with commas between, or a `redis://` URL.
    Url(Arc<str>),
    /// A key of a Secret beside the controller that says so.
    Secret {
        /// The Secret.
        name: Arc<str>,
        /// Its key.
        key: Arc<str>,
    },
}

/// A user and a password in a URL stay out of logs.
impl fmt::Debug for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => {
                let (scheme, rest) = url.split_at(url.find("://").map_or(0, |at| at + 3));
                match rest.rsplit_once('@') {
                    Some((_, host)) => write!(f, "Url(\"{scheme}***@{host}\")"),
                    None => f.debug_tuple("Url").field(url).finish(),
                }
            }
            Self::Secret { name, key } => f.debug_struct("Secret").field("name", name).field("key", key).finish(),
        }
    }
}

/// How a Redis server is spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RedisSecurity {
    /// As it is.
    Clear,
    /// In TLS, verified by what the image trusts.
    Tls,
    /// In TLS, with the client certificate of a Secret beside the controller.
    MutualTls(Arc<str>),
}

/// Where the traces of the service go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitTraces {
    /// URL of a collector that speaks OTLP over gRPC.
    pub collector: Arc<str>,
    /// How many of a hundred are kept.
    pub percent: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_redis_are_not_shown() {
        let shown = |url: &str| format!("{:?}", RedisAddress::Url(url.into()));
        assert_eq!(shown("redis://u:s3cr@t@redis:6379"), "Url(\"redis://***@redis:6379\")");
        assert_eq!(shown("u:s3cret@redis:6379"), "Url(\"***@redis:6379\")");
        assert_eq!(shown("redis:6379"), "Url(\"redis:6379\")");
    }
}
