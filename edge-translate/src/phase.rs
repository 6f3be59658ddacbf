//! The phases of translation, in rooms by subject. Each module has one entry: a function from a
//! [`Reader`](crate::engine::reader::Reader) and a key to a value. It reads through the reader only, knows nothing of
//! who will use its value, and never fails: what is wrong with an input is part of the value.
//!
//! | stage | module | question |
//! |---|---|---|
//! | 0 | [`gateways::class`] | is this class ours, are its parameters good? |
//! | 1 | [`gateways::gateway`] | whose is this Gateway, which fleet is it in? |
//! | 2 | [`listeners::fleet`], [`backends::backend_tls`] | which listeners of a fleet serve, what is wrong with the others; is a backend spoken to in TLS? |
//! | 3 | [`listeners::view`], [`backends::endpoints`] | what do routes see of a Gateway; does a backend have endpoints? |
//! | 4 | [`routes::attach`], with [`policies::effective`] | where does a route attach, and what do policies decide for it there? |
//! | 5 | [`routes::bound`], of [`routes::rules`] and [`routes::uses`] | what do its rules do under what is decided; which backends does it bring into which fleets? |
//! | 6 | [`routes::host`], [`backends::cluster`], [`backends::endpoints`], [`listeners::sockets`], [`gateways::proxies`], [`gateways::infra`] | the pieces of a fleet |
//! | 7 | [`statuses`] | what do we say about each object? |
//!
//! What more than one room needs stands beside them: [`authorities`], [`body`], [`cel`], [`cidr`], [`header`], [`health_log`],
//! [`hostname`], [`namespace`], [`operators`], [`origin`], [`precedence`], [`reference`], [`secrets`], [`tls`], [`tracing`].

pub(crate) mod authorities;
pub(crate) mod backends;
pub(crate) mod body;
pub(crate) mod cel;
pub(crate) mod cidr;
pub(crate) mod gateways;
pub(crate) mod header;
pub(crate) mod health_log;
pub(crate) mod hostname;
pub(crate) mod listeners;
pub(crate) mod namespace;
pub(crate) mod operators;
pub(crate) mod origin;
pub(crate) mod policies;
pub(crate) mod precedence;
pub(crate) mod reference;
pub(crate) mod routes;
pub(crate) mod secrets;
pub(crate) mod statuses;
pub(crate) mod tls;
pub(crate) mod tracing;
