//! Options of sockets, by the numbers that Linux has for them.

use edge_ir::TcpKeepalive;
use envoy_types::pb::envoy::config::core::v3::{
    BindConfig, SocketOption,
    socket_option::{SocketState, Value},
};

const SOL_SOCKET: i64 = 1;

fn option(description: &str, level: i64, name: i64, value: u32) -> SocketOption {
    SocketOption {
        description: description.to_owned(),
        level,
        name,
        state: SocketState::StatePrebind.into(),
        value: Some(Value::IntValue(value.into())),
        ..Default::default()
    }
}

/// Probes of TCP on the connections of clients.
pub(super) fn keepalive(keepalive: TcpKeepalive) -> Vec<SocketOption> {
    const SO_KEEPALIVE: i64 = 9;
    const IPPROTO_TCP: i64 = 6;
    const TCP_KEEPIDLE: i64 = 4;
    const TCP_KEEPINTVL: i64 = 5;
    const TCP_KEEPCNT: i64 = 6;
    let of_tcp =
        |description, name, value: Option<u32>| value.map(|value| option(description, IPPROTO_TCP, name, value));
    let options = [
        Some(option(
            "socket option to enable tcp keep alive",
            SOL_SOCKET,
            SO_KEEPALIVE,
            1,
        )),
        of_tcp("socket option for keep alive probes", TCP_KEEPCNT, keepalive.probes),
        of_tcp(
            "socket option for keep alive idle time",
            TCP_KEEPIDLE,
            keepalive.idle_seconds,
        ),
        of_tcp(
            "socket option for keep alive interval",
            TCP_KEEPINTVL,
            keepalive.interval_seconds,
        ),
    ];
    options.into_iter().flatten().collect()
}

/// Bytes that the system holds in each direction. They are set before anybody connects: the window that TCP offers is
/// agreed on then, and what a listener accepts has what the listener has.
pub(super) fn buffers(bytes: u32) -> Vec<SocketOption> {
    const SO_SNDBUF: i64 = 7;
    const SO_RCVBUF: i64 = 8;
    vec![
        option(
            "socket option for the size of the send buffer",
            SOL_SOCKET,
            SO_SNDBUF,
            bytes,
        ),
        option(
            "socket option for the size of the receive buffer",
            SOL_SOCKET,
            SO_RCVBUF,
            bytes,
        ),
    ]
}

/// Sockets of a cluster with buffers of a size, at whichever address they are.
pub(super) fn bound_with_buffers(bytes: u32) -> BindConfig {
    BindConfig {
        socket_options: buffers(bytes),
        ..Default::default()
    }
}
