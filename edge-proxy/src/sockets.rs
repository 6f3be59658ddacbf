//! Listening sockets: bound before a listener is accepted, opened when it serves.
//!
//! One `SO_REUSEPORT` socket per worker and address. Binding happens when a listener arrives, so that a port in
//! use rejects that listener by name; `listen` happens when it becomes active, so that nobody connects too early.
//! A datagram socket has no such second step: what arrives early waits in its queue.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::config::Snapshot;
use crate::config::listener::{DualStack, ListenAddress, SocketProtocol};
use crate::config::socket::SocketOptions;
use crate::shared::{BoundListener, ListeningSockets};
use crate::socket_options::{set_buffers, set_keepalive};

/// Connections that wait to be accepted, per socket.
const BACKLOG: i32 = 4096;

/// All sockets.
#[derive(Debug)]
pub(crate) struct Sockets {
    workers: usize,
    bound: BTreeMap<(Arc<str>, SocketAddr), Entry>,
}

#[derive(Debug)]
struct Entry {
    family: DualStack,
    options: SocketOptions,
    bound: Arc<BoundListener>,
    open: bool,
}

impl Entry {
    /// Whether the sockets are what this address needs. The system takes no option back, so other ones than a socket
    /// has call for another socket; who waits at the one before is still let in.
    fn serves(&self, address: &ListenAddress) -> bool {
        self.options == address.socket
            && self.family == address.family
            && self.bound.sockets.protocol() == address.protocol
    }
}

impl Sockets {
    /// No sockets yet.
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers,
            bound: BTreeMap::new(),
        }
    }

    /// Binds what a listener needs and does not have. On failure nothing of it changes.
    pub(crate) fn bind(&mut self, listener: &Arc<str>, addresses: &[ListenAddress]) -> Result<(), String> {
        let mut fresh = Vec::new();
        for address in addresses {
            let key = (listener.clone(), address.address);
            if self.bound.get(&key).is_some_and(|entry| entry.serves(address)) {
                continue;
            }
            // SO_REUSEPORT would let two listeners of one process share a port in silence.
            let taken = |((other, at), entry): &(&(Arc<str>, SocketAddr), &Entry)| {
                other != listener && *at == address.address && entry.bound.sockets.protocol() == address.protocol
            };
            if address.address.port() != 0
                && let Some(((other, _), _)) = self.bound.iter().find(taken)
            {
                return Err(format!(
                    "address: {} is already used by listener {other:?}",
                    address.address
                ));
            }
            let (sockets, actual) = bind_all(address, self.workers)
                .map_err(|error| format!("address: cannot bind {}: {}", address.address, explain(&error)))?;
            let bound = Arc::new(BoundListener {
                listener: listener.clone(),
                address: actual,
                sockets,
            });
            fresh.push((
                key,
                Entry {
                    family: address.family,
                    options: address.socket,
                    bound,
                    open: false,
                },
            ));
        }
        self.bound.extend(fresh);
        Ok(())
    }

    /// Drops sockets of listeners that are not known any more (`keep` says who needs which address).
    pub(crate) fn retain(&mut self, keep: impl Fn(&str, SocketAddr) -> bool) {
        self.bound.retain(|(listener, address), _| keep(listener, *address));
    }

    /// Opens the sockets of active listeners and returns them. One that can't be opened is tried again with the next
    /// change, and keeps no other closed.
    pub(crate) fn open(&mut self, snapshot: &Snapshot) -> Arc<[Arc<BoundListener>]> {
        let mut open = Vec::new();
        for ((listener, address), entry) in &mut self.bound {
            let active = snapshot.listeners.get(listener);
            let wanted = |wanted: &ListenAddress| {
                wanted.address == *address && wanted.protocol == entry.bound.sockets.protocol()
            };
            if !active.is_some_and(|active| active.addresses.iter().any(wanted)) {
                continue;
            }
            if !entry.open {
                let sockets = match &entry.bound.sockets {
                    ListeningSockets::Tcp(sockets) => &**sockets,
                    ListeningSockets::Udp(_) => &[],
                };
                let mut sockets = sockets.iter();
                if let Err(error) = sockets.try_for_each(|socket| SockRef::from(socket).listen(BACKLOG)) {
                    tracing::error!(listener = &**listener, %address, %error, "cannot listen");
                    continue;
                }
                entry.open = true;
            }
            open.push(entry.bound.clone());
        }
        open.into()
    }
}

/// What the system says, and what helps against it.
fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program uses it; it is tried again until it is free".to_owned(),
        io::ErrorKind::AddrNotAvailable => "no interface of this machine has the address".to_owned(),
        io::ErrorKind::PermissionDenied => "it needs a privilege: give the program CAP_NET_BIND_SERVICE (setcap \
             cap_net_bind_service=+ep), or lower the sysctl net.ipv4.ip_unprivileged_port_start"
            .to_owned(),
        _ => error.to_string(),
    }
}

