//! The controller: I/O around the translation.
//!
//! ```text
//! provider ── batches ──▶ world ── Published ──▶ xds_server ──▶ proxies
//!                           │          ├───────▶ infra::host ──▶ processes
//!                           └ statuses ┴───────▶ status ──▶ status.yaml, admin page
//! ```
//!
//! [`server`] starts one task for each of these and restarts what a changed configuration affects. Tasks are owned
//! ([`task`]), channels are bounded, and state that only the latest matters of travels in watch channels. Standalone
//! mode is complete: files ([`provider::file`]), processes ([`infra::host`]), a status document ([`status`]). A
//! cluster adds a provider, an infrastructure and a status writer of the same shapes; the rest stays.
//!
//! Absent on purpose: rules of translation. What a resource means is decided in `edge-translate`, what a proxy is sent
//! in `edge-xds`.

pub mod admin;
pub mod certs;
pub mod cli;
pub mod config;
mod error;
mod folders;
pub mod http;
pub mod infra;
pub mod logging;
pub mod metrics;
pub mod process_name;
pub mod provider;
pub mod server;
pub mod state;
pub mod status;
pub mod task;
pub mod watch;
pub mod world;
pub mod xds_server;

pub use error::Error;
