//! Gateway resources in, fleets and statuses out: pure, total, deterministic, incremental.
//!
//! ```text
//! text ── load ──▶ objects ── Change ──▶ Translator ──▶ Translation { fleets, infra, statuses }
//! ```
//!
//! [`load`] turns text into typed objects ([`api`]) with a place for everything that is wrong. A [`Translator`] holds
//! the world, takes one [`Change`] at a time, and gives a [`Translation`] whenever asked, at the cost of what the
//! changes touched. The rules themselves are in `phase`, one module a question.
//!
//! Laws, each of them a property test in `tests/laws.rs`: translation is total; it doesn't depend on the order of
//! inputs or on history; an incremental result equals one from scratch; an edit without effect changes nothing, and
//! one with effect changes no more than it must; everything leads back to the object it came from.
//!
//! Absent on purpose: I/O, clocks, randomness, environment (see `clippy.toml`), and protobuf.

pub mod api;
mod change;
pub mod config;
mod engine;
mod fact;
pub mod load;
mod lua;
mod name;
mod phase;
mod settings;
pub mod status;
mod translation;
mod world;

pub use change::Change;
pub use engine::Translator;
pub use fact::{Fact, Fetched, MachinePort, Question, Wanted};
pub use phase::policies::security::signing::{needed_of_controller, signing_secret};
pub use settings::{BootstrapCheck, Feature, ObjectCheck, Platform, RateLimitSettings, Settings};
pub use translation::{Fault, Translation};
