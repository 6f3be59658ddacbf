//! The API server of a cluster: clients, what its faults mean, and which replica may write.
//!
//! What is read from it is [`crate::provider::cluster`]'s, statuses are [`crate::status`]'s, fleets
//! [`crate::cluster_infra`]'s.

mod bounded;
pub mod client;
pub mod discovery;
pub mod election;
pub mod fault;
pub(crate) mod objects;
pub mod terms;
mod throttle;
pub mod watching;

pub use client::Api;
pub use discovery::{ReadKind, Served, Unreadable};

use edge_ir::label;

/// Labels by which everything is known that we make: objects of fleets, and of the service of rate limits.
pub const OWN_LABELS: [(&str, &str); 1] = [(label::MANAGED_BY, "edge-gateway")];

/// Labels by which the objects and pods of every fleet of ours are known.
pub const PROXY_LABELS: [(&str, &str); 2] = [(label::MANAGED_BY, "edge-gateway"), (label::COMPONENT, "proxy")];

/// The name of this replica: its pod's.
pub fn replica_name() -> Option<String> {
    ["EDGE_POD_NAME", "HOSTNAME"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok())
}

/// The field manager of everything that we write.
pub const FIELD_MANAGER: &str = "edge-gateway";
