//! The phases of translation, in the order in which they build on each other. Each module has one entry: a function
//! from a [`Reader`](crate::engine::reader::Reader) and a key to a value. It reads through the reader only, knows
//! nothing of who will use its value, and never fails: what is wrong with an input is part of the value.
//!
//! | stage | module | question |
//! |---|---|---|
//! | 0 | [`class`] | is this class ours, are its parameters good? |
//! | 1 | [`gateway`] | whose is this Gateway, which fleet is it in? |
//! | 2 | [`listeners`], [`backend_tls`] | which listeners of a fleet serve, what is wrong with the others; is a backend spoken to in TLS? |
//! | 3 | [`listeners`], [`endpoints`] | what do routes see of a Gateway; does a backend have endpoints? |
//! | 4 | [`attach`], [`rules`] | where does a route attach; what do its rules do? |
//! | 5 | [`uses`] | which backends does it bring into which fleets? |
//! | 6 | [`host`], [`cluster`], [`endpoints`], [`sockets`], [`infra`] | the pieces of a fleet |
//! | 7 | [`conditions`] | what do we say about each object? |

pub(crate) mod attach;
pub(crate) mod backend_tls;
pub(crate) mod bound_ports;
pub(crate) mod certificate;
pub(crate) mod class;
pub(crate) mod client_certificate;
pub(crate) mod cluster;
pub(crate) mod conditions;
pub(crate) mod conflict;
pub(crate) mod endpoints;
pub(crate) mod gateway;
pub(crate) mod host;
pub(crate) mod hostname;
pub(crate) mod infra;
pub(crate) mod listener_set;
pub(crate) mod listener_spec;
pub(crate) mod listeners;
pub(crate) mod origin;
pub(crate) mod precedence;
pub(crate) mod proxy_settings;
pub(crate) mod reference;
pub(crate) mod rules;
pub(crate) mod sockets;
pub(crate) mod uses;
