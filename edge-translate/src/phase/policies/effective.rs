//! What policies decide for a route at a parent listener: the one door by which they reach routes.
//!
//! What a listener brings (its own mode, the policies on it, its ListenerSet and its Gateway) is put together once a
//! listener and inherited by every route there; a route adds the policies on itself and its rules. The result is a
//! number, so that routes, hosts and sockets compare decisions and never policies: [`Context`].
//!
//! | decided by | what | where it acts |
//! |---|---|---|
//! | a listener that passes TLS through | the client encrypts | the variant of the clusters |
//! | the EdgeProxy of the fleet, where its `backendTLS` can't be honoured | nothing is sent in TLS | backends that want it are left out |
//! | the SecurityPolicy, chosen like the BackendTrafficPolicy below | who may send; closed when it is invalid | filters of the rules |
//! | the EdgeExtensionPolicy, chosen in the same way | what else sees requests; closed when what must see them can't run | filters of the rules |
//! | the EdgeProxy of the fleet, by its `clusterStatName` | the name under which clusters are counted | the variant of the clusters |
//! | the EdgeProxy of the fleet and the ClientTrafficPolicy, where a SecurityPolicy asks where clients are and they don't say | closed | the rules |
//! | the ClientTrafficPolicy, by what its clients send in HTTP/1 | trailers and the case of names in HTTP/1 | the variant of the clusters |
//! | a ClientTrafficPolicy that is invalid, or not as the listener can have it | closed | the rules |
//! | the BackendTrafficPolicy of the rule, the route, the listener (of the ListenerSet), the ListenerSet, the listener (of the Gateway), the Gateway: the first there is, alone unless it merges into the first of a listener | connections, limits, tries; closed when it is invalid | the variant of the clusters, the rules |
//!
//! A policy that decides something new is read here, by precedence, and becomes a field of [`Decision`] that
//! `routes/bound` puts into the rules, or of `Variant`, which `backends/settings` puts into the cluster.

use super::{
    attachment::{self, PolicyHolders},
    extension::{self, Allowed},
    geoip::{self, GeoAvailability, Known},
    security, traffic,
};
use crate::{
    api::{self, Kind, Protocol, TlsMode},
    engine::reader::Reader,
    name::{
        Context, ContextId, Decision, Encryption, Extending, Id, PolicyId, Protection, RouteId, RouteKind, Security,
        Surroundings, TrafficId, Treatment, VariantId,
    },
    phase::{
        backends::defaults,
        gateways::{
            filter_order::{self, ReadTooEarly},
            gateway::{Gateway, Member, transport},
            telemetry,
        },
        listeners::fleet::ListenerState,
    },
};
use edge_ir::{Http1Upstream, PortProtocol};
use smallvec::SmallVec;
use std::sync::Arc;

/// Whether a listener serves clients, by its ClientTrafficPolicy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clients {
    /// It does.
    Served,
    /// The policy isn't in force, so nobody knows whom it would let in.
    Refused,
}

/// What every route of a listener inherits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Inherited {
    /// Whether anybody is served.
    clients: Clients,
    /// What it brings to clusters.
    around: Surroundings,
    /// What extensions may do in the fleet.
    allowed: Option<Arc<Allowed>>,
    /// What is known of where its clients are.
    locations: GeoAvailability,
    /// What rules read before it is known, by the order of filters in the fleet.
    early: ReadTooEarly,
    /// The policies there, one of a kind.
    policies: SmallVec<[PolicyId; 1]>,
    /// What is decided for routes that have no policy of their own.
    decision: Decision,
}

impl Inherited {
    /// The policy of a kind there.
    pub(crate) fn policy(&self, kind: Kind) -> Option<Id> {
        let policy = self.policies.iter().find(|policy| policy.kind == kind);
        policy.map(|policy| policy.id)
    }

    /// Why a SecurityPolicy, merged into that of a parent if it merges with one, can't tell whom to let in there.
    pub(crate) fn fault_of_rules(&self, reader: &Reader<'_>, policy: Id, parent: Option<Id>) -> Option<Arc<str>> {
        let security = security::under(reader, policy, parent)?.ok()?;
        self.fault(&reader.security(security))
    }

