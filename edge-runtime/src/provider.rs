//! Providers: where resources come from.
//!
//! A provider is a task that turns what it sees into batches of changes and sends them to the world over a bounded
//! channel; its first batch is the whole of what is there. Files are in [`file`]; a cluster is another module of the
//! same shape.

use edge_translate::Change;
use tokio::time::Instant;

pub mod file;

/// What a provider tells the world.
#[derive(Debug)]
pub struct Batch {
    /// What changed.
    pub changes: Vec<Change>,
    /// When the first event behind it was seen.
    pub since: Instant,
}
