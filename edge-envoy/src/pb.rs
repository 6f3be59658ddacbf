//! The generated types, one module a protobuf package.

#![allow(missing_docs, reason = "Envoy's documentation says what fields mean")]
#![allow(
    clippy::all,
    clippy::large_futures,
    unreachable_pub,
    rust_2018_idioms,
    reason = "the code is as prost-build writes it"
)]

include!("generated/mod.rs");