    fn fault(&self, security: &Security) -> Option<Arc<str>> {
        let unplaced = self.locations.fault(&security.places);
        unplaced.or_else(|| security::fault_of_order(security, self.early))
    }
}

/// What a Gateway decides for all of its listeners.
#[derive(Clone, Debug)]
pub(crate) struct OfGateway {
    held: PolicyHolders,
    /// What extensions may do in the fleet.
    allowed: Option<Arc<Allowed>>,
    /// Who encrypts what goes to backends in the fleet.
    encryption: Encryption,
    /// The name under which clusters of the fleet are counted.
    stat_name: Option<Arc<str>>,
    /// What databases of the fleet tell.
    known: Known,
    /// What rules read too early in the fleet.
    early: ReadTooEarly,
}

/// Reads what a Gateway decides.
pub(crate) fn of_gateway(reader: &Reader<'_>, id: Id) -> OfGateway {
    OfGateway {
        held: attachment::held(reader, Kind::Gateway, id),
        allowed: Allowed::of(reader, id),
        encryption: match defaults::refusal(reader, id) {
            Some(_) => Encryption::Nobody,
            None => Encryption::Proxy,
        },
        stat_name: telemetry::cluster_stat_name(reader, id),
        known: geoip::known(reader, id),
        early: early(reader, id),
    }
}

fn early(reader: &Reader<'_>, gateway: Id) -> ReadTooEarly {
    match reader.gateway(gateway).map(|gateway| &**gateway) {
        Some(Gateway::Member(Member { proxy: Some(proxy), .. })) => ReadTooEarly::by(&filter_order::moves(proxy)),
        _ => ReadTooEarly::default(),
    }
}

/// What a listener brings, by the Gateway and ListenerSet that it stands in.
pub(crate) fn inherited(
    reader: &Reader<'_>,
    listener: &ListenerState,
    spec: &api::Listener,
    gateway: &OfGateway,
    set: Option<&PolicyHolders>,
) -> Inherited {
    let own = set.unwrap_or(&gateway.held);
    let policies: SmallVec<[PolicyId; 1]> = attachment::of_routes()
        .filter_map(|kind| {
            let of_own = own.part(kind, listener.id.name).or(own.whole(kind));
            let id = of_own.or(gateway.held.whole(kind))?;
            Some(PolicyId { kind, id })
        })
        .collect();
    let around = Surroundings {
        encryption: encryption(spec, gateway.encryption),
        http1: http1(listener),
        stat_name: gateway.stat_name.clone(),
    };
    let bare = Inherited {
        clients: clients(listener),
        allowed: gateway.allowed.clone(),
        locations: GeoAvailability::of(&gateway.known, listener),
        early: gateway.early,
        policies: SmallVec::new(),
        decision: Decision {
            variant: variant(reader, &around, Treatment::default()),
            ..Decision::default()
        },
        around,
    };
    let by = |kind| {
        policies
            .iter()
            .find(|policy| policy.kind == kind)
            .map(|policy| policy.id)
    };
    let decision = decide(reader, by, &bare);
    let of_listener = own.part(Kind::SecurityPolicy, listener.id.name);
    Inherited {
        decision: match spec.protocol {
            Protocol::Tcp | Protocol::Tls | Protocol::Udp => {
                let policy = of_listener.map(|policy| (policy, transport(&spec.protocol)));
                of_connections(reader, policy, decision)
            }
            _ => decision,
        },
        policies,
        ..bare
    }
}

fn clients(listener: &ListenerState) -> Clients {
    let governed = listener.governed.as_ref();
    match governed.is_some_and(|governed| governed.verdict.is_err()) {
        true => Clients::Refused,
        false => Clients::Served,
    }
}

fn encryption(spec: &api::Listener, of_fleet: Encryption) -> Encryption {
    match spec.tls.as_deref() {
        Some(tls) if spec.protocol == Protocol::Tls && tls.mode == TlsMode::Passthrough => Encryption::Client,
        _ => of_fleet,
    }
}

/// What clients of a listener send and get in HTTP/1 as it is, backends must get and send so too.
fn http1(listener: &ListenerState) -> Http1Upstream {
    let http1 = &listener.traffic.http.http1;
    match listener.protocol {
        Protocol::Http | Protocol::Https => Http1Upstream {
            trailers: http1.trailers,
            header_case: http1.header_case,
        },
        _ => Http1Upstream::default(),
    }
}

