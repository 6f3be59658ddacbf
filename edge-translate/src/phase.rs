//! The phases of translation, in rooms by subject. Each module has one entry: a function from a
//! [`Reader`](crate::engine::reader::Reader) and a key to a value. It reads through the reader only, knows nothing of
//! who will use its value, and never fails: what is wrong with an input is part of the value. A unit may read what
//! earlier stages left; `engine/unit` says what each lives with, and a test there reads this table.
//!
//! | stage | units | module | question |
//! |---|---|---|---|
//! | 0 | `Class` | [`gateways::class`] | is this class ours, are its parameters good? |
//! | 0 | `Certificate` | [`listeners::certificate`] | what is in a Secret that is named as a certificate? |
//! | 0 | `ClientPolicy` `TrafficPolicy` `SecurityPolicy` `ExtensionPolicy` | [`policies::client`], [`policies::traffic`], [`policies::security`], [`policies::extension`] | what does a policy say, wherever it is used? |
//! | 1 | `Gateway` | [`gateways::gateway`] | whose is this Gateway, which fleet is it in? |
//! | 1 | `CertificateView` | [`listeners::certificate`] | what do listeners see of a certificate? |
//! | 2 | `Listeners` | [`listeners::fleet`] | which listeners of a fleet serve, what is wrong with the others? |
//! | 2 | `BackendTls` | [`backends::backend_tls`] | is a backend spoken to in TLS? |
//! | 3 | `FleetShape` | [`gateways::fleet_shape`] | what does the EdgeProxy decide for all of a fleet? |
//! | 3 | `Patches` | [`gateways::patches`] | which patches of a fleet apply, in which order? |
//! | 3 | `CustomPolicies` | [`policies::custom`] | which policies are over a fleet that only extension services know? |
//! | 3 | `ListenerViews` | [`listeners::view`] | what do routes see of a Gateway? |
//! | 3 | `Ready` | [`backends::endpoints`] | does a backend have endpoints? |
//! | 4 | `Attach` | [`routes::attach`], with [`policies::effective`] | where does a route attach, and what do policies decide for it there? |
//! | 5 | `Bound` | [`routes::bound`], of [`routes::rules`] and [`routes::uses`] | what do its rules do under what is decided; which backends does it bring into which fleets? |
//! | 6 | `Host` `Cluster` `Endpoints` `Socket` `Collectors` `Proxies` | [`routes::host`], [`backends::cluster`], [`backends::endpoints`], [`listeners::sockets`], [`gateways::collectors`], [`gateways::proxies`] | the pieces of a fleet |
//! | 6 | `Infra` | [`gateways::infra`] | what must exist around a fleet? |
//! | 7 | `Status` | [`statuses`] | what do we say about each object? |
//!
//! What more than one room needs stands beside them: [`authorities`], [`body`], [`cel`], [`cidr`], [`header`],
//! [`health_log`], [`hostname`], [`namespace`], [`operators`], [`origin`], [`precedence`], [`reference`], [`secrets`],
//! [`tls`], [`tracing`].

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
