//! Infrastructure IR to Kubernetes objects: what must exist in a cluster around a fleet, and around the service of rate
//! limits, as data.
//!
//! Pure: the same [`edge_ir::Infra`] gives the same objects, everywhere and always. Who applies them, repairs what
//! drifted and deletes what is no longer wanted is the controller (`edge-runtime`). What a proxy starts with comes in
//! as text, because this crate doesn't know the bootstrap's schema.

mod config;
mod container;
mod mark;
mod metadata;
pub mod names;
mod object;
mod patch;
mod pod;
pub mod rate_limit;
mod reach;
mod render;
mod scaling;
mod service;
mod strategic_merge;
mod workload;

pub use mark::{CONTROLLER, FLEET, REVISION};
pub use metadata::name as object_name;
pub use object::{Object, ObjectKind};
pub use reach::is_reserved;
pub use render::{Installation, RenderError, StartFiles, check, render};
pub use strategic_merge::{MergeError, Type, strategic_merge};
