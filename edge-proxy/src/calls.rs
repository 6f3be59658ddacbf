//! Requests of the proxy's own to clusters.
//!
//! One question and the whole answer ([`ask`]), messages of gRPC both ways ([`conversation`]), and what a call of
//! gRPC looks like ([`grpc`]). Filters that let a service decide use them, what is observed is sent so ([`reports`]),
//! and keys of tokens are fetched so ([`keys`]).

pub(crate) mod ask;
pub(crate) mod conversation;
pub(crate) mod grpc;
pub(crate) mod keys;
pub(crate) mod reports;
