//! The client's side: accepting, TLS, and running HTTP on a connection.

pub(crate) mod accept;
pub(crate) mod connection;
pub(crate) mod io;
pub(crate) mod registry;
mod serve;
pub(crate) mod tunnel;

pub(crate) use serve::LocalExecutor;
