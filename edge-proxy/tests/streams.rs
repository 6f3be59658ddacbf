//! Streams and datagrams over real sockets: from Envoy messages, through compilation and activation, to bytes.
//!
//! Every test has a proxy of its own in this process, on a port that the system chooses. Waiting is for conditions.

// Clippy lets tests stop where they stand only inside functions that it knows for tests; the helpers here are part of
// them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "streams/handshakes.rs"]
mod handshakes;
#[path = "streams/health.rs"]
mod health;
#[path = "streams/leaving.rs"]
mod leaving;
#[path = "streams/limit.rs"]
mod limit;
#[path = "streams/passthrough.rs"]
mod passthrough;
#[path = "streams/refused.rs"]
mod refused;
#[path = "streams/resets.rs"]
mod resets;
#[path = "streams/support.rs"]
mod support;
#[path = "streams/tcp.rs"]
mod tcp;
#[path = "streams/udp.rs"]
mod udp;
