//! What a context says of endpoints themselves.

use serde::Serialize;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// What is said of endpoints besides their addresses. It stands in the list of endpoints, of which there is one for
/// each placement: clusters that differ in other things share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Placement {
    /// Port that probes ask, if not that of the traffic.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) probe_port: Option<u16>,
    /// Their zones.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) zones: Zones,
    /// Where requests for a Service go, if not where the fleet's do.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) routing: Option<Routing>,
}

/// Where requests for a Service go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Routing {
    /// To its endpoints.
    Endpoints,
    /// To its own address.
    Service,
}

/// What is told of the zones of endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Zones {
    /// Those that a Backend names itself.
    #[default]
    OfBackend,
    /// All that are known, each with its own weight, sorted by zone; those not named weigh 1.
    Weighted(Vec<(Arc<str>, u32)>),
    /// All that are known, to be compared with that of the proxy.
    Known,
}

impl Placement {
    /// What stands behind the name of a list of endpoints, as with [`Variant::suffix`].
    pub(super) fn suffix(&self) -> String {
        hashed(self)
    }
}

/// `~` and 8 hexadecimal digits of what is set.
pub(crate) fn hashed(value: &impl Serialize) -> String {
    // Plain data, which always can be written.
    let text = serde_json::to_vec(value).unwrap_or_default();
    format!("~{:.8x}", Sha256::digest(text))
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
