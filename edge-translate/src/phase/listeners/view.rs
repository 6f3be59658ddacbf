//! What routes see of listeners: all but their certificates, so that a renewed one attaches no route again.

use super::{
    certificate,
    fleet::{ListenerState, Serving},
};
use crate::{
    api::{self, Kind, Protocol, Text},
    engine::reader::Reader,
    name::{FleetId, Id, ListenerId},
    phase::{
        gateways::gateway::{Gateway, Member},
        hostname,
        policies::{
            attachment::{self, PolicyHolders},
            effective::{self, Inherited},
        },
    },
};
use edge_ir::{Domain, LimitHeaders, Origins, RouteTableName};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What routes see of a Gateway.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListenerViews {
    /// Its fleet.
    pub(crate) fleet: FleetId,
    /// Its listeners in spec order, then those of its ListenerSets.
    pub(crate) listeners: Vec<ListenerView>,
}

/// What routes see of a listener.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListenerView {
    /// Which one.
    pub(crate) id: ListenerId,
    /// Its name.
    pub(crate) name: Text,
    /// `<namespace>/<gateway>/<listener>`.
    pub(crate) full_name: Arc<str>,
    /// Port that clients use.
    pub(crate) port: u16,
    /// Its protocol.
    pub(crate) protocol: Protocol,
    /// Its hostname, `*` for every one.
    pub(crate) hostname: Arc<str>,
    /// What policies decide for every route there.
    pub(crate) inherited: Inherited,
    /// Whether its clients are told of limits, where these say nothing of it.
    pub(crate) limits: LimitHeaders,
    /// Route kinds that it takes.
    pub(crate) kinds: Vec<Kind>,
    /// Namespaces that it takes routes from.
    pub(crate) namespaces: api::RouteNamespaces,
    /// Whether it is on the data plane.
    pub(crate) serving: Serving,
    /// The table its virtual hosts stand in.
    pub(crate) table: RouteTableName,
    /// The listener, for explanation.
    pub(crate) origins: Origins,
    /// Hostnames of serving listeners on the same port that are more specific than its own: requests for these never
    /// come here (listener isolation).
    pub(crate) narrower: Vec<Arc<str>>,
    /// Hostnames of other serving listeners on the port that clients may ask for on its TLS connections, sorted, each
    /// once: those that are more specific than its own, and those that its certificates hold. Such a request is on the
    /// wrong connection, and 421 says so. No route gets one of them here: they are no part of its own, or `narrower`.
    pub(crate) elsewhere: Arc<[Domain]>,
    /// Whether its hostname must stand in its table even without routes, because a broader one stands there too.
    pub(crate) hides_broader: bool,
}

/// What routes see of a Gateway; none when it isn't ours.
pub(crate) fn views(reader: &Reader<'_>, gateway: Id) -> Option<ListenerViews> {
    let Gateway::Member(Member { fleet, .. }) = &**reader.gateway(gateway)? else {
        return None;
    };
    let listeners = reader.listeners(*fleet)?;
    let all: Vec<&ListenerState> = listeners.all().collect();
    let mine = listeners.gateways.iter().find(|g| g.id == gateway)?;
    let of_gateway = effective::of_gateway(reader, gateway);
    let mut of_sets: BTreeMap<Id, PolicyHolders> = BTreeMap::new();
    let listeners = mine
        .all()
        .map(|(state, spec)| {
            let set = state.id.set.map(|set| {
                let of_set = || attachment::held(reader, Kind::ListenerSet, set);
                &*of_sets.entry(set).or_insert_with(of_set)
            });
            let inherited = effective::inherited(reader, state, spec, &of_gateway, set);
            view(state, spec, inherited, &all)
        })
        .collect();
    Some(ListenerViews {
        fleet: *fleet,
        listeners,
    })
}

fn view(state: &ListenerState, spec: &api::Listener, inherited: Inherited, all: &[&ListenerState]) -> ListenerView {
    let rivals = || {
        all.iter().filter(|other| {
            other.id != state.id
                && other.serving == Serving::Yes
                && other.port == state.port
                && share_a_name_space(&other.protocol, &state.protocol)
                && other.hostname != state.hostname
        })
    };
    let mut narrower: Vec<Arc<str>> = rivals()
        .filter(|o| hostname::covers(&state.hostname, &o.hostname))
        .map(|o| Arc::clone(&o.hostname))
        .collect();
    narrower.sort();
    let elsewhere: BTreeSet<&Arc<str>> = match state.protocol {
        Protocol::Https => rivals()
            .map(|o| &o.hostname)
            .filter(|name| hostname::covers(&state.hostname, name) || is_certified(state, name))
            .collect(),
        _ => BTreeSet::new(),
    };
    let shares_table = |o: &&&ListenerState| o.table == state.table;
    let mut beside = rivals()
        .filter(shares_table)
        .map(|o| &o.hostname)
        .chain(elsewhere.iter().copied());
    let hides_broader = beside.any(|name| hostname::covers(name, &state.hostname));
    ListenerView {
        id: state.id,
        name: spec.name.clone(),
        full_name: Arc::clone(&state.full_name),
        port: state.port,
        protocol: state.protocol.clone(),
        hostname: Arc::clone(&state.hostname),
        inherited,
        limits: state.traffic.limits,
        kinds: state.kinds.clone(),
        namespaces: spec.allowed_routes.namespaces.clone(),
        serving: state.serving,
        table: state.table.clone(),
        origins: Arc::new([state.origin.clone()]),
        narrower,
        elsewhere: elsewhere.into_iter().cloned().map(Domain::new).collect(),
        hides_broader,
    }
}

/// Whether a client may reuse the listener's connections for a name, because a certificate of it holds the name, or may
/// hold it (RFC 9113 §9.1.1). Names that no certificate holds aren't listed: they answer 404, and a port with thousands
/// of listeners doesn't name each in the table of each.
fn is_certified(state: &ListenerState, name: &str) -> bool {
    let mut names = certificate::names(&state.certificates);
    certificate::is_opaque(&state.certificates) || names.any(|certified| hostname::intersect(certified, name).is_some())
}

/// Whether a name that a client asks for on a port chooses between listeners of these protocols.
fn share_a_name_space(a: &Protocol, b: &Protocol) -> bool {
    let by_server_name = |p: &Protocol| matches!(p, Protocol::Https | Protocol::Tls);
    a == b || (by_server_name(a) && by_server_name(b))
}
