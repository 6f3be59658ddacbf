//! Providers: where resources come from.
//!
//! A provider is a task that turns what it sees into batches of changes and sends them to the world over a bounded
//! channel; its first batch is the whole of what is there. Files are in [`file`]; a cluster is another module of the
//! same shape.

pub mod file;
