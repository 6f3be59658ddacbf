//! The data half of the proxy against real backends and clients, over real sockets, in one process.
//!
//! Every test starts a proxy of its own on a port that the system chooses, with a configuration made from the compiled
//! types; waiting is for conditions, never for time to pass.

// Clippy lets tests stop where they stand only inside functions that it knows for tests; the helpers here are part of
// them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "data/cors.rs"]
mod cors;
#[path = "data/filters.rs"]
mod filters;
#[path = "data/floods.rs"]
mod floods;
#[path = "data/grpc_web.rs"]
mod grpc_web;
#[path = "data/hosts.rs"]
mod hosts;
#[path = "data/http1.rs"]
mod http1;
#[path = "data/http2_backends.rs"]
mod http2_backends;
#[path = "data/http2_clients.rs"]
mod http2_clients;
#[path = "data/keys.rs"]
mod keys;
#[path = "data/leaving.rs"]
mod leaving;
#[path = "data/lifecycle.rs"]
mod lifecycle;
#[path = "data/limits.rs"]
mod limits;
#[path = "data/listeners.rs"]
mod listeners;
#[path = "data/malformed.rs"]
mod malformed;
#[path = "data/mirrors.rs"]
mod mirrors;
#[path = "data/processors.rs"]
mod processors;
#[path = "data/protocols.rs"]
mod protocols;
#[path = "data/replies.rs"]
mod replies;
#[path = "data/resilience.rs"]
mod resilience;
#[path = "data/routing.rs"]
mod routing;
#[path = "data/smuggling.rs"]
mod smuggling;
#[path = "data/support.rs"]
mod support;
#[path = "data/tokens.rs"]
mod tokens;
#[path = "data/tunnels.rs"]
mod tunnels;
#[path = "data/unread.rs"]
mod unread;
