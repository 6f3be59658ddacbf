//! All listeners of a fleet, judged together: their own text, their conflicts, their certificates,
//! the clients they trust.
//!
//! Conflicts make this a question about the fleet and not about a listener. What routes need to know of a Gateway
//! ([`ListenerViews`](super::view::ListenerViews)) is a value of its own, so that a new certificate doesn't make every
//! route attach again.

use super::{
    bound_ports,
    certificate::{self, CertificateView},
    client_traffic::{self, Governed},
    client_validation::{self, ClientTrust},
    conflict,
    finding::{Finding, complete, is_serving},
    listener_set::{self, Admission, Holder},
    spec,
};
use crate::{
    api::{self, Kind, Protocol},
    engine::reader::Reader,
    name::{FleetId, Id, ListenerId},
    phase::{
        hostname, origin,
        policies::client::{ClientTraffic, Http3},
        precedence::Seniority,
    },
    status::{Condition, Truth},
};
use edge_ir::{Origin, RouteTableName};
use rustc_hash::FxHashMap;
use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

/// The listeners of a fleet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FleetListeners {
    /// Its Gateways, oldest first, each with its listeners in spec order.
    pub(crate) gateways: Vec<GatewayListeners>,
}

/// The listeners of one Gateway.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GatewayListeners {
    /// The Gateway.
    pub(crate) id: Id,
    /// Its object.
    pub(crate) object: Arc<api::Gateway>,
    /// Its own, in spec order.
    pub(crate) listeners: Vec<ListenerState>,
    /// Those that ListenerSets add, oldest first.
    pub(crate) sets: Vec<SetListeners>,
}

/// The listeners of a ListenerSet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SetListeners {
    /// The ListenerSet.
    pub(crate) id: Id,
    /// Its object.
    pub(crate) object: Arc<api::ListenerSet>,
    /// Whether the Gateway takes it.
    pub(crate) admission: Admission,
    /// In spec order; none when it isn't taken.
    pub(crate) listeners: Vec<ListenerState>,
}

impl GatewayListeners {
    /// Whether one of its own is accepted, or it has none.
    pub(crate) fn has_valid_listeners(&self) -> bool {
        self.object.spec.listeners.is_empty() || self.listeners.iter().any(ListenerState::is_accepted)
    }

    /// Its own listeners and those of its ListenerSets, each as it stands in its object.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&ListenerState, &api::Listener)> {
        let own = self.listeners.iter().map(|l| (l, &self.object.spec.listeners[l.index]));
        let added = self.sets.iter().flat_map(|set| {
            let spec = &set.object.spec.listeners;
            set.listeners.iter().map(|l| (l, &spec[l.index]))
        });
        own.chain(added)
    }
}

impl FleetListeners {
    /// Every listener.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ListenerState> {
        self.gateways
            .iter()
            .flat_map(GatewayListeners::all)
            .map(|(state, _)| state)
    }
}

/// One listener.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListenerState {
    /// Which one.
    pub(crate) id: ListenerId,
    /// Its index in the spec of its object.
    pub(crate) index: usize,
    /// `<namespace>/<gateway>/<listener>`, with the ListenerSet before the listener where it brings it.
    pub(crate) full_name: Arc<str>,
    /// Its hostname, `*` for every one.
    pub(crate) hostname: Arc<str>,
    /// Port that clients use.
    pub(crate) port: u16,
    /// Its protocol.
    pub(crate) protocol: Protocol,
    /// Route kinds that it takes.
    pub(crate) kinds: Vec<Kind>,
    /// Conditions, complete and in order.
    pub(crate) conditions: Vec<Condition>,
    /// Server certificates that can be used.
    pub(crate) certificates: Vec<Arc<CertificateView>>,
    /// Which clients may connect, where they must say who they are.
    pub(crate) clients: Option<Arc<ClientTrust>>,
    /// The ClientTrafficPolicy that it has.
    pub(crate) governed: Option<Governed>,
    /// How clients are treated.
    pub(crate) traffic: Arc<ClientTraffic>,
    /// Whether it is on the data plane.
    pub(crate) serving: Serving,
    /// The table its virtual hosts stand in.
    pub(crate) table: RouteTableName,
    /// Gateway and listener, for explanation.
    pub(crate) origin: Origin,
}

