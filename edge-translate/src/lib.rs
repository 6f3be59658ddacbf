//! Gateway resources in, fleets and statuses out: pure, total, deterministic, incremental.
//!
//! ```text
//! text ── load ──▶ objects ── Change ──▶ Translator ──▶ Translation { fleets, infra, statuses }
//! ```
//!
//! [`load`] turns text into typed objects ([`api`]) with a place for everything that is wrong. A [`Translator`] holds
//! the world, takes one [`Change`] at a time, and gives a [`Translation`] whenever asked, at the cost of what the
//! changes touched. The rules themselves are in `phase`, one module a question. Who has everything at once calls
//! [`translate`]:
//!
//! ```
//! use edge_translate::{Settings, load::Source, translate};
//!
//! let text = "
//! apiVersion: gateway.networking.k8s.io/v1
//! kind: GatewayClass
//! metadata: { name: edge }
//! spec: { controllerName: gateway.edge/gatewayclass-controller }
//! ---
//! apiVersion: gateway.networking.k8s.io/v1
//! kind: Gateway
//! metadata: { name: gw, namespace: default }
//! spec: { gatewayClassName: edge, listeners: [{ name: http, protocol: HTTP, port: 80 }] }
//! ";
//! let outcome = translate(&[Source { name: "gateway.yaml", text }], &Settings::default());
//! let fleet = &outcome.translation.fleets["default/gw"];
//! assert_eq!(&*fleet.listeners[0].name, "tcp-80");
//! for (object, problem) in outcome.problems() {
//!     println!("{object}: {}: {}", problem.what, problem.message);
//! }
//! ```
//!
//! What a proxy is sent for a fleet is made by the crate `edge-xds`. Two programs that do no more than use these crates
//! stand in `examples/embedding` of the repository: a check of files, and a controller that follows a stream of
//! changes.
//!
//! What is given out whole and grows with the product ([`Translation`], [`Outcome`]) is `#[non_exhaustive]`. Resources,
//! the intermediate representation, changes and facts are not, on purpose: who reads them should be told by the
//! compiler of what is new.
//!
//! Laws, each of them a property test in `tests/laws.rs`: translation is total; it doesn't depend on the order of
//! inputs or on history; an incremental result equals one from scratch; an edit without effect changes nothing, and
//! one with effect changes no more than it must; everything leads back to the object it came from.
//!
//! Absent on purpose: I/O, clocks, randomness, environment (see `clippy.toml`), and protobuf.

#![warn(missing_debug_implementations)]

pub mod api;
mod attached;
mod change;
pub mod config;
pub mod edits;
mod engine;
mod fact;
pub mod load;
mod lua;
mod name;
mod once;
mod own_host;
mod phase;
mod place;
mod settings;
pub mod status;
mod translation;
mod world;

pub use change::Change;
pub use engine::Translator;
pub use fact::{
    Answers, Fact, Fetched, FoundModule, ImageReference, ImageVersion, MachinePort, Module, ModuleLook, ModuleSource,
    Question, QuestionChanges, WantedModule,
};
pub use once::{Failures, Once, Outcome, translate};
pub use phase::gateways::home::Home;
pub use phase::policies::security::oidc::provider::check_oidc_discovery;
pub use phase::policies::security::signing::{needed_of_controller, signing_secret};
pub use settings::{
    BootstrapCheck, Feature, ModuleServer, ObjectCheck, Platform, RateLimitSettings, Settings, rate_limit_infra,
};
pub use translation::{Fault, Translation};
