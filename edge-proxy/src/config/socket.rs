//! What the system does for a socket beyond its defaults.

use std::time::Duration;

/// Options of a socket; what isn't set is left to the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Bytes that it holds to be sent.
    pub send_buffer: Option<usize>,
    /// Bytes that have arrived and that it holds.
    pub receive_buffer: Option<usize>,
    /// Probes of connections on which nothing happens; none when absent.
    pub keepalive: Option<TcpKeepalive>,
}

/// TCP keepalive; what isn't set has the system's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpKeepalive {
    /// Probes before giving up.
    pub probes: Option<u32>,
    /// Silence before the first probe.
    pub time: Option<Duration>,
    /// Between probes.
    pub interval: Option<Duration>,
}
