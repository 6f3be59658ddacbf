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

pub use client::Api;
pub use discovery::Served;

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

/// The field manager of everything that we write.
pub const FIELD_MANAGER: &str = "edge-gateway";

/// A pause and up to a fifth more, so that those who failed together don't come back together.
pub fn jittered(pause: Duration) -> Duration {
    let fifth = u64::try_from(pause.as_millis() / 5).unwrap_or(u64::MAX).max(1);
    pause + Duration::from_millis(random() % fifth)
}

/// Another number every time; not a secret.
fn random() -> u64 {
    RandomState::new().hash_one(())
}
