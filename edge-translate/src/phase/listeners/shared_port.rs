//! What the listeners of one port have together.
//!
//! They share its socket, and plain HTTP listeners the whole connection: what their policies say of that must be the
//! same, or of a socket at least go together. Nobody who joins a port takes anything from who was there before:
//!
//! | who | may ask for | what holds |
//! |---|---|---|
//! | who was there first: the Gateway's own listeners, or those of the oldest ListenerSet | anything | the union of what they ask for; where they can't have it together, that of those whose policy is the Gateway's or who have none; else what is usual, where one of them has that |
//! | the first Gateway's policy, at listeners of ListenerSets | what its own listeners leave open | the union of both |
//! | who came later | what is compatible: it changes nothing for those before, such as fingerprints | what held before, with that |
//!
//! Of a socket that includes what is usual where those before ask for nothing: whoever comes later could make one
//! millisecond of the 15 s that clients of others have for their hello. Whoever asks for more serves nothing but 500,
//! over connections as the neighbours have them; listeners that ask for nothing are told what they have.

use super::{
    client_traffic::{Breadth, breadth, is_valid, refuse},
    finding::Finding,
    fleet::Candidate,
};
use crate::{
    api::Protocol,
    name::Id,
    phase::policies::client::{ClientTls, ClientTraffic},
    status::Condition,
};
use edge_ir::{Accepts, ProxyHeader, SocketSettings};
use std::sync::Arc;

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
    fn union(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Socket(one), Self::Socket(other)) => union_of_sockets(one, other).map(Self::Socket),
            _ => (self == other).then(|| self.clone()),
        }
    }

    /// The same, with what a listener asks for that changes nothing for those who were there before; none where it asks
    /// for more.
    fn compatible(&self, candidate: &Candidate) -> Option<Self> {
        let asked = Self::of(candidate);
        match (self, &asked) {
            (Self::Socket(older), Self::Socket(asked)) => compatible_socket(older, asked).map(Self::Socket),
            _ => (*self == asked).then_some(asked),
        }
    }

    /// Whether a listener has all that it asks for.
    fn covers(&self, candidate: &Candidate) -> bool {
        self.compatible(candidate).as_ref() == Some(self)
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
pub(super) fn agree(sharers: &mut [&mut Candidate]) {
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

/// What holds at a port, as the table above says.
fn prevailing(sharers: &[&mut Candidate]) -> Option<Common> {
    let mut holders: Vec<_> = sharers.iter().map(|sharer| holder(sharer)).collect();
    holders.dedup();
    let first = holders.first().map(|(gateway, _)| *gateway);
    let mut holds: Option<Common> = None;
    for one in holders {
        let own = without_others(sharers, |sharer| holder(sharer) == one);
        let Some(older) = holds else {
            holds = own;
            continue;
        };
        let mut all = older;
        let younger = sharers.iter().filter(|sharer| holder(sharer) == one);
        for sharer in younger.filter(|sharer| is_valid(sharer)) {
            let is_firsts = breadth(sharer) == Some(Breadth::Gateway) && Some(sharer.id.gateway) == first;
            let more = match is_firsts {
                true => all.union(&Common::of(sharer)),
                false => all.compatible(sharer),
            };
            all = more.unwrap_or(all);
        }
        holds = Some(all);
    }
    holds
}

/// What listeners of a Gateway, or of a ListenerSet, have without others: what all of them ask for together, or else
/// those who have no policy but their Gateway's; or else what is usual, where that is what one has. None where nobody
/// can have what it asks for.
fn without_others(sharers: &[&mut Candidate], counts: impl Fn(&Candidate) -> bool) -> Option<Common> {
    let is_wide = |sharer: &Candidate| counts(sharer) && breadth(sharer) != Some(Breadth::Part);
    let has_usual = |sharer: &Candidate| counts(sharer) && Common::of(sharer) == Common::of(sharer).usual();
    let all = union_of(sharers, &counts);
    all.or_else(|| union_of(sharers, is_wide))
        .or_else(|| union_of(sharers, has_usual))
}

/// Who brings a listener: a Gateway, or a ListenerSet for it.
fn holder(candidate: &Candidate) -> (Id, Option<Id>) {
    (candidate.id.gateway, candidate.id.set)
}

/// What some of the listeners ask for together; none where they can't have it together, or nobody is among them. Those
/// with an invalid policy don't count.
fn union_of(sharers: &[&mut Candidate], counts: impl Fn(&Candidate) -> bool) -> Option<Common> {
    let valid = sharers.iter().filter(|sharer| is_valid(sharer) && counts(sharer));
    let mut all = valid.map(|sharer| Common::of(sharer));
    let first = all.next()?;
    all.try_fold(first, |asked, other| asked.union(&other))
}

/// Two sockets in one: each setting as that one has it which asks for it. None where both ask, and not for the same; or
/// where they differ about the header before connections, which every client of the port must send then.
fn union_of_sockets(one: &SocketSettings, other: &SocketSettings) -> Option<SocketSettings> {
    let mut fingerprints = [&*one.fingerprints, &*other.fingerprints].concat();
    fingerprints.sort_unstable();
    fingerprints.dedup();
    Some(SocketSettings {
        buffer_limit: union_of_values(one.buffer_limit, other.buffer_limit)?,
        system_buffer: union_of_values(one.system_buffer, other.system_buffer)?,
        accepts: union_of_values(one.accepts, other.accepts)?,
        keepalive: union_of_values(one.keepalive, other.keepalive)?,
        proxy_header: (one.proxy_header == other.proxy_header).then_some(one.proxy_header)?,
        inspection_timeout: union_of_values(one.inspection_timeout, other.inspection_timeout)?,
        fingerprints,
    })
}

/// A socket with what a younger listener asks for, if that changes nothing for others: all but fingerprints must be as
/// it is, or not asked for.
fn compatible_socket(older: &SocketSettings, asked: &SocketSettings) -> Option<SocketSettings> {
    let is_unchanged = is_met(asked.buffer_limit, older.buffer_limit, SocketSettings::USUAL_BUFFER)
        && is_met(
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
    is_unchanged.then(|| union_of_sockets(older, &asked)).flatten()
}

/// Whether nothing is asked for, or what there is, be it what is usual.
fn is_met<T: PartialEq>(asked: Option<T>, older: Option<T>, usual: T) -> bool {
    asked.is_none_or(|asked| asked == older.unwrap_or(usual))
}

/// The one of two that says something; none where both do, and not the same.
fn union_of_values<T: Default + PartialEq>(one: T, other: T) -> Option<T> {
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
