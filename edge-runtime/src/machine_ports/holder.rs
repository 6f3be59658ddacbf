//! Who holds a socket of this machine, as `/proc` tells: the tables of sockets give each an inode, and the open files
//! of processes lead from there to a process. Where there is no `/proc`, or a process is another user's, nobody is
//! found.

use edge_ir::{IpFamily, PortProtocol};
use edge_translate::MachinePort;
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The state of a TCP socket that takes connections, in `/proc/net/tcp` (TCP_LISTEN).
const LISTENING: &str = "0A";

/// The tables of TCP sockets.
const TCP_TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// Who holds a port beside the processes `own`; none if nobody does.
pub(super) fn stranger(port: MachinePort, own: &BTreeSet<u32>) -> Option<Arc<str>> {
    let sockets = sockets_at(port);
    let holders = holders(&sockets);
    let is_own = |inode: &u64| holders.iter().any(|h| h.inode == *inode && own.contains(&h.pid));
    let strange: BTreeSet<u64> = sockets.iter().filter(|inode| !is_own(inode)).copied().collect();
    if strange.is_empty() && !sockets.is_empty() {
        return None;
    }
    let seen = holders.iter().find(|holder| strange.contains(&holder.inode));
    Some(seen.map_or_else(unknown, Holder::describe))
}

/// What to call somebody who can't be seen.
pub(super) fn unknown() -> Arc<str> {
    "a program that can't be seen from here, such as another user's".into()
}

/// Which process of our user holds the abstract name of a socket.
pub(super) fn of_name(name: &str) -> Option<Arc<str>> {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let name = format!("@{name}");
    // proc_net_unix(5): Num RefCount Protocol Flags Type St Inode Path
    let entries = table.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(6);
        let inode = fields.next()?.parse().ok()?;
        (fields.next()? == name).then_some(inode)
    });
    let user = rustix::process::geteuid().as_raw();
    let holders = holders(&entries.collect());
    holders
        .iter()
        .find(|holder| holder.user == user)
        .map(|holder| format!("another controller, {}", holder.describe()).into())
}

/// The TCP ports that a process takes connections on, as far as we may look.
pub(crate) fn listening(pid: u32) -> BTreeSet<u16> {
    let files = PathBuf::from(format!("/proc/{pid}/fd"));
    let open: BTreeSet<u64> = entries(&files).filter_map(|fd| inode_of(&fd)).collect();
    let mut ports = BTreeSet::new();
    for path in TCP_TABLES {
        let table = fs::read_to_string(path).unwrap_or_default();
        let sockets = table.lines().filter_map(Socket::read);
        ports.extend(
            sockets
                .filter(|s| s.state == LISTENING && open.contains(&s.inode))
                .map(|s| s.port),
        );
    }
    ports
}

/// A process that has a socket open.
struct Holder {
    pid: u32,
    user: u32,
    inode: u64,
}

impl Holder {
    fn describe(&self) -> Arc<str> {
        let pid = self.pid;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("process {pid} ({})", name.trim_end()).into()
    }
}

/// Inodes of the sockets that keep others from a port.
fn sockets_at(port: MachinePort) -> BTreeSet<u64> {
    let tables = match port.protocol {
        PortProtocol::Tcp => TCP_TABLES,
        PortProtocol::Udp => ["/proc/net/udp", "/proc/net/udp6"],
    };
    let mut found = BTreeSet::new();
    for path in tables {
        let table = fs::read_to_string(path).unwrap_or_default();
        found.extend(table.lines().filter_map(|line| inode_at(line, port)));
    }
    found
}

/// A line of a table of sockets.
struct Socket<'a> {
    /// In hexadecimal digits.
    address: &'a str,
    port: u16,
    state: &'a str,
    inode: u64,
}

impl<'a> Socket<'a> {
    fn read(line: &'a str) -> Option<Self> {
        // proc_net_tcp(5): number, local address, remote address, state, queues, timer, retransmits, user, timeout,
        // inode
        let mut fields = line.split_whitespace().skip(1);
        let (address, port) = fields.next()?.split_once(':')?;
        let state = fields.nth(1)?;
        Some(Self {
            address,
            port: u16::from_str_radix(port, 16).ok()?,
            state,
            inode: fields.nth(5)?.parse().ok()?,
        })
    }
}

/// The inode of a socket in a line of a table, if it is in the way of a port.
fn inode_at(line: &str, port: MachinePort) -> Option<u64> {
    let Socket {
        address,
        port: number,
        state,
        inode,
    } = Socket::read(line)?;
    let is_open = port.protocol == PortProtocol::Udp || state == LISTENING;
    let is_in_the_way = match (port.family, address.len()) {
        (IpFamily::V6, 8) => false,
        // On all addresses of both families, perhaps, or on one that stands for an IPv4 address.
        (IpFamily::V4, 32) => address.bytes().all(|b| b == b'0') || address.get(16..24) == Some("FFFF0000"),
        _ => true,
    };
    (number == port.number && is_open && is_in_the_way).then_some(inode)
}

/// The processes that have sockets open, as far as we may look.
fn holders(inodes: &BTreeSet<u64>) -> Vec<Holder> {
    let mut found = Vec::new();
    if inodes.is_empty() {
        return found;
    }
    for (pid, process) in processes() {
        let files = process.join("fd");
        let open = entries(&files).filter_map(|fd| inode_of(&fd));
        let open: BTreeSet<u64> = open.filter(|inode| inodes.contains(inode)).collect();
        let Ok(user) = fs::metadata(&process).map(|meta| meta.uid()) else {
            continue;
        };
        found.extend(open.into_iter().map(|inode| Holder { pid, user, inode }));
    }
    found
}

fn processes() -> impl Iterator<Item = (u32, PathBuf)> {
    entries(Path::new("/proc")).filter_map(|path| {
        let pid = path.file_name()?.to_str()?.parse().ok()?;
        Some((pid, path))
    })
}

/// Open files of sockets are links of the form `socket:[<inode>]`.
fn inode_of(fd: &Path) -> Option<u64> {
    let target = fs::read_link(fd).ok()?;
    let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
    inode.parse().ok()
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
}
