//! What tasks tell each other: the ground floor, which every other module may stand on and which knows none of them.
//!
//! Plain data only. What it stands on itself, such as ports of the machine, knows of no task. Where only the latest
//! value matters, it travels in a watch channel ([`Published`], [`Reports`], [`Rejections`], [`Deliveries`],
//! [`Findings`]); where every value matters, in a bounded queue ([`Input`]); where it is the latest of each object, in
//! a [`Ledger`].

pub use board::News;
pub use mirror::{Finalizers, Malformed, Mirror, ObservedStatus, Sight};

use crate::machine_ports::OwnProxies;
use edge_ir::{FleetKey, Infra, Origins};
use edge_translate::{
    Change, Fact, Home, Question, Settings,
    api::{Object, ObjectKey, SecretData},
    config::extension::ExtensionManager,
    load::LoadFinding,
    status::Status,
};
use edge_xds::{
    hooks::{Outcome, PendingQuestion, QuestionKey},
    limits::Resources,
    snapshot::{ResourceType, Snapshot},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use tokio::{sync::oneshot, time::Instant};

mod board;
mod mirror;
#[cfg(test)]
pub(crate) mod sample;

use board::Board;

/// What the world is told.
#[derive(Debug)]
pub enum Input {
    /// Resources changed.
    Batch(Batch),
    /// A provider has told what there is. Nothing is published before all have.
    Synced(ProviderName, Coverage),
    /// The controller's configuration changed.
    Settings(Box<Settings>),
    /// Somebody wants all objects that are in force, sent here.
    ListObjects(oneshot::Sender<BTreeMap<ObjectKey, Object>>),
    /// Proxies are run on this machine from now on, or no longer.
    Proxies(Option<OwnProxies>),
    /// What was found out about the outside.
    Facts(Vec<Fact>),
    /// What came of questions to extension services, with their numbers.
    Answers(Vec<(QuestionKey, u64, Outcome)>),
}

/// What extension services are asked, and which there are.
#[derive(Clone, Debug, Default)]
pub struct Extensions {
    /// The services, in the order in which they are called.
    pub services: Arc<[ServiceTerms]>,
    /// What is asked.
    pub questions: BTreeMap<QuestionKey, PendingQuestion>,
}

/// An extension service, with what Secrets say of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceTerms {
    /// As it is configured.
    pub manager: ExtensionManager,
    /// By what it is known and we are, if it is spoken with over TLS; or why that isn't known.
    pub tls: Option<Result<ServiceTls, String>>,
}

/// By what an extension service is known, and we by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceTls {
    /// Certificates (PEM) of those who vouch for it.
    pub authorities: SecretData,
    /// Our certificate and its key (PEM).
    pub identity: Option<(SecretData, SecretData)>,
}

/// What translation wants fetched, documents and modules. What was no longer asked for in between has another number,
/// so that it is told again.
pub type FetchNumbers = BTreeMap<Question, u64>;

/// Which provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProviderName(pub &'static str);

/// Whether what a provider has told is all that there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coverage {
    /// What it hasn't told isn't there.
    #[default]
    Whole,
    /// Something can't be read: nobody knows what would be there.
    Partial,
}

/// What a provider tells the world.
#[derive(Debug)]
pub struct Batch {
    /// What changed.
    pub changes: Vec<Change>,
    /// Where objects are written that came, went or moved, if the provider knows that.
    pub places: Vec<(ObjectKey, Option<SourceLocation>)>,
    /// When the first event behind it was seen.
    pub since: Instant,
}

/// Where an object is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file.
    pub file: Arc<str>,
    /// The line on which it begins, from 1.
    pub line: usize,
}

/// The state that everyone else works from.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// All fleets.
    pub fleets: BTreeMap<FleetKey, FleetState>,
    /// Whether a fleet that isn't among them isn't wanted.
    pub coverage: Coverage,
    /// What the service of global rate limits is told, if there shall be one.
    pub limits: Arc<Resources>,
    /// When the first event behind the latest change was seen.
    pub since: Option<Instant>,
}

