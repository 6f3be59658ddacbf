//! Hosts by the names that requests ask for (Envoy's dynamic forward proxy).
//!
//! A name is resolved when a request asks for it, once for all that ask at the same time, and again when its
//! answer is too old; what can't be resolved again keeps its last address. A host that answers under the same address
//! stays the same host, with its connections.
//! Why bounds: clients choose the names. A worker knows so many at once, and resolves a few at a time, since each
//! look-up of the system's resolver takes a thread.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustc_hash::FxHashMap;
use tokio::sync::{Mutex, Semaphore};

use crate::authority::Authority;
use crate::config::cluster::ClusterEntry;
use crate::config::dynamic_forward_proxy::Naming;
use crate::config::endpoint::{Health, Host, HostAddress, HostId};
use crate::config::{ClusterId, Snapshot};
use crate::fault::Fault;

/// Look-ups at a time.
const AT_A_TIME: usize = 16;

/// Ids of hosts that configuration makes are far below.
static NEXT_ID: AtomicU64 = AtomicU64::new(1 << 63);

/// A name with its port, of a cluster.
type Key = (ClusterId, Box<str>);

/// Those of a cluster, by name and port.
type Names = FxHashMap<Box<str>, Rc<Name>>;

/// What a worker knows of names.
#[derive(Debug)]
pub(crate) struct KnownNames {
    /// Each cluster has places of its own.
    clusters: RefCell<FxHashMap<ClusterId, Names>>,
    lookups: Semaphore,
}

/// One name, of one cluster.
#[derive(Debug)]
struct Name {
    /// The host, and since when its address is known.
    host: RefCell<Option<(Arc<Host>, Instant)>>,
    used: Cell<Instant>,
    /// Held by who asks for its address.
    turn: Mutex<()>,
}

impl Name {
    fn fresh(&self, naming: &Naming, now: Instant) -> Option<Arc<Host>> {
        let host = self.host.borrow();
        let (host, since) = host.as_ref()?;
        let is_fresh = now.saturating_duration_since(*since) < naming.refresh;
        (is_fresh && naming.allows(host)).then(|| Arc::clone(host))
    }
}

/// Somebody who wants the address of a name, until it is known or nobody waits for it any more: a client may leave at
/// any time. The last one gives the place of a name without an address to others, for clients choose names, and there
/// are few places.
#[derive(Debug)]
struct Asking<'a> {
    known: &'a KnownNames,
    key: Key,
    name: Rc<Name>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.name.host.borrow().is_some() {
            return;
        }
        let (cluster, key) = &self.key;
        let mut clusters = self.known.clusters.borrow_mut();
        let Some(names) = clusters.get_mut(cluster) else {
            return;
        };
        let is_it = names.get(key).is_some_and(|known| Rc::ptr_eq(known, &self.name));
        // One is the table's.
        if is_it && Rc::strong_count(&self.name) == 2 {
            names.remove(key);
        }
    }
}

impl Default for KnownNames {
    fn default() -> Self {
        Self {
            clusters: RefCell::default(),
            lookups: Semaphore::new(AT_A_TIME),
        }
    }
}

impl KnownNames {
    /// The host that an authority names.
    pub(crate) async fn host(&self, entry: &ClusterEntry, authority: &str) -> Result<Arc<Host>, Fault> {
        let usual_port = if entry.cluster.tls.is_some() { 443 } else { 80 };
        let (host, port) = split(authority, usual_port).ok_or(Fault::Unresolved)?;
        self.host_at(entry, host, port).await
    }

    /// The host of a name, at a port.
    pub(crate) async fn host_at(&self, entry: &ClusterEntry, host: &str, port: u16) -> Result<Arc<Host>, Fault> {
        let Some(naming) = &entry.cluster.naming else {
            return Err(Fault::NoHealthyUpstream);
        };
        self.found(entry.id, naming, host, port).await
    }

