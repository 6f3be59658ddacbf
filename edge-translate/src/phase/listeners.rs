//! Listeners of Gateways and ListenerSets: judged together as a fleet, seen by routes, bound as sockets.

pub(crate) mod bound_ports;
pub(crate) mod certificate;
pub(crate) mod client_certificate;
pub(crate) mod client_traffic;
pub(crate) mod client_validation;
pub(crate) mod conflict;
pub(crate) mod finding;
pub(crate) mod fleet;
pub(crate) mod listener_set;
mod shared_port;
pub(crate) mod sockets;
pub(crate) mod spec;
pub(crate) mod view;
