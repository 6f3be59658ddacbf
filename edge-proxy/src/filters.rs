//! Filters that run before the router.
//!
//! What: a closed enum ([`crate::config::listener::HttpFilter`]), run in the order of the configuration; a filter lets
//! the request go on or answers it.

pub(crate) mod cors;
pub(crate) mod grpc_web;
mod health_check;
pub(crate) mod session;

use http::Response;

use crate::config::listener::HttpFilter;
use crate::downstream::connection::Connection;
use crate::http::body::ResponseBody;
use crate::http::head::Head;

/// Runs the filters; the answer of the first one that answers.
pub(crate) fn run(connection: &Connection, head: &Head) -> Option<Response<ResponseBody>> {
    connection.manager().filters.iter().find_map(|filter| match filter {
        HttpFilter::HealthCheck(filter) => health_check::answer(filter, connection, head),
        // Two are asked when the route is known, the other stands around the whole request.
        HttpFilter::Cors | HttpFilter::GrpcWeb | HttpFilter::Session => None,
    })
}
