//! Keeping indexes and assembled fleets in step with the values of units.
//!
//! A unit's value decides which units of later stages exist: an attachment makes a virtual host, a used backend makes a
//! cluster. Here the difference between the old and the new value is carried over, and those units are woken.

use super::{
    Translator,
    index::{CountChange, HostRoute, PortClaim, RoutePolicy},
    key::Key,
    unit::Subject,
    value::{PlacedHost, Value},
};
use crate::{
    api::Kind,
    name::{Ancestor, BackendPort, ContextId, EndpointsId, FleetId, HostId, Id, ListenerId, RouteId},
    phase::{
        backends::cluster::ClusterParts,
        gateways::{
            fleet_shape::FleetShape,
            gateway::{Gateway, Member},
        },
        hostname::Specificity,
        listeners::{fleet::Serving, sockets, view::ListenerViews},
        routes::{
            attach::{AttachedHost, Attachment, Attachments},
            bound::{InVain, Reach},
            uses::Uses,
        },
    },
};
use edge_ir::ELSEWHERE;
use smallvec::SmallVec;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl Translator {
    /// Called after the value of `key` changed.
    pub(super) fn keep_up(&mut self, key: Key, was: Option<&Value>, now: Option<&Value>) {
        match key {
            Key::Gateway(id) => {
                self.keep_members(id, fleet_of(was), fleet_of(now));
                self.keep_port_claims(id, member_of(was), member_of(now));
            }
            Key::Listeners(fleet) => self.keep_sockets(fleet, now),
            Key::ListenerViews(_) => {
                let (was, now) = (was.and_then(as_views), now.and_then(as_views));
                self.keep_reserved_hosts(was, now);
            }
            Key::Attach(route) => {
                let (was, now) = (was.and_then(as_attachments), now.and_then(as_attachments));
                self.keep_hosts(route, was, now);
                self.keep_route_policies(&route_policies(route, was), &route_policies(route, now));
            }
            Key::SecurityPolicy(id) => {
                let policy = Ancestor::object(Kind::SecurityPolicy, id);
                self.keep_asked(policy, asked(was), asked(now));
            }
            Key::ExtensionPolicy(id) => {
                let policy = Ancestor::object(Kind::EdgeExtensionPolicy, id);
                self.keep_asked(policy, asked(was), asked(now));
            }
            Key::Bound(route) => self.keep_users(route, was, now),
            Key::Host(host) => {
                self.keep_overlaps(host.listener, was, now);
                self.keep_assembly(key, was, now);
            }
            Key::FleetShape(fleet) => {
                self.keep_collectors(fleet, was.and_then(as_shape), now.and_then(as_shape));
                self.keep_assembly(key, was, now);
            }
            Key::Patches(_)
            | Key::CustomPolicies(_)
            | Key::Collectors(_)
            | Key::Cluster(..)
            | Key::Endpoints(..)
            | Key::Socket(_)
            | Key::Proxies(_)
            | Key::Infra(_) => {
                self.keep_assembly(key, was, now);
            }
            Key::Status(kind, id) => {
                let mut status = match now {
                    Some(Value::Status(status)) => status.clone(),
                    _ => None,
                };
                if let Some(said) = &mut status
                    && self.in_common.statuses.share(said)
                {
                    self.memo.put_equal(key, Value::Status(status.clone()));
                }
                self.changed_statuses.push((self.world.object_key(kind, id), status));
            }
            _ => {}
        }
    }

    fn keep_members(&mut self, gateway: Id, was: Option<FleetId>, now: Option<FleetId>) {
        if let Some(fleet) = was.filter(|_| was != now) {
            self.index.remove_member(fleet, gateway);
        }
        if let Some(fleet) = now.filter(|_| was != now) {
            self.index.add_member(fleet, gateway);
        }
        // A member that stays in its fleet wakes what read it.
        for fleet in [was, now].into_iter().flatten().filter(|_| was != now) {
            self.memo.touch(Key::Members(fleet));
            self.wake(Subject::Fleet(fleet));
        }
    }

    fn keep_port_claims(&mut self, gateway: Id, was: Option<&Member>, now: Option<&Member>) {
        let claims = |member: Option<&Member>| -> BTreeSet<(PortClaim, FleetId)> {
            let ports = member
                .into_iter()
                .flat_map(|member| member.port_claims.iter().map(|claim| (*claim, member.fleet)));
            ports.collect()
        };
        let (was, now) = (claims(was), claims(now));
        for (claim, fleet) in was.difference(&now) {
            self.index.remove_port_claim(*claim, *fleet, gateway);
        }
        for (claim, fleet) in now.difference(&was) {
            self.index.add_port_claim(*claim, *fleet, gateway);
        }
        for ((protocol, port), _) in was.symmetric_difference(&now) {
            self.memo.touch(Key::PortClaims(*protocol, *port));
        }
    }

    /// A socket comes and goes with the listeners that serve there, and is made again when one of these is another.
    fn keep_sockets(&mut self, fleet: FleetId, now: Option<&Value>) {
        let now = match now {
            Some(Value::Listeners(listeners)) => sockets::by_socket(fleet, listeners),
            _ => BTreeMap::new(),
        };
        for socket in self.index.set_sockets(fleet, now) {
            self.wake(Subject::Socket(socket));
        }
    }

    /// Listeners that hide a broader one need their host even without routes, and those on whose connections clients
    /// may ask for others a host for these.
    fn keep_reserved_hosts(&mut self, was: Option<&ListenerViews>, now: Option<&ListenerViews>) {
        let (was, now) = (self.reserved(was), self.reserved(now));
        for host in was.difference(&now) {
            self.edit_host(*host, |h| h.reserved = false);
        }
        for host in now.difference(&was) {
            self.edit_host(*host, |h| h.reserved = true);
        }
    }

    fn reserved(&self, views: Option<&ListenerViews>) -> BTreeSet<HostId> {
        let views = views.into_iter().flat_map(|v| &v.listeners);
        let hosts = views.filter(|d| d.serving == Serving::Yes).flat_map(|d| {
            let own = d.hides_broader.then_some(&*d.hostname);
            let others = (!d.elsewhere.is_empty()).then_some(ELSEWHERE);
            own.into_iter().chain(others).map(|host| HostId {
                listener: d.id,
                host: self.world.sym(host),
            })
        });
        hosts.collect()
    }

    fn edit_host(&mut self, host: HostId, edit: impl FnOnce(&mut super::index::HostRoutes)) {
        self.index.edit_host(host, edit);
        self.wake(Subject::Host(host));
    }

    fn keep_hosts(&mut self, route: RouteId, was: Option<&Attachments>, now: Option<&Attachments>) {
        if !route.kind.is_by_host() {
            return;
        }
        let (was, now) = (hosts(was), hosts(now));
        for (host, ..) in was.iter().filter(|h| now.binary_search(h).is_err()) {
            self.edit_host(*host, |h| h.routes.retain(|known| known.route != route));
        }
        for (host, own, context) in now.iter().copied().filter(|h| was.binary_search(h).is_err()) {
            self.edit_host(host, |h| h.routes.push(HostRoute { route, own, context }));
        }
    }

    /// Routes that have a match in common are told so.
    fn keep_overlaps(&mut self, listener: ListenerId, was: Option<&Value>, now: Option<&Value>) {
        let (was, now) = (overlaps(listener, was), overlaps(listener, now));
        for route in self.index.overlaps.turn(&was, &now) {
            self.memo.want(Key::Status(route.kind.kind(), route.id));
        }
    }

    /// Who looks from a Gateway's policy at those below it needn't look at every route.
    fn keep_route_policies(&mut self, was: &[(Id, RoutePolicy)], now: &[(Id, RoutePolicy)]) {
        for gateway in self.index.route_policies.turn(was, now) {
            self.memo.touch(Key::RoutePolicies(gateway));
        }
    }

    /// Whoever leads to a backend: parents of routes, and objects that ask it themselves. Both lists are sorted.
    fn keep_ancestors(&mut self, was: &[(BackendPort, Ancestor)], now: &[(BackendPort, Ancestor)]) {
        for port in self.index.ancestors.turn(was, now) {
            self.memo.touch(Key::Ancestors(port));
        }
    }

    /// An object that asks backends itself is what a policy about these hangs under.
    fn keep_asked(&mut self, object: Ancestor, was: &[BackendPort], now: &[BackendPort]) {
        let under = |ports: &[BackendPort]| -> SmallVec<[(BackendPort, Ancestor); 2]> {
            ports.iter().map(|port| (*port, object)).collect()
        };
        self.keep_ancestors(&under(was), &under(now));
    }

    fn keep_users(&mut self, route: RouteId, was: Option<&Value>, now: Option<&Value>) {
        let none = Uses::default();
        let was = was.and_then(as_uses).unwrap_or(&none);
        let now = now.and_then(as_uses).unwrap_or(&none);
        self.keep_attached(was.counting(), now.counting());
        if !route.kind.is_by_host() {
            self.keep_listener_routes(route, &was.listeners, &now.listeners);
        }
        self.keep_ancestors(&was.ancestors, &now.ancestors);
        for listener in self.index.filters.turn(&was.filters, &now.filters) {
            self.memo.touch(Key::Filters(listener));
        }
        for policy in self.index.in_vain.turn(&at_listeners(was), &at_listeners(now)) {
            self.memo.touch(Key::InVain(policy));
        }
        let (was, now) = (&was.backends, &now.backends);
        for (fleet, backend) in now.iter().filter(|u| was.binary_search(u).is_err()) {
            if self.index.add_user(*fleet, *backend) == CountChange::Appeared {
                self.wake(Subject::Backend(*fleet, *backend));
                let list = self.world.endpoints_of(*backend);
                if self.index.add_endpoint_user(*fleet, list) == CountChange::Appeared {
                    self.wake(Subject::Endpoints(*fleet, list));
                }
            }
        }
        for (fleet, backend) in was.iter().filter(|u| now.binary_search(u).is_err()) {
            if self.index.remove_user(*fleet, *backend) == CountChange::Vanished {
                self.wake(Subject::Backend(*fleet, *backend));
                let list = self.world.endpoints_of(*backend);
                if self.index.remove_endpoint_user(*fleet, list) == CountChange::Vanished {
                    self.wake(Subject::Endpoints(*fleet, list));
                }
            }
        }
    }

    /// Collectors need endpoints, and a policy about TLS is told whom it concerns.
    fn keep_collectors(&mut self, fleet: FleetId, was: Option<&FleetShape>, now: Option<&FleetShape>) {
        let ancestors = |shape: Option<&FleetShape>| shape.map(|s| s.telemetry.ancestors()).unwrap_or_default();
        self.keep_ancestors(&ancestors(was), &ancestors(now));
        let lists = |shape: Option<&FleetShape>| -> BTreeSet<EndpointsId> {
            let backends = shape.map(|s| s.telemetry.discovered()).unwrap_or_default();
            backends
                .into_iter()
                .map(|backend| self.world.endpoints_of(backend))
                .collect()
        };
        let (was, now) = (lists(was), lists(now));
        for list in now.difference(&was) {
            if self.index.add_endpoint_user(fleet, *list) == CountChange::Appeared {
                self.wake(Subject::Endpoints(fleet, *list));
            }
        }
        for list in was.difference(&now) {
            if self.index.remove_endpoint_user(fleet, *list) == CountChange::Vanished {
                self.wake(Subject::Endpoints(fleet, *list));
            }
        }
    }

    /// Counts of routes on listeners.
    fn keep_attached(&mut self, was: &[ListenerId], now: &[ListenerId]) {
        for listener in was.iter().filter(|l| now.binary_search(l).is_err()) {
            self.index.detach(*listener);
            self.memo.touch(Key::Attached(*listener));
        }
        for listener in now.iter().filter(|l| was.binary_search(l).is_err()) {
            self.index.attach(*listener);
            self.memo.touch(Key::Attached(*listener));
        }
    }

    /// The TLS, TCP and UDP routes of listeners.
    fn keep_listener_routes(&mut self, route: RouteId, was: &[ListenerId], now: &[ListenerId]) {
        for listener in was.iter().filter(|l| now.binary_search(l).is_err()) {
            self.index.remove_listener_route(*listener, route);
            self.memo.touch(Key::ListenerRoutes(*listener));
        }
        for listener in now.iter().filter(|l| was.binary_search(l).is_err()) {
            self.index.add_listener_route(*listener, route);
            self.memo.touch(Key::ListenerRoutes(*listener));
        }
    }

    fn keep_assembly(&mut self, key: Key, was: Option<&Value>, now: Option<&Value>) {
        match key {
            Key::Host(_) => self.assembly.place_host(was.and_then(as_host), now.and_then(as_host)),
            Key::Cluster(fleet, _) => {
                let (was, now) = (was.and_then(as_cluster), now.and_then(as_cluster));
                self.assembly.change_cluster(fleet, was, now);
            }
            Key::Endpoints(fleet, _) | Key::Proxies(fleet) => {
                let set = |v: Option<&Value>| match v {
                    Some(Value::Endpoints(set)) => set.clone(),
                    _ => None,
                };
                self.assembly.fleet(fleet).endpoints.change(set(was), set(now));
            }
            Key::FleetShape(fleet) => {
                let settings = match now {
                    Some(Value::FleetShape(shape)) => Some(Arc::clone(&shape.settings)),
                    _ => None,
                };
                let name = self.world.text(fleet.0);
                self.assembly.set_settings(fleet, &name, settings);
            }
            Key::Collectors(fleet) => {
                let clusters = |value: Option<&Value>| match value {
                    Some(Value::Collectors(clusters)) => clusters.to_vec(),
                    _ => Vec::new(),
                };
                self.assembly.fleet(fleet).change_outside(clusters(was), clusters(now));
            }
            Key::Patches(fleet) => {
                let patches = match now {
                    Some(Value::Patches(patches)) => Arc::clone(patches),
                    _ => Arc::default(),
                };
                self.assembly.fleet(fleet).change_patches(patches);
            }
            Key::CustomPolicies(fleet) => {
                let policies = match now {
                    Some(Value::CustomPolicies(policies)) => Arc::clone(policies),
                    _ => Arc::default(),
                };
                self.assembly.fleet(fleet).change_custom_policies(policies);
            }
            Key::Socket(id) => {
                let socket = match now {
                    Some(Value::Socket(socket)) => Some(Arc::clone(socket)),
                    _ => None,
                };
                self.assembly.fleet(id.fleet).change_socket(id, socket);
            }
            Key::Infra(fleet) => {
                let infra = match now {
                    Some(Value::Infra(infra)) => infra.clone(),
                    _ => None,
                };
                self.assembly.fleet(fleet).infra = infra;
            }
            _ => {}
        }
    }
}

