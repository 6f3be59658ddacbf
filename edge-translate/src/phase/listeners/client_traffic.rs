//! Which ClientTrafficPolicy a listener has, and whether the listeners of a port can have what theirs say.
//!
//! A policy is for a listener, for all of a ListenerSet or for all of a Gateway; the first of these there is stands
//! alone. Listeners of a port share its socket, and plain HTTP listeners the whole connection: what their policies say
//! of that must be the same, or of a socket at least go together. Where it doesn't, the Gateway's own listeners, or
//! those of the oldest ListenerSet, have what they had by themselves, be that what is usual, so that nobody who joins a
//! port takes anything from who was there before. Among the listeners of one of these, policies of single listeners
//! yield to that of the Gateway, and to those without one; where they differ all the same, what is usual holds. A
//! listener whose policy says something else serves nothing but 500 (`policies/effective`), over connections as its
//! neighbours have them; one that says nothing is told.

use super::{client_validation::ClientTrust, finding::Finding, fleet::Candidate};
use crate::{
    api::{Kind, Protocol},
    engine::reader::Reader,
    name::Id,
    phase::policies::{
        attachment::{self, PolicyHolders},
        client::{ClientTls, ClientTraffic, Detection, Hostless, Http3},
    },
    status::Condition,
};
use edge_ir::{Accepts, ClientCertificates, Http10, ProxyHeader, SocketSettings};
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

/// Who brings a ListenerSet doesn't decide whom the Gateway wants certificates from: its owner asks for them at each
/// listener, those of others too (GEP-91).
fn keep_validation(candidate: &mut Candidate) {
    let asks = |trust: &Arc<ClientTrust>| trust.validation.certificates == ClientCertificates::Verified;
    let is_told = candidate.clients.as_ref().is_some_and(asks);
    let of_set = candidate.id.set.is_some() && breadth(candidate) == Some(Breadth::Part);
    if !is_told || !of_set || candidate.traffic.tls.clients.is_none() {
        return;
    }
    let why = "TLS: the Gateway says whose certificates clients must show (spec.tls.frontend), and clientValidation of a \
               policy for a ListenerSet can't replace that.";
    refuse(candidate, why.into());
    let mut traffic = (*candidate.traffic).clone();
    traffic.tls.clients = None;
    candidate.traffic = Arc::new(traffic);
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

    /// What is asked for here and there; none where nobody can have both.
    fn with(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Socket(one), Self::Socket(other)) => together(one, other).map(Self::Socket),
            _ => (self == other).then(|| self.clone()),
        }
    }

    /// The same, with what a listener asks for that changes nothing for those who were there before; none where it asks
    /// for more.
    fn joined_by(&self, candidate: &Candidate) -> Option<Self> {
        let asked = Self::of(candidate);
        match (self, &asked) {
            (Self::Socket(older), Self::Socket(asked)) => joined(older, asked).map(Self::Socket),
            _ => (*self == asked).then_some(asked),
        }
    }

    /// Whether a listener has all that it asks for.
    fn covers(&self, candidate: &Candidate) -> bool {
        self.joined_by(candidate).as_ref() == Some(self)
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
    share_header(sharers);
    let usual = Common::of(sharers[0]).usual();
    let holds = prevailing(sharers).unwrap_or(usual);
    refuse_others(sharers, &holds);
    sharers.iter_mut().for_each(|sharer| holds.put_into(sharer));
}

/// As many older listeners are named to who came later: with a thousand ListenerSets at a port, names would be most of
/// what is said.
const MOST_NAMED: usize = 8;

/// Refuses what policies ask for beyond what holds at their port, and tells listeners that have what they didn't ask
/// for.
fn refuse_others(sharers: &mut [&mut Candidate], holds: &Common) {
    let names: Vec<Arc<str>> = sharers.iter().map(|sharer| Arc::clone(&sharer.full_name)).collect();
    let mut older: Vec<&str> = Vec::new();
    for (i, sharer) in sharers.iter_mut().enumerate() {
        if !is_valid(sharer) {
            continue;
        }
        if holds.covers(sharer) {
            if older.len() < MOST_NAMED {
                older.push(&names[i]);
            }
            continue;
        }
        let others = names.iter().enumerate().filter(|(j, _)| *j != i);
        let others: Vec<&str> = others.map(|(_, name)| &**name).collect();
        refuse(sharer, disagreement(holds, &others.join(", ")));
        let (port, older) = (sharer.spec().port, older.join(", "));
        let told = match (breadth(sharer), sharer.id.set) {
            (None, _) => {
                format!("Listeners of port {port} share connections, which are as older ones ({older}) have them.")
            }
            // Whose ListenerSet it is doesn't see the policy of the Gateway.
            (Some(Breadth::Gateway), Some(_)) => format!(
                "Requests are answered 500: the policy of the Gateway asks for what can't be had at port {port} beside \
                 older listeners ({older})."
            ),
            _ => continue,
        };
        warn(sharer, told);
    }
}

