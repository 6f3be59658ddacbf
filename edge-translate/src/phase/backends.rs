//! Backends: how they are spoken to, where their endpoints are, and the clusters made of them.

pub(crate) mod asked;
pub(crate) mod backend_ref;
pub(crate) mod backend_tls;
pub(crate) mod cluster;
pub(crate) mod defaults;
pub(crate) mod endpoints;
mod offer;
pub(crate) mod problem;
pub(crate) mod set;
pub(crate) mod settings;
pub(crate) mod zones;
