//! Infrastructure: whatever must exist so that a fleet's proxies run, and what is known about it.
//!
//! A kind of infrastructure is a task that follows the published state and brings the world in line with its `infra`
//! part; what it found out leaves as [`Reports`], which the statuses of Gateways are made from. Processes of this
//! machine are in [`host`]; cluster objects are another module of the same shape.

use edge_ir::FleetKey;
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

pub mod host;

/// What is known about every fleet's infrastructure. Published through a watch channel: the latest state is what counts.
pub type Reports = BTreeMap<FleetKey, Report>;

/// What is known about one fleet's infrastructure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether its proxies run.
    pub availability: Availability,
    /// Proxies that are wanted.
    pub replicas: u32,
    /// Where clients reach it.
    pub addresses: Vec<Arc<str>>,
    /// The admin interface of its proxy, if it is a process of this machine.
    pub admin: Option<SocketAddr>,
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
