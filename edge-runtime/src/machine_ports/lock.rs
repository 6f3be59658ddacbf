//! The lock by which controllers of one user agree whose a port is before any proxy binds it.
//!
//! A socket with a name in the kernel's abstract namespace: it belongs to the same network namespace as the port
//! itself, two of one name can't be, and it goes with the process that holds it. Other systems than Linux have no such
//! names, and there is no lock.

use super::holder;
use edge_ir::PortProtocol;
use std::sync::Arc;

/// Held as long as this lives.
#[derive(Debug)]
pub(super) struct Lock {
    #[cfg(target_os = "linux")]
    _socket: Option<std::os::unix::net::UnixDatagram>,
}

#[cfg(target_os = "linux")]
impl Lock {
    /// Takes the lock of a port, or says who has it.
    pub(super) fn take(protocol: PortProtocol, number: u16) -> Result<Self, Arc<str>> {
        use std::os::{
            linux::net::SocketAddrExt as _,
            unix::net::{SocketAddr, UnixDatagram},
        };
        let name = name(protocol, number);
        let socket = SocketAddr::from_abstract_name(&name).and_then(|address| UnixDatagram::bind_addr(&address));
        match socket {
            Ok(socket) => Ok(Self { _socket: Some(socket) }),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => match holder::of_name(&name) {
                Some(holder) => Err(holder),
                // Another user's, who can't share a port with us, whatever names they give to sockets.
                None => Ok(Self { _socket: None }),
            },
            Err(error) => {
                tracing::debug!(%error, number, "no lock for a port");
                Ok(Self { _socket: None })
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn name(protocol: PortProtocol, number: u16) -> String {
    let user = rustix::process::geteuid().as_raw();
    let protocol = match protocol {
        PortProtocol::Tcp => "tcp",
        PortProtocol::Udp => "udp",
    };
    format!("edge-gateway/{user}/{protocol}/{number}")
}

#[cfg(not(target_os = "linux"))]
impl Lock {
    /// There is none.
    pub(super) fn take(_: PortProtocol, _: u16) -> Result<Self, Arc<str>> {
        Ok(Self {})
    }
}