impl ListenerState {
    /// Whether it says that it is accepted.
    pub(crate) fn is_accepted(&self) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.any(|c| c.kind == "Accepted" && c.status == Truth::True)
    }

    /// Whether HTTP/3 is spoken there too. Certificates of clients can't be verified over QUIC: where they are asked
    /// for, nobody comes in by it.
    pub(crate) fn http3(&self) -> Http3 {
        match (&self.protocol, self.traffic.http3, &self.clients) {
            (Protocol::Https, Http3::Offered, None) => Http3::Offered,
            _ => Http3::Off,
        }
    }

    /// Whether HTTP/3 is asked for and can't be had, because clients must say who they are.
    pub(crate) fn withholds_http3(&self) -> bool {
        self.protocol == Protocol::Https && self.traffic.http3 == Http3::Offered && self.clients.is_some()
    }
}

/// Whether a listener is on the data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serving {
    /// It takes connections.
    Yes,
    /// Something is wrong with it.
    No,
}

/// A listener on its way through the checks.
pub(crate) struct Candidate {
    /// Which one.
    pub(crate) id: ListenerId,
    /// Its index in the spec of its object.
    pub(crate) index: usize,
    /// Who brings it.
    pub(crate) holder: Holder,
    /// `<namespace>/<gateway>/<listener>`.
    pub(crate) full_name: Arc<str>,
    /// Its hostname, `*` for every one, lower case.
    pub(crate) hostname: Arc<str>,
    /// Route kinds that it takes.
    pub(crate) kinds: Vec<Kind>,
    /// What is wrong so far.
    pub(crate) findings: Vec<Finding>,
    /// Certificates that can be used.
    pub(crate) certificates: Vec<Arc<CertificateView>>,
    /// Which clients may connect, where they must say who they are.
    pub(crate) clients: Option<Arc<ClientTrust>>,
    /// The ClientTrafficPolicy that it has.
    pub(crate) governed: Option<Governed>,
    /// How clients are treated.
    pub(crate) traffic: Arc<ClientTraffic>,
}

impl Candidate {
    /// The listener as written.
    pub(crate) fn spec(&self) -> &api::Listener {
        &self.holder.listeners()[self.index]
    }

    /// Lost a conflict. What a ListenerSet adds then isn't accepted either.
    pub(crate) fn conflict(&mut self, reason: &'static str, message: impl Into<Cow<'static, str>>) {
        let message = message.into();
        if self.id.set.is_some() {
            self.findings.push(Finding::programmed(reason, message.clone()));
            self.findings.push(Finding::accepted(reason, message.clone()));
        }
        self.findings.push(Finding::conflicted(reason, message));
    }

    /// Nothing that is known keeps it from serving.
    pub(crate) fn is_sound(&self) -> bool {
        is_serving(&self.findings)
    }
}

/// Judges the listeners of a fleet; none when it has no Gateway.
pub(crate) fn listeners(reader: &Reader<'_>, fleet: FleetId) -> Option<FleetListeners> {
    let gateways = members(reader, fleet);
    if gateways.is_empty() {
        return None;
    }
    let mut sets: Vec<(Id, Id, Holder, Admission)> = gateways
        .iter()
        .flat_map(|(id, gateway)| {
            let found = listener_set::sets_of(reader, *id, gateway).into_iter();
            found.map(|(set, object, admission)| (*id, set, Holder::Set(Arc::clone(gateway), object), admission))
        })
        .collect();
    sets.sort_by_cached_key(|(_, _, holder, _)| Seniority::of(holder.metadata()));
    let own = gateways
        .iter()
        .map(|(id, gateway)| (*id, None, Holder::Gateway(Arc::clone(gateway))));
    let allowed = sets.iter().filter(|(.., admission)| *admission == Admission::Allowed);
    let added = allowed.map(|(gateway, set, holder, _)| (*gateway, Some(*set), holder.clone()));
    let mut candidates: Vec<Candidate> = own
        .chain(added)
        .flat_map(|(gateway, set, holder)| candidates_of(reader, gateway, set, &holder))
        .collect();
    // Certificates come before conflicts, other than in the order in which the API tells of them: a listener that can't
    // serve for want of a certificate must not take the hostname from a neighbour that can.
    for candidate in candidates.iter_mut().filter(|candidate| candidate.is_sound()) {
        // Each is judged for itself, whatever becomes of the other: one round of mending is enough then.
        client_validation::check(reader, candidate);
        certificate::check(reader, candidate);
    }
    conflict::check(&mut candidates);
    bound_ports::check(reader, fleet, &mut candidates);
    certificate::check_overlaps(&mut candidates);
    client_traffic::govern(reader, &mut candidates);
    let tables = tables(&candidates);
    let states: Vec<ListenerState> = candidates
        .into_iter()
        .zip(tables)
        .map(|(c, table)| settle(c, table))
        .collect();
    Some(FleetListeners {
        gateways: gather(gateways, &sets, states),
    })
}

