//! The data plane.
//!
//! Takes an Envoy bootstrap, keeps its configuration up to date over delta xDS, and serves HTTP, streams and
//! datagrams with it.
//! Two halves: the control half (bootstrap, [`xds`](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol),
//! compiling, admin interface, signals) runs on its own thread; the data half runs one single-threaded runtime per
//! worker. They meet in [`shared`] and in the immutable types of [`config`].

mod access_log;
mod admin;
pub mod authority;
pub mod bootstrap;
mod calendar;
mod calls;
pub mod cli;
mod clock;
pub mod compile;
pub mod config;
mod connection;
pub mod control;
mod cookies;
mod discovery;
mod dns;
mod downstream;
mod due;
pub mod expression;
mod fault;
mod health;
mod http;
pub mod http1;
mod http2;
mod lines;
mod local;
pub mod log_files;
pub mod logging;
mod message;
mod metrics;
mod outbox;
mod percent;
pub mod proxy_protocol;
mod random;
pub mod server;
pub mod shared;
mod socket_options;
mod sockets;
pub mod stats;
mod told;
mod traces;
mod transport;
mod upstream;
pub mod vitals;
pub mod worker;
pub mod xds;

pub use downstream::proxied;
pub use http::path;
#[doc(hidden)]
pub use http::readers;