/// One fleet.
#[derive(Clone, Debug)]
pub struct FleetState {
    /// What its proxies are served.
    pub snapshot: Arc<Snapshot>,
    /// What must exist around it; `None`: what is asked for can't be used, so what runs stays as it is.
    pub infra: Option<Arc<Infra>>,
    /// The latest that could be used: its proxies have the account that this names.
    pub last_infra: Option<Arc<Infra>>,
    /// Where its objects are by rule, while that isn't known either.
    pub home: Option<Home>,
    /// Fleets that its Gateways may have instead, while nobody can tell.
    pub alternatives: Vec<FleetKey>,
}

/// What is known about every fleet's infrastructure.
pub type Reports = BTreeMap<FleetKey, Report>;

/// What is known about one fleet's infrastructure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether its proxies run.
    pub availability: Availability,
    /// Proxies that are wanted.
    pub replicas: u32,
    /// Why those that run can't be replaced by such as are wanted now, where that is known.
    pub stuck: Option<Arc<str>>,
    /// Where clients reach it, unless by addresses that were asked for.
    pub addresses: Vec<Address>,
    /// What has become of the addresses that its Gateways ask for: several may share it, and ask for different ones.
    pub asked: AskedAddresses,
}

/// What has become of the addresses that the Gateways of a fleet ask for, by how they are asked for. One that is
/// neither given nor missing: nothing is known of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedAddresses {
    /// Those that it has.
    pub given: BTreeMap<Arc<str>, IpAddr>,
    /// Those that it hasn't, in words.
    pub missing: BTreeMap<Arc<str>, Arc<str>>,
    /// Why that is so, where it is known of all of them.
    pub refusal: Option<Arc<str>>,
}

impl AskedAddresses {
    /// What there is to say of one Gateway: addresses that it asks for and doesn't get, with the reason where that is
    /// known.
    pub fn unusable(&self, by_gateway: &[Arc<str>]) -> Option<String> {
        let missing: BTreeMap<_, _> = by_gateway
            .iter()
            .filter_map(|asked| self.missing.get_key_value(asked))
            .collect();
        if missing.is_empty() {
            return None;
        }
        let join = |list: Vec<&str>| list.join(", ");
        Some(match &self.refusal {
            Some(why) => format!("{}: {why}", join(missing.keys().map(|asked| &***asked).collect())),
            None => join(missing.values().map(|words| &***words).collect()),
        })
    }
}

/// Where the proxies that are processes of this machine answer about themselves: for the pages, and no part of what
/// statuses are made from.
pub type AdminAddresses = BTreeMap<FleetKey, SocketAddr>;

/// Where clients reach a fleet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// By number.
    Ip(IpAddr),
    /// By name, as load balancers of some clouds are.
    Hostname(Arc<str>),
}

/// Whether a fleet's proxies run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Nothing has gone wrong, nothing is ready yet.
    Starting,
    /// So many proxies are ready.
    Available(u32),
    /// No proxy is ready, and why.
    Unavailable(Arc<str>),
    /// What is wanted can't be made, and why; what was there before goes on.
    Failed(Arc<str>),
}

/// Whether this replica may write to the cluster. Every replica serves proxies; statuses and infrastructure are written
/// by the leader alone, which stops at once when it isn't any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leadership {
    /// Another one writes, or nobody yet.
    #[default]
    Following,
    /// This one writes.
    Leading,
}

/// What proxies have rejected and not yet been given a better version of.
pub type Rejections = BTreeMap<RejectionKey, Rejection>;

/// One resource, or part of one, and who doesn't take it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RejectionKey {
    /// From whom it is kept back.
    pub from: KeptFrom,
    /// Kind of the resource.
    pub kind: ResourceType,
    /// Its name.
    pub name: Arc<str>,
}

