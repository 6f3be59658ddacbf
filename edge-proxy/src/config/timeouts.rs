//! How long clients have.

use std::time::Duration;

use crate::fault::Fault;

/// How long a client has until its chain is known, and then for its handshake, if nobody says otherwise.
pub const UNTIL_SERVED: Duration = Duration::from_secs(15);

/// Deadlines on the downstream side; `None` is no deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownstreamTimeouts {
    /// A connection without active requests.
    pub idle: Option<Duration>,
    /// A stream without any progress.
    pub stream_idle: Option<Duration>,
    /// A response of which nothing but the client's reading is missing; unset: as long as a stream may be idle.
    pub flush: Option<Option<Duration>>,
    /// Receiving the whole request.
    pub request: Option<Duration>,
    /// Receiving the head.
    pub request_headers: Option<Duration>,
    /// Life of a connection, then it drains.
    pub max_connection_duration: Option<Duration>,
    /// Life of a stream.
    pub max_stream_duration: Option<Duration>,
    /// Between GOAWAY and the final close.
    pub drain: Duration,
    /// After the response to a connection that is to be closed.
    pub delayed_close: Duration,
}

impl DownstreamTimeouts {
    /// How long a head may take from its first byte on, and what it is when it takes longer: a request that isn't even
    /// known is bounded by all that bounds one.
    pub(crate) fn head(&self) -> Option<(Duration, Fault)> {
        let limits = [
            (self.request_headers, Fault::HeadTimeout),
            (self.request, Fault::RequestTimeout),
            (self.stream_idle, Fault::IdleRequest),
        ];
        let limits = limits.into_iter().filter_map(|(limit, fault)| Some((limit?, fault)));
        limits.min_by_key(|(limit, _)| *limit)
    }
}
