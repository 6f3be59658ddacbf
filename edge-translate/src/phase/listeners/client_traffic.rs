//! Which ClientTrafficPolicy a listener has, and whether the listeners of a port can have what theirs say.
//!
//! A policy is for a listener, for all of a ListenerSet or for all of a Gateway; the first of these there is stands
//! alone. Listeners of a port share its socket, and plain HTTP listeners the whole connection: what their policies say
//! of that must be the same. Where it isn't, the policies of single listeners and ListenerSets yield to what those of
//! their Gateway, and its listeners without one, have in common; or else all yield to the Gateway's own listeners, or to
//! the oldest ListenerSet, so that nobody who joins a port takes anything from who was there before. Where these differ
//! among themselves, what is usual holds. A listener whose policy says something else serves nothing but 500
//! (`policies/effective`), over connections as its neighbours have them; one that says nothing is told.

use super::{finding::Finding, fleet::Candidate};
use crate::{
    api::{Kind, Protocol},
    engine::reader::Reader,
    name::Id,
    phase::policies::{
        attachment::{self, Held},
        client::{ClientTls, ClientTraffic, Detection, Hostless, Http3},
    },
    status::Condition,
};
use edge_ir::{Http10, ProxyHeader, SocketSettings};
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
enum Breadth {
    /// A listener or a ListenerSet.
    Part,
    /// All of a Gateway.
    Gateway,
}

const POLICY: Kind = Kind::ClientTrafficPolicy;

