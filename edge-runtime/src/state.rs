//! What tasks tell each other: the ground floor, which every other module may stand on and which knows none of them.
//!
//! Plain data only. What the latest of matters travels in watch channels ([`Published`], [`Reports`], [`Rejections`],
//! [`Findings`]), what each of matters in bounded queues ([`Input`], [`StatusMessage`]).

use edge_ir::{FleetKey, Infra, Origins};
use edge_translate::{Change, Settings, api::ObjectKey, load::LoadFinding, status::Status};
use edge_xds::snapshot::{ResourceType, Snapshot};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use tokio::{sync::oneshot, time::Instant};

/// What the world is told.
#[derive(Debug)]
pub enum Input {
    /// Resources changed.
    Batch(Batch),
    /// A provider has told everything that was there when it began. Nothing is published before all have.
    Synced(ProviderName),
    /// The controller's configuration changed.
    Settings(Box<Settings>),
}

/// Which provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProviderName(pub &'static str);

/// What a provider tells the world.
#[derive(Debug)]
pub struct Batch {
    /// What changed.
    pub changes: Vec<Change>,
    /// When the first event behind it was seen.
    pub since: Instant,
}

/// The state that everyone else works from.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// All fleets.
    pub fleets: BTreeMap<FleetKey, FleetState>,
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
    /// Where clients reach it.
    pub addresses: Vec<Address>,
    /// The admin interface of its proxy, if it is a process of this machine.
    pub admin: Option<SocketAddr>,
}

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
}

/// Why a resource was rejected, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The fleet.
    pub fleet: FleetKey,
    /// What is wrong with it: the proxy's words, cut to what a user can use.
    pub reason: Arc<str>,
    /// The objects that it came from, and those that refer to it.
    pub origins: Origins,
}

/// Everything wrong or odd with the files, as of the last look.
pub type Findings = Arc<Vec<LoadFinding>>;

/// Statuses that differ from the last translation.
pub type StatusChanges = Vec<(ObjectKey, Option<Arc<Status>>)>;

/// What the status task is sent.
#[derive(Debug)]
pub enum StatusMessage {
    /// Statuses of a new translation.
    Statuses(StatusChanges),
    /// Somebody wants to read the document as it is now.
    Read(oneshot::Sender<Value>),
}
