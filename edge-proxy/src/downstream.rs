//! The client's side: accepting, TLS, and running HTTP on a connection or handing bytes on.

pub(crate) mod accept;
pub(crate) mod connection;
mod http1;
pub(crate) mod http2;
pub(crate) mod io;
pub(crate) mod peer;
mod proxied;
mod recorded;
pub(crate) mod registry;
mod serve;
mod tcp;
pub(crate) mod tunnel;
mod udp;

pub(crate) use serve::LocalExecutor;
