//! Failures on purpose, by which people find out what becomes of them.

use crate::{Fraction, Timeout};
use serde::{Deserialize, Serialize};

/// Which requests of a route fail on purpose. A request may be made to wait and fail then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Fault {
    /// Requests that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<FaultDelay>,
    /// Requests that are answered by the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort: Option<FaultAbort>,
}

/// Requests that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultDelay {
    /// How long, never 0.
    pub time: Timeout,
    /// How many of them.
    pub share: Fraction,
}

/// Requests that are answered by the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultAbort {
    /// With what.
    pub status: AbortStatus,
    /// How many of them.
    pub share: Fraction,
}

/// What a request that fails on purpose is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AbortStatus {
    /// A status code, from 200 to 599.
    Http(u16),
    /// A status of gRPC.
    Grpc(u8),
}