/// Makes listeners that share no more than a socket read the same header before connections. Who says nothing of it,
/// and comes behind somebody who does, has it too.
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

/// What holds at a port: what those who were there first have by themselves, be they a Gateway's own or a
/// ListenerSet's. Of a socket that includes what is usual where they ask for nothing: whoever comes later could make
/// one millisecond of the 15 s that clients of others have for their hello. He may add what changes nothing for them,
/// and the policy of that first Gateway what its own listeners leave open.
fn prevailing(sharers: &[&mut Candidate]) -> Option<Common> {
    let mut holders: Vec<_> = sharers.iter().map(|sharer| holder(sharer)).collect();
    holders.dedup();
    let first = holders.first().map(|(gateway, _)| *gateway);
    let mut holds: Option<Common> = None;
    for one in holders {
        let own = apart(sharers, |sharer| holder(sharer) == one);
        let Some(older) = holds else {
            holds = own;
            continue;
        };
        let mut all = older;
        let younger = sharers.iter().filter(|sharer| holder(sharer) == one);
        for sharer in younger.filter(|sharer| is_valid(sharer)) {
            let is_firsts = breadth(sharer) == Some(Breadth::Gateway) && Some(sharer.id.gateway) == first;
            let joined = match is_firsts {
                true => all.with(&Common::of(sharer)),
                false => all.joined_by(sharer),
            };
            all = joined.unwrap_or(all);
        }
        holds = Some(all);
    }
    holds
}

/// What listeners of a Gateway, or of a ListenerSet, have without others: what all of them ask for together, or else
/// those who have no policy but their Gateway's; or else what is usual, where that is what one has. None where nobody
/// can have what it asks for.
fn apart(sharers: &[&mut Candidate], counts: impl Fn(&Candidate) -> bool) -> Option<Common> {
    let is_wide = |sharer: &Candidate| counts(sharer) && breadth(sharer) != Some(Breadth::Part);
    let has_usual = |sharer: &Candidate| counts(sharer) && Common::of(sharer) == Common::of(sharer).usual();
    let all = agreed(sharers, &counts);
    all.or_else(|| agreed(sharers, is_wide))
        .or_else(|| agreed(sharers, has_usual))
}

/// Who brings a listener: a Gateway, or a ListenerSet for it.
fn holder(candidate: &Candidate) -> (Id, Option<Id>) {
    (candidate.id.gateway, candidate.id.set)
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

/// What some of the listeners ask for together; none where they can't have it together, or nobody is among them. Those
/// with an invalid policy don't count.
fn agreed(sharers: &[&mut Candidate], counts: impl Fn(&Candidate) -> bool) -> Option<Common> {
    let valid = sharers.iter().filter(|sharer| is_valid(sharer) && counts(sharer));
    let mut all = valid.map(|sharer| Common::of(sharer));
    let first = all.next()?;
    all.try_fold(first, |asked, other| asked.with(&other))
}

/// Two sockets in one: each setting as that one has it which asks for it. None where both ask, and not for the same; or
/// where they differ about the header before connections, which every client of the port must send then.
fn together(one: &SocketSettings, other: &SocketSettings) -> Option<SocketSettings> {
    let mut fingerprints = [&*one.fingerprints, &*other.fingerprints].concat();
    fingerprints.sort_unstable();
    fingerprints.dedup();
    Some(SocketSettings {
        buffer_limit: either(one.buffer_limit, other.buffer_limit)?,
        system_buffer: either(one.system_buffer, other.system_buffer)?,
        accepts: either(one.accepts, other.accepts)?,
        keepalive: either(one.keepalive, other.keepalive)?,
        proxy_header: (one.proxy_header == other.proxy_header).then_some(one.proxy_header)?,
        inspection_timeout: either(one.inspection_timeout, other.inspection_timeout)?,
        fingerprints,
    })
}

/// A socket with what a younger listener asks for, if that changes nothing for others: all but fingerprints must be as
/// it is, or not asked for.
fn joined(older: &SocketSettings, asked: &SocketSettings) -> Option<SocketSettings> {
    let is_met = as_usual(asked.buffer_limit, older.buffer_limit, SocketSettings::USUAL_BUFFER)
        && as_usual(
            asked.inspection_timeout,
            older.inspection_timeout,
            SocketSettings::USUAL_INSPECTION,
        )
        && (asked.system_buffer.is_none() || asked.system_buffer == older.system_buffer)
        && (asked.accepts == Accepts::default() || asked.accepts == older.accepts)
        && (asked.keepalive.is_none() || asked.keepalive == older.keepalive)
        && asked.proxy_header == older.proxy_header;
    let asked = SocketSettings {
        fingerprints: asked.fingerprints.clone(),
        proxy_header: older.proxy_header,
        ..SocketSettings::default()
    };
    is_met.then(|| together(older, &asked)).flatten()
}

/// Whether nothing is asked for, or what there is, be it what is usual.
fn as_usual<T: PartialEq>(asked: Option<T>, older: Option<T>, usual: T) -> bool {
    asked.is_none_or(|asked| asked == older.unwrap_or(usual))
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