/// What a policy of traffic decides, merged into that of a parent if it merges with one.
fn treatment(reader: &Reader<'_>, policy: Id, parent: Option<Id>) -> Treatment {
    match traffic::under(reader, policy, parent) {
        Some(Ok(traffic)) => Treatment::Traffic(traffic),
        Some(Err(_)) => Treatment::Refused,
        None => Treatment::default(),
    }
}

/// What a policy of security decides. One that is there and can't be read lets nobody through.
fn protection(reader: &Reader<'_>, policy: Id, inherited: &Inherited) -> Protection {
    let parent = inherited.policy(Kind::SecurityPolicy);
    let Some(Ok(security)) = security::under(reader, policy, parent) else {
        return Protection::Refused;
    };
    match inherited.fault(&reader.security(security)) {
        None => Protection::Policy(security),
        Some(_) => Protection::Refused,
    }
}

/// What a policy of extensions decides. One that is there and can't be read lets nobody through.
fn extending(reader: &Reader<'_>, policy: Id, inherited: &Inherited) -> Extending {
    let parent = inherited.policy(Kind::EdgeExtensionPolicy);
    match extension::under(reader, policy, parent) {
        Some(draft) => draft.extending(reader, inherited.allowed.as_deref()),
        None => Extending::Refused,
    }
}

fn variant(reader: &Reader<'_>, around: &Surroundings, treatment: Treatment) -> VariantId {
    let traffic = match treatment {
        Treatment::Traffic(traffic) => traffic,
        Treatment::Refused => TrafficId::default(),
    };
    reader.variant_of(around, traffic)
}

/// What a policy for each kind decides, and what is inherited where there is none.
fn decide(reader: &Reader<'_>, by: impl Fn(Kind) -> Option<Id>, inherited: &Inherited) -> Decision {
    let mut decision = inherited.decision;
    if let Some(policy) = by(Kind::BackendTrafficPolicy) {
        decision.treatment = treatment(reader, policy, inherited.policy(Kind::BackendTrafficPolicy));
        decision.variant = variant(reader, &inherited.around, decision.treatment);
    }
    if let Some(policy) = by(Kind::SecurityPolicy) {
        decision.protection = protection(reader, policy, inherited);
    }
    if let Some(policy) = by(Kind::EdgeExtensionPolicy) {
        decision.extending = extending(reader, policy, inherited);
    }
    if inherited.clients == Clients::Refused {
        decision.treatment = Treatment::Refused;
    }
    decision
}

/// What is decided for connections that a SecurityPolicy is for by itself: one that asks for what requests alone have
/// is invalid there. A policy that they inherit may be for requests beside them.
fn of_connections(reader: &Reader<'_>, policy: Option<(Id, PortProtocol)>, decision: Decision) -> Decision {
    match policy.and_then(|(policy, transport)| security::fault_of_streams(reader, policy, transport)) {
        Some(_) => Decision {
            protection: Protection::Refused,
            ..decision
        },
        None => decision,
    }
}

/// Who holds a route and its rules, the same under every parent.
pub(crate) fn own(reader: &Reader<'_>, route: RouteId) -> PolicyHolders {
    attachment::held(reader, route.kind.kind(), route.id)
}

/// What is decided for a route of a kind at a listener.
pub(crate) fn effective(reader: &Reader<'_>, kind: RouteKind, own: &PolicyHolders, inherited: &Inherited) -> ContextId {
    let decided = |by: &dyn Fn(Kind) -> Option<Id>| {
        let decision = decide(reader, by, inherited);
        match kind {
            RouteKind::Tcp => {
                let policy = by(Kind::SecurityPolicy).map(|policy| (policy, kind.transport()));
                of_connections(reader, policy, decision)
            }
            RouteKind::Http | RouteKind::Grpc | RouteKind::Tls | RouteKind::Udp => decision,
        }
    };
    let rules = own
        .named_parts()
        .into_iter()
        .map(|rule| (rule, decided(&|kind| own.part(kind, rule).or(own.whole(kind)))));
    reader.context_id(Context {
        decision: decided(&|kind| own.whole(kind)),
        rules: rules.collect(),
    })
}
