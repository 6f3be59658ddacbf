//! What translation makes of small worlds, and how it follows what is told of them afterwards.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on should stop where it stands"
)]

mod alike;
mod certificates_in_time;
mod contexts;
mod documents;
mod faults;
mod misdirected;
mod modules;
mod patches;
mod ports;
mod rig;
mod settings;
mod unchecked_files;
