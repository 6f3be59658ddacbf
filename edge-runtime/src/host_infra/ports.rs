//! Ports for what every proxy of this machine needs for itself.
//!
//! A port is found by asking the system for a free one and letting go of it again. Somebody else may take it in
//! between; the proxy then fails to start and the next attempt takes another.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
};

/// A port of the loopback interface that nobody listens on.
pub(super) fn free() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
