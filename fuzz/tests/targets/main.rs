//! All targets in one program, which is compiled and linked once.
//!
//! A target with a folder of inputs in `__fuzz__` is guided by coverage in `cargo xtask fuzz`; the others are
//! properties that random inputs are enough for.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on should stop where it stands"
)]

mod connection;
mod documents;
mod fields;
mod http1;
mod load;
mod path;
mod proxy;
mod statuses;
mod xds;
