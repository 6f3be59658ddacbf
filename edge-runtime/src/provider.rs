//! Providers: where resources come from.
//!
//! A provider is a task that turns what it sees into batches of changes and sends them to the world over a bounded
//! channel. When it has told what was there at its start it says so ([`Input::Synced`]): until then nobody knows what
//! is missing, and nothing is published. It says, too, when it can't read a part of it, and when it can again. Files
//! are in [`file`], objects of a cluster in [`cluster`].
//!
//! [`Input::Synced`]: crate::state::Input::Synced

pub mod cluster;
pub mod file;
