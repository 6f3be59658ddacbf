//! The controller: I/O around the translation.
//!
//! ```text
//! provider ── batches ──▶ world ── Published ──▶ xds_server ──▶ proxies
//!                           │          ├───────▶ infra ──▶ processes or workloads
//!                           └ statuses ┴───────▶ status ──▶ status.yaml or objects, admin page
//! ```
//!
//! [`server`] starts one task for each of these and restarts what a changed configuration affects. Tasks are owned
//! ([`task`]), channels are bounded, and state that only the latest matters of travels in watch channels. There are two
//! modes of one shape: standalone with files ([`provider::file`]), processes ([`host_infra`]) and a status document
//! ([`status`]), and a cluster ([`cluster`]) with a provider, an infrastructure and a writer of statuses of its own,
//! which hears of the proxies of all [`replicas`].
//!
//! Absent on purpose: rules of translation. What a resource means is decided in `edge-translate`, what a proxy is sent
//! in `edge-xds`.

pub mod admin;
pub mod backoff;
pub mod certs;
pub mod cli;
pub mod cluster;
pub mod cluster_infra;
pub mod config;
mod due;
mod error;
pub mod extensions;
pub mod fetches;
mod files;
mod folders;
pub mod host_infra;
pub mod http;
pub mod logging;
pub mod machine_ports;
pub mod metrics;
pub mod modules;
mod open_connections;
pub mod process_name;
pub mod provider;
mod proxy_stats;
pub mod replicas;
pub mod server;
pub mod shutdown;
pub mod state;
pub mod status;
pub mod task;
pub mod topology;
mod trouble;
pub mod watch;
pub mod world;
pub mod xds_server;

pub use error::Error;
