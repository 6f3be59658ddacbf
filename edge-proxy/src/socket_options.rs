//! Options, applied to sockets.

use std::io;

use socket2::{SockRef, TcpKeepalive as Probes};

use crate::config::socket::{SocketOptions, TcpKeepalive};

/// Sets the sizes of buffers. Before a socket listens or connects: TCP agrees on its window then.
pub(crate) fn set_buffers(socket: &SockRef<'_>, options: &SocketOptions) -> io::Result<()> {
    if let Some(bytes) = options.send_buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    Ok(())
}

/// Has a connection, or those that a socket accepts, probe a silent peer.
pub(crate) fn set_keepalive(socket: &SockRef<'_>, keepalive: &TcpKeepalive) -> io::Result<()> {
    let mut probes = Probes::new();
    if let Some(time) = keepalive.time {
        probes = probes.with_time(time);
    }
    if let Some(interval) = keepalive.interval {
        probes = probes.with_interval(interval);
    }
    if let Some(count) = keepalive.probes {
        probes = probes.with_retries(count);
    }
    socket.set_tcp_keepalive(&probes)
}
