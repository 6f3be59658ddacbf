//! Indexes from values of units to the units that need them, kept up to date as values change and read like inputs.

use crate::{
    name::{
        Ancestor, BackendId, BackendPort, ContextId, EndpointsId, FilterKey, FleetId, HostId, Id, ListenerId, PolicyId,
        RouteId, SocketId, Sym,
    },
    phase::{hostname::Specificity, listeners::sockets::SocketListener, routes::bound::InVain},
};
use edge_ir::PortProtocol;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::{collections::BTreeMap, hash::Hash};

/// What a host consists of.
#[derive(Debug, Default)]
pub(crate) struct HostRoutes {
    /// Routes that attach there, in no order.
    pub(crate) routes: SmallVec<[HostRoute; 1]>,
    /// It must exist even without routes, to hide a broader listener.
    pub(crate) reserved: bool,
}

/// A route of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostRoute {
    /// Which one.
    pub(crate) route: RouteId,
    /// How specific the hostname is that it wrote itself.
    pub(crate) own: Specificity,
    /// What policies decide for it there.
    pub(crate) context: ContextId,
}

/// A policy on a route, or on a rule of it, at one of its listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RoutePolicy {
    /// The listener.
    pub(crate) listener: ListenerId,
    /// The route.
    pub(crate) route: RouteId,
    /// The rule, where it is for one.
    pub(crate) rule: Option<Sym>,
    /// The policy.
    pub(crate) policy: PolicyId,
}

/// A port that a Gateway wants.
pub(crate) type PortClaim = (PortProtocol, u16);

/// All indexes.
#[derive(Debug, Default)]
pub(crate) struct Index {
    members: FxHashMap<FleetId, Vec<Id>>,
    port_claims: FxHashMap<PortClaim, Vec<(FleetId, Id)>>,
    /// What serves at each socket of a fleet.
    sockets: FxHashMap<FleetId, BTreeMap<SocketId, Vec<SocketListener>>>,
    hosts: FxHashMap<HostId, HostRoutes>,
    /// TLS, TCP and UDP routes, in no order.
    listener_routes: FxHashMap<ListenerId, Vec<RouteId>>,
    attached: FxHashMap<ListenerId, u32>,
    /// Parents of routes that lead to a backend, by the number of these routes, and objects that ask it themselves.
    pub(crate) ancestors: Counts<BackendPort, Ancestor>,
    /// Policies on routes, by the Gateway above.
    pub(crate) route_policies: Counts<Id, RoutePolicy>,
    /// What routes need of a listener, by the number of those that do.
    pub(crate) filters: Counts<ListenerId, FilterKey>,
    /// What a BackendTrafficPolicy asks of backends of routes in vain at the listeners that it is for, by the number of
    /// these routes.
    pub(crate) in_vain: Counts<Id, InVain>,
    /// Routes with a match in common, as listener and other route, by the number of hosts where that is so.
    pub(crate) overlaps: Counts<RouteId, (ListenerId, RouteId)>,
    users: FxHashMap<(FleetId, BackendId), u32>,
    endpoint_users: FxHashMap<(FleetId, EndpointsId), u32>,
}

/// What a count did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountChange {
    /// From none to one.
    Appeared,
    /// From one to none.
    Vanished,
    /// Neither.
    Stayed,
}

/// What there is for each of many, each with the number of its reasons.
#[derive(Debug)]
pub(crate) struct Counts<K, V>(FxHashMap<K, Counted<V>>);

/// What there is for one of them: nearly always one.
#[derive(Debug)]
enum Counted<V> {
    One(V, u32),
    Many(Box<FxHashMap<V, u32>>),
}

