//! Settings of HTTP/1 and HTTP/2, of listeners and of clusters.

use std::time::Duration;

use http::HeaderValue;

use crate::config::header::StringCondition;

/// HTTP/1 settings of the downstream side.
#[derive(Clone, Debug, Default)]
pub struct Http1Options {
    /// Serve HTTP/1.0.
    pub accept_http_10: bool,
    /// Whom requests of HTTP/1.0 are for that don't say it.
    pub default_host: Option<HeaderValue>,
    /// Pass trailers on.
    pub enable_trailers: bool,
    /// Take methods that nobody knows.
    pub allow_custom_methods: bool,
    /// Backends in HTTP/1 see names of fields as clients write them.
    pub keeps_names: bool,
    /// Upgrades that are passed over.
    pub ignored_upgrades: Box<[StringCondition]>,
    /// A connection that is too old ends with its next response, however late that comes.
    pub aged_wait_for_response: bool,
}

/// HTTP/1 settings of the upstream side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Http1Upstream {
    /// Pass trailers on, in both directions.
    pub enable_trailers: bool,
    /// Clients in HTTP/1 see names of fields as hosts write them.
    pub keeps_names: bool,
}

/// HTTP/2 settings, downstream or upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Options {
    /// Concurrent streams.
    pub max_concurrent_streams: u32,
    /// Flow control window of a stream, bytes.
    pub initial_stream_window: u32,
    /// Flow control window of the connection, bytes.
    pub initial_connection_window: u32,
    /// Whether a peer is asked if it is there.
    pub keepalive: Option<KeepaliveTimes>,
    /// RFC 8441 extended CONNECT.
    pub allow_connect: bool,
}

impl Default for Http2Options {
    /// As the comments of Envoy's API give them: 1024 streams, 16 MiB and 24 MiB.
    fn default() -> Self {
        Self {
            max_concurrent_streams: 1024,
            initial_stream_window: 16 << 20,
            initial_connection_window: 24 << 20,
            keepalive: None,
            allow_connect: false,
        }
    }
}

/// How a peer is asked whether it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepaliveTimes {
    /// It is asked so often.
    pub interval: Duration,
    /// It has so long to answer.
    pub timeout: Duration,
}
