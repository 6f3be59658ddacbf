//! Infrastructure IR to Kubernetes objects: what must exist in a cluster around a fleet, as data.
//!
//! Pure: the same [`edge_ir::Infra`] gives the same objects, everywhere and always. Who applies them, repairs what
//! drifted and deletes what is no longer wanted is the controller (`edge-runtime`).

mod strategic_merge;

pub use strategic_merge::{MergeError, Type, strategic_merge};
