//! Requests that are read whole before they go on (Envoy's `buffer`): a backend then gets them with their length.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::BytesMut;
use http::StatusCode;
use http_body::Body;

use crate::http::Arrived;
use crate::http::filters::{Flow, within};
use crate::message::body::Broken;
use crate::message::incoming::Incoming;
use crate::message::whole::Whole;

/// Why a body can't be read whole.
enum Unread {
    TooLarge,
    Broken(Broken),
}

/// Reads a request whole.
pub(super) async fn request(limit: usize, arrived: &mut Arrived<'_>) -> Flow {
    if arrived.body.is_end_stream() || arrived.notes.upgrade.is_some() {
        return Flow::Continue;
    }
    let mut body = std::mem::replace(&mut arrived.body, Incoming::Empty);
    let whole = match within(arrived, read(&mut body, limit)).await {
        Ok(whole) => whole,
        Err(answer) => return answer,
    };
    match whole {
        Ok(whole) => {
            arrived.body = Incoming::Whole(Box::new(whole));
            Flow::Continue
        }
        Err(Unread::TooLarge) => Flow::refuse(
            arrived,
            StatusCode::PAYLOAD_TOO_LARGE,
            "Payload Too Large",
            "request_payload_too_large",
        ),
        Err(Unread::Broken(broken)) => {
            tracing::debug!(%broken, "a request broke off");
            arrived.exchange.note(|record| record.flag("DC"));
            Flow::refuse(arrived, StatusCode::BAD_REQUEST, "", "downstream_remote_disconnect")
        }
    }
}

async fn read(body: &mut Incoming, limit: usize) -> Result<Whole, Unread> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > limit {
        return Err(Unread::TooLarge);
    }
    let (mut data, mut trailers) = (BytesMut::new(), None);
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
        match frame.map_err(Unread::Broken)?.into_data() {
            Ok(more) if data.len() + more.len() > limit => return Err(Unread::TooLarge),
            Ok(more) => data.extend_from_slice(&more),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    Ok(Whole::with_trailers(data.freeze(), trailers))
}