    async fn found(&self, cluster: ClusterId, naming: &Naming, host: &str, port: u16) -> Result<Arc<Host>, Fault> {
        let key = (cluster, format!("{host}:{port}").to_ascii_lowercase().into_boxed_str());
        let asking = self.asking(key, naming)?;
        let name = &asking.name;
        if let Some(known) = name.fresh(naming, Instant::now()) {
            return Ok(known);
        }
        let _turn = name.turn.lock().await;
        // Who had the turn before may have asked.
        if let Some(known) = name.fresh(naming, Instant::now()) {
            return Ok(known);
        }
        let address = self.resolve(naming, host, port).await;
        let before = name.host.borrow().as_ref().map(|(host, _)| Arc::clone(host));
        let host = match (address, before) {
            (Some(address), Some(before)) if before.address == HostAddress::Socket(address) => before,
            (Some(address), _) => Arc::new(made(address, host)),
            (None, Some(before)) if naming.allows(&before) => before,
            (None, _) => {
                *name.host.borrow_mut() = None;
                return Err(Fault::Unresolved);
            }
        };
        *name.host.borrow_mut() = Some((Arc::clone(&host), Instant::now()));
        Ok(host)
    }

    /// What is known of a name, if only that it is asked for; a fault when too many are known.
    fn asking(&self, key: Key, naming: &Naming) -> Result<Asking<'_>, Fault> {
        let now = Instant::now();
        let mut clusters = self.clusters.borrow_mut();
        let names = clusters.entry(key.0).or_default();
        if let Some(name) = names.get(&key.1) {
            name.used.set(now);
            let name = Rc::clone(name);
            return Ok(Asking { known: self, key, name });
        }
        if names.len() >= naming.most {
            // Whoever is at it now has a handle of its own.
            names.retain(|_, name| now.saturating_duration_since(name.used.get()) < naming.unused);
        }
        if names.len() >= naming.most {
            return Err(Fault::Overflow);
        }
        let name = Rc::new(Name {
            host: RefCell::new(None),
            used: Cell::new(now),
            turn: Mutex::new(()),
        });
        names.insert(key.1.clone(), Rc::clone(&name));
        Ok(Asking { known: self, key, name })
    }

    async fn resolve(&self, naming: &Naming, host: &str, port: u16) -> Option<SocketAddr> {
        let may_be_used = |address: &IpAddr| !naming.refused.has(*address);
        if let Ok(address) = without_brackets(host).unwrap_or(host).parse::<IpAddr>() {
            return may_be_used(&address).then(|| SocketAddr::new(address, port));
        }
        let asking = async {
            let _permit = self.lookups.acquire().await.ok()?;
            // Without the dot of an absolute name, which the system's resolver doesn't need.
            let name = host.strip_suffix('.').unwrap_or(host);
            let answers = tokio::net::lookup_host((name, port)).await.ok()?;
            let addresses = naming.family.choose(answers.map(|answer| answer.ip()).collect());
            let address = addresses.into_iter().find(may_be_used)?;
            Some(SocketAddr::new(address, port))
        };
        tokio::time::timeout(naming.timeout, asking).await.ok().flatten()
    }

    /// Whether a host is one of these.
    pub(super) fn has(&self, cluster: ClusterId, host: HostId) -> bool {
        let clusters = self.clusters.borrow();
        let mut of_cluster = clusters.get(&cluster).into_iter().flat_map(FxHashMap::values);
        of_cluster.any(|name| name.host.borrow().as_ref().is_some_and(|(known, _)| known.id == host))
    }

    /// Forgets names of clusters that are gone.
    pub(super) fn follow(&self, snapshot: &Snapshot) {
        self.clusters.borrow_mut().retain(|cluster, _| {
            let entry = snapshot.cluster(*cluster);
            entry.is_some_and(|entry| entry.cluster.naming.is_some())
        });
    }
}

