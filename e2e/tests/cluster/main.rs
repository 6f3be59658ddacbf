//! The controller in a cluster, with each data plane. Runs inside a lab: `cargo xtask test --tier cluster`.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod absences;
mod admission;
mod bootstraps;
mod crowd;
mod extension_services;
mod fleets;
mod ground;
mod inspection;
mod install;
mod installations;
mod modes;
mod pods;
mod rate_limits;
mod rejection;
mod restarts;
mod rollouts;
mod scope;
mod services;
mod settings;
mod shared_names;
mod slips;
mod statuses;
mod tokens;
mod upkeep;
mod walkthrough;
mod workloads;