/// Finds the policy of each listener, and what is in force of it.
pub(super) fn govern(reader: &Reader<'_>, candidates: &mut [Candidate]) {
    let mut held: BTreeMap<(Kind, Id), Held> = BTreeMap::new();
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
    let mut ports: BTreeMap<u16, Vec<&mut Candidate>> = BTreeMap::new();
    for candidate in candidates.iter_mut() {
        if candidate.is_sound() && candidate.spec().protocol != Protocol::Udp {
            ports.entry(candidate.spec().port).or_default().push(candidate);
        }
    }
    ports.into_values().for_each(|mut sharers| {
        agree(&mut sharers);
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

/// What the listeners of a port must have in common.
#[derive(Clone, PartialEq)]
enum Common {
    /// The socket.
    Socket(SocketSettings),
    /// All but TLS.
    Connection(Arc<ClientTraffic>),
}

impl Common {
    fn of(candidate: &Candidate) -> Self {
        let traffic = &candidate.traffic;
        match candidate.spec().protocol {
            Protocol::Http => Self::Connection(Arc::new(ClientTraffic {
                tls: ClientTls::default(),
                ..(**traffic).clone()
            })),
            _ => Self::Socket(traffic.socket.clone()),
        }
    }

    fn put_into(&self, candidate: &mut Candidate) {
        match self {
            Self::Connection(traffic) => candidate.traffic = Arc::clone(traffic),
            Self::Socket(socket) if candidate.traffic.socket == *socket => {}
            Self::Socket(socket) => {
                candidate.traffic = Arc::new(ClientTraffic {
                    socket: socket.clone(),
                    ..(*candidate.traffic).clone()
                });
            }
        }
    }

    /// The same where nobody asks for anything.
    fn usual(&self) -> Self {
        match self {
            Self::Socket(_) => Self::Socket(SocketSettings::default()),
            Self::Connection(_) => Self::Connection(Arc::default()),
        }
    }
}

/// Makes the listeners of a port have the same where they must.
fn agree(sharers: &mut [&mut Candidate]) {
    // What nearly every port has: one listener, or several that nobody says anything about.
    if sharers.len() < 2 || sharers.iter().all(|sharer| sharer.governed.is_none()) {
        return;
    }
    let kinds = Common::of(sharers[0]);
    if let Some(common) = common(sharers, |_| true) {
        return sharers.iter_mut().for_each(|sharer| common.put_into(sharer));
    }
    share_header(sharers);
    if let Some(socket) = together(sharers, |_| true) {
        let common = Common::Socket(socket);
        return sharers.iter_mut().for_each(|sharer| common.put_into(sharer));
    }
    let holds = prevailing(sharers).unwrap_or_else(|| kinds.usual());
    let names: Vec<Arc<str>> = sharers.iter().map(|sharer| Arc::clone(&sharer.full_name)).collect();
    let have_it = sharers.iter().filter(|sharer| Common::of(sharer) == holds);
    let have_it: Vec<&str> = have_it.map(|sharer| &*sharer.full_name).collect();
    let have_it = have_it.join(", ");
    for (i, sharer) in sharers.iter_mut().enumerate() {
        if Common::of(sharer) != holds {
            let others = names.iter().enumerate().filter(|(j, _)| *j != i);
            let others: Vec<&str> = others.map(|(_, name)| &**name).collect();
            refuse(sharer, disagreement(&kinds, &others.join(", ")));
            if let (Common::Connection(_), None) = (&kinds, &sharer.governed) {
                let port = sharer.spec().port;
                warn(
                    sharer,
                    format!(
                        "Listeners of port {port} share connections, which are as older ones ({have_it}) have them."
                    ),
                );
            }
        }
    }
    sharers.iter_mut().for_each(|sharer| holds.put_into(sharer));
}

/// Makes listeners that share no more than a socket read the same header before connections. Who says nothing of it, and
/// comes behind somebody who does, has it too.
fn share_header(sharers: &mut [&mut Candidate]) {
    let read = sharers.iter().filter(|sharer| is_valid(sharer));
    let mut read = read.map(|sharer| sharer.traffic.socket.proxy_header);
    let first = read.next();
    if read.all(|other| Some(other) == first) {
        return;
    }
    let Some(Common::Socket(SocketSettings { proxy_header, .. })) = prevailing(sharers) else {
        return;
    };
    for sharer in sharers.iter_mut() {
        let own = sharer.traffic.socket.proxy_header;
        if own == proxy_header || own != ProxyHeader::Unread || !is_valid(sharer) {
            continue;
        }
        let mut traffic = (*sharer.traffic).clone();
        traffic.socket.proxy_header = proxy_header;
        sharer.traffic = Arc::new(traffic);
        let what = match proxy_header {
            ProxyHeader::Required => "must begin with",
            ProxyHeader::Optional | ProxyHeader::Unread => "may begin with",
        };
        let port = sharer.spec().port;
        warn(
            sharer,
            format!(
                "Connections {what} a PROXY header: the policy of an older listener asks for it, and the listeners of \
                 port {port} share its socket."
            ),
        );
    }
}

/// Tells a listener what it has without asking for it.
fn warn(candidate: &mut Candidate, why: String) {
    let told = Condition::yes("Warning", "SharedPort", why);
    candidate.findings.push(Finding::warning(told));
}

/// What holds where listeners say different things: what policies of the oldest Gateway, and its listeners without one,
/// have in common, or else its own listeners, or those of the oldest ListenerSet. None where these don't agree either.
fn prevailing(sharers: &[&mut Candidate]) -> Option<Common> {
    let first = sharers.iter().find(|sharer| is_valid(sharer))?.id;
    let of_gateway = |sharer: &Candidate| {
        let is_wide = match breadth(sharer) {
            Some(breadth) => breadth == Breadth::Gateway,
            None => sharer.id.set.is_none(),
        };
        is_wide && sharer.id.gateway == first.gateway
    };
    let of_holder = |sharer: &Candidate| (sharer.id.gateway, sharer.id.set) == (first.gateway, first.set);
    let agreed = |counts: &dyn Fn(&Candidate) -> bool| {
        common(sharers, counts).or_else(|| together(sharers, counts).map(Common::Socket))
    };
    agreed(&of_gateway).or_else(|| agreed(&of_holder))
}

fn is_valid(candidate: &Candidate) -> bool {
    candidate
        .governed
        .as_ref()
        .is_none_or(|governed| governed.verdict.is_ok())
}

fn breadth(candidate: &Candidate) -> Option<Breadth> {
    candidate.governed.as_ref().map(|governed| governed.breadth)
}

/// What some of the listeners have in common; none where that isn't the same for all of them, or nobody is among them.
/// Those with an invalid policy don't count.
fn common(sharers: &[&mut Candidate], counts: impl Fn(&Candidate) -> bool) -> Option<Common> {
    let mut all = sharers
        .iter()
        .filter(|sharer| is_valid(sharer))
        .filter(|sharer| counts(sharer))
        .map(|sharer| Common::of(sharer));
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

/// What some of the listeners with valid policies ask of their socket together: each setting as those have it that ask for one. None
/// where two ask for different ones, or where they differ about the header before connections, which every client of the
/// port must send then.
fn together(sharers: &[&mut Candidate], counts: impl Fn(&Candidate) -> bool) -> Option<SocketSettings> {
    let valid = sharers.iter().filter(|sharer| is_valid(sharer) && counts(sharer));
    let mut all = valid.map(|sharer| Common::of(sharer));
    let Common::Socket(mut joined) = all.next()? else {
        return None;
    };
    for other in all {
        let Common::Socket(other) = other else { return None };
        let mut fingerprints = [joined.fingerprints, other.fingerprints].concat();
        fingerprints.sort_unstable();
        fingerprints.dedup();
        joined = SocketSettings {
            buffer_limit: either(joined.buffer_limit, other.buffer_limit)?,
            system_buffer: either(joined.system_buffer, other.system_buffer)?,
            accepts: either(joined.accepts, other.accepts)?,
            keepalive: either(joined.keepalive, other.keepalive)?,
            proxy_header: (joined.proxy_header == other.proxy_header).then_some(joined.proxy_header)?,
            inspection_timeout: either(joined.inspection_timeout, other.inspection_timeout)?,
            fingerprints,
        };
    }
    Some(joined)
}

/// The one of two that says something; none where both do, and not the same.
fn either<T: Default + PartialEq>(one: T, other: T) -> Option<T> {
    match (one == T::default(), other == T::default()) {
        (true, _) => Some(other),
        (false, true) => Some(one),
        (false, false) => (one == other).then_some(one),
    }
}

fn disagreement(common: &Common, others: &str) -> Arc<str> {
    let message = match common {
        Common::Connection(_) => format!(
            "ClientTrafficPolicy is being applied to multiple http (non https) listeners ({others}) on the same port, \
             which is not allowed."
        ),
        Common::Socket(_) => {
            format!("Connection: listeners of a port share its socket, of which others ({others}) have other settings.")
        }
    };
    message.into()
}

fn refuse(candidate: &mut Candidate, why: Arc<str>) {
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