/// One socket per worker, and the address that they really have.
fn bind_all(address: &ListenAddress, workers: usize) -> io::Result<(ListeningSockets, SocketAddr)> {
    let mut target = address.address;
    let mut sockets = Vec::with_capacity(workers);
    for _ in 0..workers.max(1) {
        let (kind, protocol) = match address.protocol {
            SocketProtocol::Tcp => (Type::STREAM, Protocol::TCP),
            SocketProtocol::Udp => (Type::DGRAM, Protocol::UDP),
        };
        let socket = Socket::new(Domain::for_address(target), kind, Some(protocol))?;
        if address.protocol == SocketProtocol::Tcp {
            // For TCP this only skips TIME_WAIT; for UDP it would let anybody else in.
            socket.set_reuse_address(true)?;
        }
        socket.set_reuse_port(true)?;
        if target.is_ipv6() {
            socket.set_only_v6(address.family == DualStack::Single)?;
        }
        set_options(&SockRef::from(&socket), address)?;
        socket.set_nonblocking(true)?;
        socket.bind(&target.into())?;
        // The first socket on port 0 decides for the others.
        target = socket.local_addr()?.as_socket().unwrap_or(target);
        sockets.push(socket);
    }
    let sockets = match address.protocol {
        SocketProtocol::Tcp => ListeningSockets::Tcp(sockets.into_iter().map(TcpListener::from).collect()),
        SocketProtocol::Udp => ListeningSockets::Udp(sockets.into_iter().map(UdpSocket::from).collect()),
    };
    Ok((sockets, target))
}

/// Options that what the socket accepts has too.
fn set_options(socket: &SockRef<'_>, address: &ListenAddress) -> io::Result<()> {
    set_buffers(socket, &address.socket)?;
    match (&address.socket.keepalive, address.protocol) {
        (Some(keepalive), SocketProtocol::Tcp) => set_keepalive(socket, keepalive),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::socket::TcpKeepalive;

    fn local(port: u16) -> ListenAddress {
        ListenAddress {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            family: DualStack::Single,
            protocol: SocketProtocol::Tcp,
            socket: SocketOptions::default(),
        }
    }

    #[test]
    fn a_port_in_use_names_the_address() {
        let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = other.local_addr().expect("bound").port();
        let mut sockets = Sockets::new(2);
        let error = sockets.bind(&"a".into(), &[local(port)]).expect_err("in use");
        assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
    }

    #[test]
    fn two_listeners_may_not_share_an_address() {
        let free = TcpListener::bind("127.0.0.1:0")
            .expect("a free port")
            .local_addr()
            .expect("bound")
            .port();
        let mut sockets = Sockets::new(1);
        sockets.bind(&"a".into(), &[local(free)]).expect("free");
        let error = sockets.bind(&"b".into(), &[local(free)]).expect_err("taken");
        assert!(error.contains("listener \"a\""), "{error}");
        sockets.retain(|_, _| false);
        sockets.bind(&"b".into(), &[local(free)]).expect("free again");
    }

    #[test]
    fn sockets_of_all_workers_share_the_port_that_the_system_chose() {
        let datagrams = |address| ListenAddress {
            protocol: SocketProtocol::Udp,
            ..address
        };
        for address in [local(0), datagrams(local(0))] {
            let (sockets, actual) = bind_all(&address, 3).expect("binds");
            let ports: Vec<_> = match &sockets {
                ListeningSockets::Tcp(sockets) => sockets.iter().map(TcpListener::local_addr).collect(),
                ListeningSockets::Udp(sockets) => sockets.iter().map(UdpSocket::local_addr).collect(),
            };
            assert_eq!((ports.len(), sockets.protocol()), (3, address.protocol));
            assert!(actual.port() != 0 && ports.iter().all(|port| port.as_ref().ok() == Some(&actual)));
        }
    }

    #[test]
    fn connections_and_datagrams_do_not_share_ports() {
        let mut sockets = Sockets::new(1);
        let (_, free) = bind_all(&local(0), 1).expect("binds");
        sockets.bind(&"a".into(), &[local(free.port())]).expect("free");
        let datagrams = ListenAddress {
            protocol: SocketProtocol::Udp,
            ..local(free.port())
        };
        sockets.bind(&"b".into(), &[datagrams]).expect("another kind of port");
        let error = sockets.bind(&"c".into(), &[datagrams]).expect_err("taken");
        assert!(error.contains("listener \"b\""), "{error}");
    }

    #[test]
    fn sockets_have_the_options_of_their_address_and_give_none_back() {
        let options = SocketOptions {
            send_buffer: Some(64 << 10),
            receive_buffer: Some(32 << 10),
            keepalive: Some(TcpKeepalive {
                time: Some(Duration::from_secs(77)),
                ..TcpKeepalive::default()
            }),
        };
        let with = |socket| ListenAddress { socket, ..local(0) };
        let mut sockets = Sockets::new(1);
        sockets.bind(&"a".into(), &[with(options)]).expect("free");
        let entry = sockets.bound.values().next().expect("bound");
        let ListeningSockets::Tcp(listening) = &entry.bound.sockets else {
            panic!("not of TCP");
        };
        let socket = SockRef::from(&listening[0]);
        // Linux counts its own bookkeeping in, by doubling what is asked for (socket(7)).
        assert_eq!(socket.send_buffer_size().expect("told"), 2 * (64 << 10));
        assert_eq!(socket.recv_buffer_size().expect("told"), 2 * (32 << 10));
        assert!(socket.keepalive().expect("told"));
        assert_eq!(socket.tcp_keepalive_time().expect("told"), Duration::from_secs(77));
        assert!(entry.serves(&with(options)));
        assert!(!entry.serves(&local(0)), "options are not taken back");
    }
}
