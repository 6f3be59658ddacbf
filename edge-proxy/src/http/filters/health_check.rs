//! Envoy's health check filter without pass-through.

use bytes::Bytes;
use http::StatusCode;

use crate::config::filter::HealthCheckFilter;
use crate::http::Arrived;
use crate::http::filters::Flow;
use crate::http::local_reply::{self, Audience};
use crate::message::head::Head;
use crate::shared::Drain;

/// 200 to a request that meets all conditions; 503 while the process must not get new traffic.
pub(super) fn request(filter: &HealthCheckFilter, arrived: &Arrived<'_>) -> Flow {
    if !is_asked(filter, &arrived.head) {
        return Flow::Continue;
    }
    let connection = &arrived.exchange.connection;
    arrived.exchange.note(|record| {
        record.health_check = true;
        record.details = "health_check_ok".into();
    });
    let failed = connection.worker.shared.flags.health_failed() || connection.worker.drain() != Drain::Serving;
    let status = if failed {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    Flow::answer(local_reply::text(status, Bytes::new(), None, Audience::Http))
}

/// Whether a request is a health check.
pub(super) fn is_asked(filter: &HealthCheckFilter, head: &Head) -> bool {
    let view = head.view();
    filter.conditions.iter().all(|condition| condition.holds(&view))
}
