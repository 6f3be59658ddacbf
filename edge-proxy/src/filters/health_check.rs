//! Envoy's health check filter without pass-through.

use bytes::Bytes;
use http::{Response, StatusCode};

use crate::config::listener::HealthCheckFilter;
use crate::downstream::connection::Connection;
use crate::http::body::ResponseBody;
use crate::http::head::Head;
use crate::http::local_reply::{self, Audience};
use crate::shared::Drain;

/// 200 to a request that meets all conditions; 503 while the process must not get new traffic.
pub(super) fn answer(
    filter: &HealthCheckFilter,
    connection: &Connection,
    head: &Head,
) -> Option<Response<ResponseBody>> {
    let view = head.view();
    if !filter.conditions.iter().all(|condition| condition.holds(&view)) {
        return None;
    }
    let failed = connection.worker.shared.flags.health_failed() || connection.worker.drain() != Drain::Serving;
    let status = if failed {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    Some(local_reply::text(status, Bytes::new(), None, Audience::Http))
}