fn fleet_of(value: Option<&Value>) -> Option<FleetId> {
    member_of(value).map(|member| member.fleet)
}

fn member_of(value: Option<&Value>) -> Option<&Member> {
    match value {
        Some(Value::Gateway(gateway)) => match &**gateway {
            Gateway::Member(member) => Some(member),
            Gateway::Foreign => None,
        },
        _ => None,
    }
}

fn overlaps(listener: ListenerId, value: Option<&Value>) -> SmallVec<[(RouteId, (ListenerId, RouteId)); 4]> {
    let overlaps = value.and_then(as_host).map_or(&[][..], |placed| &placed.overlaps);
    let at = |(route, other): &(RouteId, RouteId)| (*route, (listener, *other));
    overlaps.iter().map(at).collect()
}

fn as_host(value: &Value) -> Option<&PlacedHost> {
    match value {
        Value::Host(placed) => Some(placed),
        _ => None,
    }
}

fn as_cluster(value: &Value) -> Option<&ClusterParts> {
    match value {
        Value::Cluster(parts) => Some(parts),
        _ => None,
    }
}

fn as_shape(value: &Value) -> Option<&FleetShape> {
    match value {
        Value::FleetShape(shape) => Some(shape),
        _ => None,
    }
}

/// Backends that a policy asks.
fn asked(value: Option<&Value>) -> &[BackendPort] {
    match value {
        Some(Value::SecurityPolicy(policy)) => &policy.asked,
        Some(Value::ExtensionPolicy(policy)) => &policy.asked,
        _ => &[],
    }
}

