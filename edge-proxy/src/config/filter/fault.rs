//! Failures on purpose (Envoy's `fault`).

use std::time::Duration;

use http::StatusCode;

use crate::config::header::HeaderCondition;
use crate::config::route::Fraction;

/// What fails.
#[derive(Debug, Default)]
pub struct Faults {
    /// Only requests that meet all of these.
    pub conditions: Box<[HeaderCondition]>,
    /// So many requests wait so long.
    pub delay: Option<(Fraction, Duration)>,
    /// So many requests are answered so.
    pub abort: Option<(Fraction, Abort)>,
}

/// How a request is answered in place of the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// With a status of HTTP.
    Http(StatusCode),
    /// With a status of gRPC.
    Grpc(u32),
}