impl<K, V> Default for Counts<K, V> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K: Copy + Eq + Hash, V: Copy + Eq + Hash> Counts<K, V> {
    /// What there is for one, in no order.
    pub(crate) fn of(&self, key: K) -> impl Iterator<Item = V> {
        let (one, many) = match self.0.get(&key) {
            Some(Counted::One(value, _)) => (Some(*value), None),
            Some(Counted::Many(counts)) => (None, Some(counts)),
            None => (None, None),
        };
        let many = many.into_iter().flat_map(|counts| counts.keys().copied());
        one.into_iter().chain(many)
    }

    /// Moves from what was for a reason to what is, both sorted; says for whom there is more or less than before.
    pub(super) fn turn(&mut self, was: &[(K, V)], now: &[(K, V)]) -> SmallVec<[K; 4]>
    where
        (K, V): Ord,
    {
        let mut turned = SmallVec::new();
        for one in was.iter().filter(|one| now.binary_search(one).is_err()) {
            if self.remove(*one) == CountChange::Vanished {
                turned.push(one.0);
            }
        }
        for (key, value) in now.iter().filter(|one| was.binary_search(one).is_err()) {
            if self.add((*key, *value)) == CountChange::Appeared {
                turned.push(*key);
            }
        }
        turned
    }

    fn add(&mut self, (key, value): (K, V)) -> CountChange {
        match self.0.get_mut(&key) {
            Some(counted) => counted.add(value),
            None => {
                self.0.insert(key, Counted::One(value, 1));
                CountChange::Appeared
            }
        }
    }

    fn remove(&mut self, (key, value): (K, V)) -> CountChange {
        let Some(counted) = self.0.get_mut(&key) else {
            return CountChange::Stayed;
        };
        let change = counted.remove(value);
        if counted.is_empty() {
            self.0.remove(&key);
        }
        change
    }
}

impl<V: Copy + Eq + Hash> Counted<V> {
    fn add(&mut self, value: V) -> CountChange {
        match self {
            Self::One(known, count) if *known == value => {
                *count += 1;
                CountChange::Stayed
            }
            Self::One(known, count) => {
                let both = [(*known, *count), (value, 1)];
                *self = Self::Many(Box::new(both.into_iter().collect()));
                CountChange::Appeared
            }
            Self::Many(counts) => up(counts, value),
        }
    }

    fn remove(&mut self, value: V) -> CountChange {
        match self {
            Self::One(known, count) if *known == value => {
                *count -= 1;
                match *count {
                    0 => CountChange::Vanished,
                    _ => CountChange::Stayed,
                }
            }
            Self::One(..) => CountChange::Stayed,
            Self::Many(counts) => down(counts, value),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::One(_, count) => *count == 0,
            Self::Many(counts) => counts.is_empty(),
        }
    }
}