fn as_views(value: &Value) -> Option<&ListenerViews> {
    match value {
        Value::ListenerViews(views) => Some(views),
        _ => None,
    }
}

fn as_attachments(value: &Value) -> Option<&Attachments> {
    match value {
        Value::Attach(attachments) => Some(attachments),
        _ => None,
    }
}

/// Policies on a route and its rules, at each of its listeners, by the Gateway above; sorted.
fn route_policies(route: RouteId, attachments: Option<&Attachments>) -> SmallVec<[(Id, RoutePolicy); 2]> {
    let mut all = SmallVec::new();
    let Some((attachments, held)) = attachments.and_then(|a| Some((a, a.held.as_deref()?))) else {
        return all;
    };
    for listener in attachments.attached().map(|a| a.listener) {
        all.extend(held.all().map(|(rule, policy)| {
            let policy = RoutePolicy {
                listener,
                route,
                rule,
                policy,
            };
            (listener.gateway, policy)
        }));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// What policies ask in vain that reach a route by its listeners, sorted. A route knows itself what others do.
fn at_listeners(uses: &Uses) -> SmallVec<[(Id, InVain); 1]> {
    let theirs = uses.in_vain.iter().filter(|(_, one)| one.reach == Reach::Listener);
    theirs.copied().collect()
}

fn as_uses(value: &Value) -> Option<&Uses> {
    match value {
        Value::Bound(bound) => Some(&bound.uses),
        _ => None,
    }
}

/// Hosts that a route is on, sorted, each once. Of several of its hostnames that lead there the most specific counts;
/// the context is that of the listener.
fn hosts(attachments: Option<&Attachments>) -> SmallVec<[(HostId, Specificity, ContextId); 4]> {
    let attached = attachments.into_iter().flat_map(Attachments::attached);
    let of = |a: &Attachment, AttachedHost { host, own }: &AttachedHost| {
        let (listener, host) = (a.listener, *host);
        (HostId { listener, host }, *own, a.context)
    };
    let mut hosts: SmallVec<[_; 4]> = attached.flat_map(|a| a.hosts.iter().map(move |h| of(a, h))).collect();
    hosts.sort_unstable_by_key(|(id, own, _)| (*id, Reverse(*own)));
    hosts.dedup_by_key(|(id, ..)| *id);
    hosts
}