fn split(authority: &str, usual_port: u16) -> Option<(&str, u16)> {
    let authority = Authority::of(authority);
    let host = authority.host;
    let port = match authority.port {
        None => usual_port,
        Some(_) => authority.port_number()?.try_into().ok()?,
    };
    let is_host = match without_brackets(host) {
        Some(address) => address.parse::<IpAddr>().is_ok(),
        None => !host.is_empty() && !host.contains(['[', ']', ':']),
    };
    is_host.then_some((host, port))
}

/// The address that brackets keep apart from a port (RFC 3986 §3.2.2).
fn without_brackets(host: &str) -> Option<&str> {
    host.strip_prefix('[')?.strip_suffix(']')
}

fn made(address: SocketAddr, name: &str) -> Host {
    Host {
        id: HostId(NEXT_ID.fetch_add(1, Ordering::Relaxed)),
        address: HostAddress::Socket(address),
        hostname: name.into(),
        weight: 1,
        health: Health::Healthy,
        stats: Arc::default(),
        vitals: Arc::default(),
        check: None,
        socket: None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::address::AddressFilter;
    use crate::config::dynamic_forward_proxy::DnsFamily;

    fn naming(most: usize, refused: AddressFilter) -> Naming {
        Naming {
            family: DnsFamily::V4,
            refresh: Duration::from_secs(3600),
            unused: Duration::from_secs(3600),
            most,
            timeout: Duration::from_secs(5),
            refused,
        }
    }

    #[test]
    fn the_last_who_asks_in_vain_leaves_no_name() {
        let naming = naming(1, AddressFilter::default());
        let known = KnownNames::default();
        let key = |name: &str| (ClusterId(0), Box::from(name));
        let ask = |name| known.asking(key(name), &naming);
        let (first, second) = (ask("a").unwrap(), ask("a").unwrap());
        assert!(Rc::ptr_eq(&first.name, &second.name));
        drop(first);
        assert!(ask("b").is_err(), "somebody waits for the other one");
        drop(second);
        let found = ask("b").unwrap();
        let host = made(SocketAddr::from(([127, 0, 0, 1], 1)), "b");
        *found.name.host.borrow_mut() = Some((Arc::new(host), Instant::now()));
        drop(found);
        assert!(ask("a").is_err(), "an address was found");
        let of_another = known.asking((ClusterId(1), Box::from("a")), &naming);
        assert!(of_another.is_ok(), "it has places of its own");
    }

    #[tokio::test]
    async fn what_was_found_is_given_up_once_its_address_is_refused() {
        let all = AddressFilter {
            ranges: [].into(),
            inverted: true,
        };
        let known = KnownNames::default();
        let ask = async |refused: AddressFilter| {
            let naming = naming(8, refused);
            let found = known.found(ClusterId(0), &naming, "127.0.0.1", 80).await;
            found.map(|host| host.address.clone())
        };
        let address = HostAddress::Socket(SocketAddr::from(([127, 0, 0, 1], 80)));
        assert_eq!(ask(AddressFilter::default()).await, Ok(address));
        for _ in 0..2 {
            assert_eq!(ask(all.clone()).await, Err(Fault::Unresolved));
        }
        assert!(known.clusters.borrow()[&ClusterId(0)].is_empty(), "its place is free");
    }

    #[test]
    fn an_authority_names_a_host_and_perhaps_a_port() {
        for (authority, expected) in [
            ("a.example", Some(("a.example", 80))),
            ("a.example:81", Some(("a.example", 81))),
            ("[::1]:81", Some(("[::1]", 81))),
            ("[::1]", Some(("[::1]", 80))),
            ("a.example:", None),
            ("a.example:x", None),
            ("a.example:70000", None),
            ("", None),
            ("[]:80", None),
            ("[[::1]]:80", None),
            ("[127.0.0.1:80", None),
            ("127.0.0.1]:80", None),
            ("[localhost]:80", None),
            ("::1:80", None),
            ("localhost:+80", None),
        ] {
            assert_eq!(split(authority, 80), expected, "{authority}");
        }
    }
}