impl Index {
    pub(crate) fn members(&self, fleet: FleetId) -> &[Id] {
        self.members.get(&fleet).map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn add_member(&mut self, fleet: FleetId, gateway: Id) {
        self.members.entry(fleet).or_default().push(gateway);
    }

    pub(crate) fn remove_member(&mut self, fleet: FleetId, gateway: Id) {
        if let Some(list) = self.members.get_mut(&fleet) {
            list.retain(|id| *id != gateway);
            if list.is_empty() {
                self.members.remove(&fleet);
            }
        }
    }

    pub(crate) fn port_claims(&self, claim: PortClaim) -> &[(FleetId, Id)] {
        self.port_claims.get(&claim).map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn add_port_claim(&mut self, claim: PortClaim, fleet: FleetId, gateway: Id) {
        self.port_claims.entry(claim).or_default().push((fleet, gateway));
    }

    pub(crate) fn remove_port_claim(&mut self, claim: PortClaim, fleet: FleetId, gateway: Id) {
        if let Some(list) = self.port_claims.get_mut(&claim) {
            list.retain(|known| *known != (fleet, gateway));
            if list.is_empty() {
                self.port_claims.remove(&claim);
            }
        }
    }

    pub(crate) fn socket_listeners(&self, socket: SocketId) -> &[SocketListener] {
        let sockets = self.sockets.get(&socket.fleet);
        let listeners = sockets.and_then(|sockets| sockets.get(&socket));
        listeners.map(Vec::as_slice).unwrap_or_default()
    }

    /// Sets what serves at the sockets of a fleet; returns those where that is another.
    pub(crate) fn set_sockets(
        &mut self,
        fleet: FleetId,
        now: BTreeMap<SocketId, Vec<SocketListener>>,
    ) -> Vec<SocketId> {
        let was = self.sockets.remove(&fleet).unwrap_or_default();
        let gone = was.keys().filter(|socket| !now.contains_key(socket));
        let come = now
            .iter()
            .filter(|(socket, listeners)| was.get(socket) != Some(listeners));
        let turned = gone.chain(come.map(|(socket, _)| socket)).copied().collect();
        if !now.is_empty() {
            self.sockets.insert(fleet, now);
        }
        turned
    }

    pub(crate) fn host_routes(&self, host: HostId) -> Option<&HostRoutes> {
        self.hosts.get(&host)
    }

    pub(crate) fn edit_host(&mut self, host: HostId, edit: impl FnOnce(&mut HostRoutes)) {
        let entry = self.hosts.entry(host).or_default();
        edit(entry);
        if entry.routes.is_empty() && !entry.reserved {
            self.hosts.remove(&host);
        }
    }

    pub(crate) fn listener_routes(&self, listener: ListenerId) -> &[RouteId] {
        self.listener_routes
            .get(&listener)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    pub(crate) fn add_listener_route(&mut self, listener: ListenerId, route: RouteId) {
        self.listener_routes.entry(listener).or_default().push(route);
    }

    pub(crate) fn remove_listener_route(&mut self, listener: ListenerId, route: RouteId) {
        if let Some(list) = self.listener_routes.get_mut(&listener) {
            list.retain(|r| *r != route);
            if list.is_empty() {
                self.listener_routes.remove(&listener);
            }
        }
    }

    pub(crate) fn n_attached(&self, listener: ListenerId) -> u32 {
        self.attached.get(&listener).copied().unwrap_or(0)
    }

    pub(crate) fn attach(&mut self, listener: ListenerId) {
        up(&mut self.attached, listener);
    }

    pub(crate) fn detach(&mut self, listener: ListenerId) {
        down(&mut self.attached, listener);
    }

    pub(crate) fn is_used(&self, fleet: FleetId, backend: BackendId) -> bool {
        self.users.contains_key(&(fleet, backend))
    }

    pub(crate) fn add_user(&mut self, fleet: FleetId, backend: BackendId) -> CountChange {
        up(&mut self.users, (fleet, backend))
    }

    pub(crate) fn remove_user(&mut self, fleet: FleetId, backend: BackendId) -> CountChange {
        down(&mut self.users, (fleet, backend))
    }

    pub(crate) fn needs_endpoints(&self, fleet: FleetId, list: EndpointsId) -> bool {
        self.endpoint_users.contains_key(&(fleet, list))
    }

    pub(crate) fn add_endpoint_user(&mut self, fleet: FleetId, list: EndpointsId) -> CountChange {
        up(&mut self.endpoint_users, (fleet, list))
    }

    pub(crate) fn remove_endpoint_user(&mut self, fleet: FleetId, list: EndpointsId) -> CountChange {
        down(&mut self.endpoint_users, (fleet, list))
    }
}

fn up<K: Eq + Hash>(counts: &mut FxHashMap<K, u32>, key: K) -> CountChange {
    let count = counts.entry(key).or_default();
    *count += 1;
    if *count == 1 {
        CountChange::Appeared
    } else {
        CountChange::Stayed
    }
}

fn down<K: Eq + Hash>(counts: &mut FxHashMap<K, u32>, key: K) -> CountChange {
    let Some(count) = counts.get_mut(&key) else {
        return CountChange::Stayed;
    };
    *count -= 1;
    if *count > 0 {
        return CountChange::Stayed;
    }
    counts.remove(&key);
    CountChange::Vanished
}
