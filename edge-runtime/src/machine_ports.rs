//! Ports of this machine, which proxies share with whatever else runs here.
//!
//! Proxies bind with SO_REUSEPORT, so that a new one takes over from the one before it without a gap. The kernel lets
//! any process of the same user join in, and then gives each of them some of the connections: two controllers, or a
//! proxy that somebody started by hand, would share a port at random. So before a listener is sent to a proxy, the port
//! that translation asks about is looked at: bound here for a moment without SO_REUSEPORT, it is free, or held by
//! proxies of this controller alone, or [somebody else](holder) has it, and translation is told who. Between
//! controllers a [lock](lock::Lock) decides that lasts as long as the port is asked about. A port that is held is
//! looked at again until it is free. Strangers that join later, with SO_REUSEPORT and our user, can't be kept out.

use edge_ir::{IpFamily, PortProtocol};
use edge_translate::{Fact, MachinePort, Question, QuestionChanges};
use socket2::{Domain, Socket, Type};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

mod holder;
mod lock;
#[cfg(test)]
mod tests;

pub(crate) use holder::listening;
use lock::Lock;

/// How often a port that somebody holds is looked at again.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Where it stands which processes are this controller's proxies.
#[derive(Clone, Debug)]
pub struct OwnProxies {
    /// The folder with their records.
    pub folder: PathBuf,
    /// Reads the ids of those that run.
    pub read: fn(&Path) -> BTreeSet<u32>,
}

/// The ports that translation asks about, and what we know of each. Until it is said whose the proxies are, all are
/// free.
#[derive(Debug, Default)]
pub struct PortClaims {
    /// None: somebody else runs the proxies, wherever that is, and a port is none of our business.
    own: Option<OwnProxies>,
    /// Each port with who holds it; none: nobody keeps us from it.
    asked: BTreeMap<MachinePort, Option<Arc<str>>>,
    locks: BTreeMap<(PortProtocol, u16), Lock>,
    /// When ports that are held were looked at again last.
    looked: Option<Instant>,
}

impl PortClaims {
    /// Takes down which ports are asked about and which no longer, and gives the answers that are news.
    pub fn follow(&mut self, wanted: &QuestionChanges) -> Vec<Fact> {
        let mut news = Vec::new();
        for port in wanted.removed.iter().filter_map(port) {
            if let Some(Some(_)) = self.asked.remove(&port) {
                news.push(Fact::Port(port, None));
            }
        }
        let asked = &self.asked;
        let is_asked = |socket: &(PortProtocol, u16)| asked.keys().any(|port| (port.protocol, port.number) == *socket);
        self.locks.retain(|socket, _| is_asked(socket));
        for port in wanted.added.iter().filter_map(port) {
            self.asked.insert(port, None);
            news.extend(self.look(port));
        }
        news
    }

    /// From now on these are our proxies. Gives the answers that are news.
    pub fn change_own(&mut self, own: Option<OwnProxies>) -> Vec<Fact> {
        self.own = own;
        self.locks.clear();
        let asked: Vec<MachinePort> = self.asked.keys().copied().collect();
        asked.into_iter().filter_map(|port| self.look(port)).collect()
    }

    /// How long until ports that are held are to be looked at again; none if none is.
    pub fn wait(&self) -> Option<Duration> {
        let is_any_held = self.asked.values().any(Option::is_some);
        let looked = self.looked.filter(|_| is_any_held)?;
        Some(LOOK_EVERY.saturating_sub(looked.elapsed()))
    }

    /// Looks at ports that are held again, if it is time, and gives the answers that are news.
    pub fn look_again(&mut self) -> Vec<Fact> {
        if self.wait() != Some(Duration::ZERO) {
            return Vec::new();
        }
        self.looked = Some(Instant::now());
        let held = self.asked.iter().filter(|(_, holder)| holder.is_some());
        let held: Vec<MachinePort> = held.map(|(port, _)| *port).collect();
        held.into_iter().filter_map(|port| self.look(port)).collect()
    }

    fn look(&mut self, port: MachinePort) -> Option<Fact> {
        let holder = self.claim(port).err();
        if holder.is_some() {
            self.looked.get_or_insert_with(Instant::now);
        }
        let known = self.asked.entry(port).or_default();
        if *known == holder {
            return None;
        }
        (*known).clone_from(&holder);
        Some(Fact::Port(port, holder))
    }

    /// Makes a port ours among controllers, unless somebody else has it: then it says who.
    fn claim(&mut self, port: MachinePort) -> Result<(), Arc<str>> {
        let Some(own) = &self.own else { return Ok(()) };
        if !is_free(port) {
            // What serves already goes on, whoever else waits for the port. A port that was let go while its holder was
            // looked for is held by nobody.
            match holder::stranger(port, &(own.read)(&own.folder)) {
                None => return Ok(()),
                Some(stranger) if !is_free(port) => return Err(stranger),
                Some(_) => {}
            }
        }
        let socket = (port.protocol, port.number);
        if self.locks.contains_key(&socket) {
            return Ok(());
        }
        let lock = Lock::take(port.protocol, port.number)?;
        // Somebody may have taken it, served, and ended between the look and the lock.
        if !is_free(port) {
            return Err(holder::stranger(port, &BTreeSet::new()).unwrap_or_else(holder::unknown));
        }
        self.locks.insert(socket, lock);
        Ok(())
    }
}

fn port(question: &Question) -> Option<MachinePort> {
    match question {
        Question::Port(port) => Some(*port),
        Question::Time(_) | Question::Document(_) | Question::Module(_) => None,
    }
}

/// Whether nobody holds a port, our own proxies included. What can't be told that way (a privilege that the proxies may
/// have, a family that the machine doesn't know) is for the proxy to say.
fn is_free(port: MachinePort) -> bool {
    !matches!(bind(port), Err(error) if error.kind() == io::ErrorKind::AddrInUse)
}

/// Binds as a proxy would, but for SO_REUSEPORT, and lets go again. Nobody can connect meanwhile.
fn bind(port: MachinePort) -> io::Result<()> {
    let kind = match port.protocol {
        PortProtocol::Tcp => Type::STREAM,
        PortProtocol::Udp => Type::DGRAM,
    };
    let address: SocketAddr = match port.family {
        IpFamily::V4 => (Ipv4Addr::UNSPECIFIED, port.number).into(),
        IpFamily::V6 | IpFamily::DualStack => (Ipv6Addr::UNSPECIFIED, port.number).into(),
    };
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    if port.protocol == PortProtocol::Tcp {
        // Connections that ended a moment ago hold nothing.
        socket.set_reuse_address(true)?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(port.family == IpFamily::V6)?;
    }
    socket.bind(&address.into())
}
