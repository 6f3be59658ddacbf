//! What speaks with a cluster, for every command that does.

pub mod client;
pub mod inventory;
pub mod objects;
pub mod pods;
pub mod progress;
pub mod statuses;
pub mod stuck;

pub use client::Connection;