/// Who goes without what was rejected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeptFrom {
    /// The proxy at the other end of this stream.
    Stream(u64),
    /// Every proxy of this fleet; the number tells parts of one resource apart.
    Fleet(FleetKey, usize),
    /// Proxies that are connected to this other replica; the number tells what they refuse apart.
    Elsewhere(Arc<str>, usize),
    /// Every proxy of this fleet, because an extension service fails over it; the number tells such apart.
    Extension(FleetKey, usize),
}

/// Who rejects something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Refuser {
    /// Proxies.
    #[default]
    DataPlane,
    /// An extension service, or nobody: it doesn't answer.
    Extension,
}

/// Why a resource was rejected, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The fleet.
    pub fleet: FleetKey,
    /// Who rejects it.
    pub by: Refuser,
    /// What is wrong with it: the proxy's words, cut to what a user can use.
    pub reason: Arc<str>,
    /// The objects that it came from, and those that refer to it.
    pub origins: Origins,
}

/// What connected proxies serve. A proxy is among them once it has answered to all listeners that there were for it.
pub type Deliveries = BTreeMap<Connection, Delivery>;

/// Where proxies are connected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Connection {
    /// A proxy at the other end of this stream.
    Here(u64),
    /// All of a fleet that are connected to this other replica; the number tells fleets apart.
    Elsewhere(Arc<str>, usize),
}

/// What one proxy serves, or all of a fleet at another replica do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The fleet that it is of.
    pub fleet: FleetKey,
    /// Its sockets by name, and whose listeners they are in the version that it has taken last; of proxies elsewhere,
    /// whose listeners all of them serve, under one name.
    pub listeners: BTreeMap<Arc<str>, Origins>,
}

/// Everything wrong or odd with the files, as of the last look.
pub type Findings = Arc<Vec<LoadFinding>>;

/// Statuses that differ from the last translation.
pub type StatusChanges = Vec<(ObjectKey, Option<Arc<Status>>)>;

/// What translation says about each object, for whoever writes statuses.
#[derive(Debug, Default)]
pub struct Ledger(Board<Entries>);

/// What stands in a [`Ledger`].
#[derive(Debug, Default)]
pub struct Entries {
    statuses: BTreeMap<ObjectKey, Arc<Status>>,
    places: BTreeMap<ObjectKey, SourceLocation>,
}

impl Ledger {
    /// Takes note of where objects are written. Nothing to write follows from that alone.
    pub fn locate(&self, places: Vec<(ObjectKey, Option<SourceLocation>)>) {
        self.0.change(|entries, _| {
            for (key, place) in places {
                match place {
                    Some(place) => drop(entries.places.insert(key, place)),
                    None => drop(entries.places.remove(&key)),
                }
            }
        });
    }

    /// Takes note of statuses that changed.
    pub fn put(&self, changes: StatusChanges) {
        self.0.change(|entries, untaken| {
            for (key, status) in changes {
                match status {
                    Some(status) => drop(entries.statuses.insert(key.clone(), status)),
                    None => drop(entries.statuses.remove(&key)),
                }
                untaken.insert(key);
            }
        });
    }

    /// What changed since the last call: each object once, with its latest status.
    pub fn take(&self) -> StatusChanges {
        self.0.take(|entries, untaken| {
            let latest = untaken.into_iter().map(|key| {
                let status = entries.statuses.get(&key).cloned();
                (key, status)
            });
            latest.collect()
        })
    }

    /// The next [`take`](Self::take) gives everything: for a writer that begins.
    pub fn begin(&self) {
        self.0.begin(|entries| entries.statuses.keys().cloned().collect());
    }

    /// Where an object is written.
    pub fn place(&self, key: &ObjectKey) -> Option<SourceLocation> {
        self.0.read(|entries| entries.places.get(key).cloned())
    }

    /// Tells when there is something to take.
    pub fn news(&self) -> News<Entries> {
        self.0.news()
    }
}
