//! Requests of the proxy's own to clusters.
//!
//! What: one question and the whole answer ([`ask`]), messages of gRPC both ways ([`conversation`]), and what a call of
//! gRPC looks like ([`grpc`]). Filters that let a service decide use them, and what is
//! observed is sent so ([`reports`]).

pub(crate) mod ask;
pub(crate) mod conversation;
pub(crate) mod grpc;
pub(crate) mod reports;
