//! What an API server would say of an object when it is created, without one: offline checks and the controller agree
//! with the cluster on what a valid resource is.
//!
//! [`Catalogue::judge`] does to an object what an API server does, in its order: fields that nobody knows are named
//! ([`unknown`]), defaults are filled in ([`complete`]), name and labels are looked at ([`metadata`]), then the
//! structure ([`structure`], with the lists that are sets or maps in [`lists`]), and, where that left something to
//! read, the CEL rules ([`rules`]). The schemas are those of the definitions that a cluster has ([`definition`]): a
//! channel of Gateway API and our own kinds. They are generated files
//! (`cargo xtask gen`), and tests hold judgements against those of a real API server.
//!
//! The structure is checked by code of ours, because a structural schema is not JSON Schema: `nullable`, numbers or
//! texts, lists with keys and pruning have no counterpart there, and the words of the API server, which people look up,
//! would have to be made from those of a library all the same. Rules are run by the `kube-cel` crate.
//!
//! [`Judge`] does the same to texts, and remembers what it said of documents that stay as they are. [`configuration`]
//! does it to what a controller's own file says in the words of an EdgeProxy.
//!
//! Deliberately absent: what an update would be compared with (transition rules), admission webhooks and policies, and
//! kinds of Kubernetes itself.

mod complete;
mod configuration;
mod definition;
mod lists;
mod metadata;
mod path;
mod refusal;
mod rules;
mod structure;
mod text;
mod unknown;

pub use configuration::configuration;
pub use definition::{Catalogue, Channel, Definition};
pub use path::{Path, Segment};
pub use refusal::{Refusal, Verdict};
pub use text::{Judge, place};

#[cfg(test)]
mod tests;
