//! Failures on purpose, as Envoy's filter makes them: a request waits, then it may be answered in place of the backend.

use bytes::Bytes;

use crate::config::filter::fault::{Abort, Faults};
use crate::http::filters::{Flow, within};
use crate::http::{Arrived, local_reply};

/// Lets a request wait, and fail.
pub(super) async fn request(faults: &Faults, arrived: &mut Arrived<'_>) -> Flow {
    let view = arrived.head.view();
    if !faults.conditions.iter().all(|condition| condition.holds(&view)) {
        return Flow::Continue;
    }
    let worker = std::rc::Rc::clone(&arrived.exchange.connection.worker);
    if let Some((share, time)) = faults.delay
        && share.takes(worker.random.next())
        && !time.is_zero()
    {
        arrived.exchange.note(|record| record.flag("DI"));
        if let Err(answer) = within(arrived, tokio::time::sleep(time)).await {
            return answer;
        }
    }
    match faults.abort {
        Some((share, abort)) if share.takes(worker.random.next()) => self::abort(abort, arrived),
        _ => Flow::Continue,
    }
}

fn abort(abort: Abort, arrived: &Arrived<'_>) -> Flow {
    arrived.exchange.note(|record| {
        record.flag("FI");
        record.details = "fault_filter_abort".into();
    });
    let (body, audience) = (Bytes::from_static(b"fault filter abort"), arrived.audience);
    Flow::answer(match abort {
        Abort::Http(status) => local_reply::text(status, body, None, audience),
        Abort::Grpc(code) => local_reply::of_grpc(code, body, audience),
    })
}
