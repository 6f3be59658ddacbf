//! What a message may carry: bytes sent, what must reach the backend, what must come back, for edge-proxy and for stock
//! Envoy with the same configuration. A line on which the two differ says so, and why.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop where it stands"
)]

mod access_logs;
mod addresses;
mod attempt_logs;
mod attempts;
mod bench;
mod breaks;
mod certificates;
mod cookies;
mod expressions;
mod facts;
mod formats;
mod h2spec;
mod headers;
mod hosts;
mod lifetimes;
mod methods;
mod metrics;
mod names;
mod paths;
mod proxied;
mod services;
mod sessions;
mod signatures;
mod streams;
mod traces;
mod trailers;
mod tunnels;
