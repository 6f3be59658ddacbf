//! Which ClientTrafficPolicy a listener has.
//!
//! A policy is for a listener, for all of a ListenerSet or for all of a Gateway; the first of these there is stands
//! alone. What listeners of one port can't have as their policies say is judged in [`shared_port`]. A listener whose
//! policy can't be honoured serves nothing but 500 (`policies/effective`).

use super::{client_validation::keep_validation, fleet::Candidate, shared_port};
use crate::{
    api::{Kind, Protocol},
    engine::reader::Reader,
    name::Id,
    phase::policies::{
        attachment::{self, PolicyHolders},
        client::{ClientTraffic, Detection, Hostless, Http3},
    },
};
use edge_ir::Http10;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The policy of a listener.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Governed {
    /// Which one.
    pub(crate) policy: Id,
    /// Whether the listener can have what it says; if not, why.
    pub(crate) verdict: Result<(), Arc<str>>,
    /// Whether it says where the address of a client is found.
    pub(crate) detection: Detection,
    breadth: Breadth,
}

/// For how much a policy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breadth {
    /// A listener or a ListenerSet.
    Part,
    /// All of a Gateway.
    Gateway,
}

const POLICY: Kind = Kind::ClientTrafficPolicy;

/// Finds the policy of each listener, and what is in force of it.
pub(super) fn govern(reader: &Reader<'_>, candidates: &mut [Candidate]) {
    let mut held: BTreeMap<(Kind, Id), PolicyHolders> = BTreeMap::new();
    for candidate in candidates.iter_mut() {
        let mut of = |kind, id| {
            let held = held.entry((kind, id));
            held.or_insert_with(|| attachment::held(reader, kind, id)).clone()
        };
        let gateway = of(Kind::Gateway, candidate.id.gateway);
        let own = candidate.id.set.map(|set| of(Kind::ListenerSet, set));
        let of_part = own.as_ref().unwrap_or(&gateway).part(POLICY, candidate.id.name);
        let of_part = of_part.or_else(|| own.as_ref()?.whole(POLICY));
        let found = of_part.map(|policy| (policy, Breadth::Part));
        let found = found.or_else(|| Some((gateway.whole(POLICY)?, Breadth::Gateway)));
        let Some((policy, breadth)) = found else {
            continue;
        };
        let Some(read) = reader.client_policy(policy) else {
            continue;
        };
        if let Ok(traffic) = &read.settled {
            candidate.traffic = Arc::clone(traffic);
        }
        candidate.governed = Some(Governed {
            policy,
            verdict: read.settled.as_ref().map(|_| ()).map_err(Arc::clone),
            detection: read.detection,
            breadth,
        });
    }
    withhold_http3(candidates);
    candidates.iter_mut().for_each(keep_validation);
    let mut ports: BTreeMap<u16, Vec<&mut Candidate>> = BTreeMap::new();
    for candidate in candidates.iter_mut() {
        if candidate.is_sound() && candidate.spec().protocol != Protocol::Udp {
            ports.entry(candidate.spec().port).or_default().push(candidate);
        }
    }
    ports.into_values().for_each(|mut sharers| {
        shared_port::agree(&mut sharers);
        name_host(&mut sharers);
    });
}

/// HTTP/3 can't have a port whose datagrams are for a listener of UDP.
fn withhold_http3(candidates: &mut [Candidate]) {
    let is_taken = |candidate: &&Candidate| candidate.is_sound() && candidate.spec().protocol == Protocol::Udp;
    let taken: BTreeSet<u16> = candidates.iter().filter(is_taken).map(|c| c.spec().port).collect();
    let asks = |candidate: &&mut Candidate| {
        let spec = candidate.spec();
        candidate.traffic.http3 == Http3::Offered && spec.protocol == Protocol::Https && taken.contains(&spec.port)
    };
    for candidate in candidates.iter_mut().filter(asks) {
        let port = candidate.spec().port;
        refuse(
            candidate,
            format!("HTTP3: datagrams of port {port} are for a listener of UDP.").into(),
        );
        candidate.traffic = Arc::new(ClientTraffic {
            http3: Http3::Off,
            ..(*candidate.traffic).clone()
        });
    }
}

/// Whether a listener can have what its policy says, or has none.
pub(super) fn is_valid(candidate: &Candidate) -> bool {
    candidate
        .governed
        .as_ref()
        .is_none_or(|governed| governed.verdict.is_ok())
}

/// For how much the policy of a listener is.
pub(super) fn breadth(candidate: &Candidate) -> Option<Breadth> {
    candidate.governed.as_ref().map(|governed| governed.breadth)
}

/// A listener can't have what its policy says.
pub(super) fn refuse(candidate: &mut Candidate, why: Arc<str>) {
    if let Some(governed) = candidate.governed.as_mut().filter(|governed| governed.verdict.is_ok()) {
        governed.verdict = Err(why);
    }
}

/// Names the host that requests of HTTP/1.0 without Host are for.
fn name_host(sharers: &mut [&mut Candidate]) {
    let hosts: Vec<Arc<str>> = sharers.iter().map(|sharer| Arc::clone(&sharer.hostname)).collect();
    let is_plain = |sharer: &Candidate| sharer.spec().protocol == Protocol::Http;
    for (i, sharer) in sharers.iter_mut().enumerate() {
        if sharer.traffic.hostless == Hostless::Nobody {
            continue;
        }
        // Plain listeners share the connection on which such a request comes.
        let own = if is_plain(sharer) { &hosts[..] } else { &hosts[i..=i] };
        let mut concrete = own.iter().filter(|host| !host.starts_with('*'));
        let mut traffic = (*sharer.traffic).clone();
        let mut http = (*traffic.http).clone();
        let named = match (concrete.next(), concrete.next()) {
            (Some(host), None) => Ok(Arc::clone(host)),
            (None, _) => Err("HTTP1: cannot set http10 default host on listener with only wildcard hostnames.".into()),
            (Some(one), Some(other)) => Err(format!(
                "HTTP1: cannot set http10 default host on a port whose listeners have several, such as {one} and \
                 {other}."
            )),
        };
        http.http1.http10 = match named {
            Ok(host) => Http10::TakenFor(host),
            Err(why) => {
                refuse(sharer, why.into());
                Http10::Refused
            }
        };
        traffic.http = Arc::new(http);
        sharer.traffic = Arc::new(traffic);
    }
}
