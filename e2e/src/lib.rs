//! What end-to-end tests and measurements share: programs under test, a small HTTP client, a load generator, worlds.
//!
//! The tests stand in `tests/`; `cargo xtask test --tier e2e` builds the programs and runs them.

pub mod http;
pub mod load;
pub mod ports;
pub mod process;
pub mod stack;
pub mod world;