/// Gives each object its listeners back.
fn gather(
    gateways: Vec<(Id, Arc<api::Gateway>)>,
    sets: &[(Id, Id, Holder, Admission)],
    states: Vec<ListenerState>,
) -> Vec<GatewayListeners> {
    let mut by_holder: FxHashMap<(Id, Option<Id>), Vec<ListenerState>> = FxHashMap::default();
    for state in states {
        by_holder
            .entry((state.id.gateway, state.id.set))
            .or_default()
            .push(state);
    }
    let mut listeners_of = |gateway, set| by_holder.remove(&(gateway, set)).unwrap_or_default();
    gateways
        .into_iter()
        .map(|(id, object)| GatewayListeners {
            id,
            object,
            listeners: listeners_of(id, None),
            sets: sets
                .iter()
                .filter(|(gateway, ..)| *gateway == id)
                .filter_map(|(_, set, holder, admission)| match holder {
                    Holder::Set(_, object) => Some(SetListeners {
                        id: *set,
                        object: Arc::clone(object),
                        admission: *admission,
                        listeners: listeners_of(id, Some(*set)),
                    }),
                    Holder::Gateway(_) => None,
                })
                .collect(),
        })
        .collect()
}

/// The Gateways of a fleet, oldest first.
fn members(reader: &Reader<'_>, fleet: FleetId) -> Vec<(Id, Arc<api::Gateway>)> {
    let mut list: Vec<_> = reader
        .members(fleet)
        .iter()
        .filter_map(|id| Some((*id, Arc::clone(reader.gateway_object(*id)?))))
        .collect();
    list.sort_by_cached_key(|(_, gateway)| Seniority::of(&gateway.metadata));
    list
}

fn candidates_of(reader: &Reader<'_>, gateway: Id, set: Option<Id>, holder: &Holder) -> Vec<Candidate> {
    let prefix = holder.full_name();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    // The API server keeps names unique; in files the first of a name counts, and the object says so.
    let candidate = |(index, listener): (usize, &api::Listener)| {
        let checked = spec::check(listener);
        Candidate {
            id: ListenerId {
                gateway,
                set,
                name: reader.sym(&listener.name),
            },
            index,
            holder: holder.clone(),
            full_name: format!("{prefix}/{}", listener.name).into(),
            hostname: hostname::text(listener.hostname.as_deref()).to_lowercase().into(),
            kinds: checked.kinds,
            findings: checked.findings,
            certificates: Vec::new(),
            clients: None,
            governed: None,
            traffic: Arc::default(),
        }
    };
    let listeners = holder.listeners().iter().enumerate();
    listeners
        .filter(|(_, listener)| names.insert(&listener.name))
        .map(candidate)
        .collect()
}

/// The table of each listener: HTTP listeners of a port share that of the first which serves, HTTPS listeners have
/// their own (the server name has chosen already).
fn tables(candidates: &[Candidate]) -> Vec<RouteTableName> {
    let shares = |a: &Candidate, b: &Candidate| {
        a.spec().protocol == Protocol::Http && b.spec().protocol == Protocol::Http && a.spec().port == b.spec().port
    };
    let owner = |candidate: &Candidate| {
        candidates
            .iter()
            .find(|other| is_serving(&other.findings) && shares(other, candidate))
            .map_or(&candidate.full_name, |other| &other.full_name)
            .clone()
    };
    candidates.iter().map(|c| RouteTableName::new(owner(c))).collect()
}

fn settle(candidate: Candidate, table: RouteTableName) -> ListenerState {
    let serving = if is_serving(&candidate.findings) {
        Serving::Yes
    } else {
        Serving::No
    };
    let spec = candidate.spec();
    let (port, protocol) = (spec.port, spec.protocol.clone());
    let metadata = candidate.holder.metadata();
    let section = Some(Arc::from(&*spec.name));
    let origin = origin::part(
        candidate.holder.kind(),
        Arc::clone(&metadata.namespace),
        Arc::clone(&metadata.name),
        section,
    );
    // A policy is nearer to a listener than what its Gateway says for a port; where TLS isn't terminated there is
    // nothing to ask.
    let of_policy = candidate.traffic.tls.clients.clone();
    let of_policy = of_policy.filter(|_| !candidate.certificates.is_empty());
    let clients = of_policy.or(candidate.clients);
    ListenerState {
        id: candidate.id,
        index: candidate.index,
        full_name: candidate.full_name,
        hostname: candidate.hostname,
        port,
        protocol,
        kinds: candidate.kinds,
        conditions: complete(candidate.findings, candidate.holder.kind()),
        certificates: candidate.certificates,
        clients,
        governed: candidate.governed,
        traffic: candidate.traffic,
        serving,
        table,
        origin,
    }
}
