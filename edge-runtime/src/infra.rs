//! Infrastructure: whatever must exist so that a fleet's proxies run, and what is known about it.
//!
//! A kind of infrastructure is a task that follows the published state and brings the world in line with its `infra`
//! part; what it found out leaves as [`Reports`](crate::state::Reports), which the statuses of Gateways are made from. Processes of this
//! machine are in [`host`]; objects of a cluster in [`crate::cluster_infra`], which needs
//! the API server's clients and so stands above the configuration.

pub mod host;
