//! From the intermediate representation to what a proxy is sent: Envoy v3 resources over xDS.
//!
//! * [`json`]: protobuf messages to and from JSON, with `Any` expanded, by a descriptor set that is compiled in.
//! * [`snapshot`]: encoded resources with the hash of their content as version, and what differs between two states.
//! * [`lower`]: a fleet of the IR to a snapshot, incrementally.
//! * [`limits`]: what the service of global rate limits is told.
//! * [`delta`]: the server side of the delta protocol.
//! * [`parts`]: a route table by what differs from the version before.
//! * [`quarantine`]: what proxies refuse, cut out of the rest.
//! * [`bootstrap`]: what a proxy starts with.
//! * [`dump`]: what a snapshot looks like to people.
//!
//! The crate is pure: bytes and data in, bytes and data out. Sockets, files, timers and the clock belong to whoever
//! calls it, which is why the protocol is a state machine and the time an argument.

pub mod bootstrap;
pub mod delta;
pub mod dump;
pub mod json;
pub mod limits;
pub mod lower;
pub mod parts;
mod patch;
pub mod quarantine;
#[cfg(test)]
mod sample;
pub mod snapshot;
mod wire;
