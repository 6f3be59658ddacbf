//! The API server of a cluster: clients, what its faults mean, and which replica may write.
//!
//! What is read from it is [`crate::provider::cluster`]'s, statuses are [`crate::status`]'s, fleets
//! [`crate::cluster_infra`]'s.

pub mod client;
pub mod discovery;
pub mod election;
pub mod fault;
pub mod terms;
mod throttle;
pub mod watching;

pub use client::Api;
pub use discovery::Served;

/// The field manager of everything that we write.
pub const FIELD_MANAGER: &str = "edge-gateway";
