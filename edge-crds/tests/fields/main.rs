//! The fields of our kinds: as definitions have them, as the loader knows them, and what becomes of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it stands")]
#![allow(clippy::disallowed_methods, reason = "a test reads files")]

mod document;
mod goldens;
mod known;
mod resources;
mod schema;
