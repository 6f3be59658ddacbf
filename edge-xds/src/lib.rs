//! From the intermediate representation to what a proxy is sent: Envoy v3 resources over xDS.
//!
//! * [`json`]: protobuf messages to and from JSON, with `Any` expanded, by a descriptor set that is compiled in.
//! * [`snapshot`]: encoded resources with the hash of their content as version, and what differs between two states.
//! * [`lower`]: a fleet of the IR to a snapshot, incrementally.
//! * [`hooks`]: what services of the operator make of resources.
//! * [`limits`]: what the service of global rate limits is told.
//! * [`delta`]: the server side of the delta protocol.
//! * [`lookup`]: large virtual hosts as stock Envoy finds routes in them at once.
//! * [`parts`]: a route table by what differs from the version before.
//! * [`quarantine`]: what proxies refuse, cut out of the rest.
//! * [`bootstrap`]: what a proxy starts with.
//! * [`dump`]: what a snapshot looks like to people.
//!
//! Who has a fleet gets what its proxies are sent from a [`Lowering`](lower::Lowering), and shows it with
//! [`dump::show`]:
//!
//! ```
//! use edge_ir::{Fleet, FleetKey};
//! use edge_xds::{dump::{self, DumpKind}, lower::Lowering, snapshot::ResourceType};
//!
//! let mut lowering = Lowering::new();
//! let key = FleetKey::from("infra/gw");
//! let mut fleet = Fleet::new(key.clone());
//! let before = lowering.lower(&fleet);
//! // The fleet changes, and only what changed is encoded.
//! fleet.clusters = Default::default();
//! let after = lowering.lower(&fleet);
//! let changed = edge_xds::snapshot::diff(before.section(ResourceType::Routes), after.section(ResourceType::Routes));
//! assert!(changed.is_empty());
//! let shown = dump::show(DumpKind::Route, &key, &after)?;
//! assert_eq!(shown["resourceType"], "route");
//! # Ok::<(), edge_xds::json::JsonError>(())
//! ```
//!
//! The crate is pure: bytes and data in, bytes and data out. Sockets, files, timers and the clock belong to whoever
//! calls it, which is why the protocol is a state machine and the time an argument.

#![warn(missing_debug_implementations)]

pub mod bootstrap;
pub mod delta;
pub mod dump;
pub mod hooks;
pub mod json;
pub mod limits;
pub mod lookup;
pub mod lower;
pub mod names;
pub mod parts;
mod patch;
pub mod quarantine;
#[cfg(test)]
mod sample;
pub mod snapshot;
mod wire;
