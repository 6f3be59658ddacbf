//! Requests that are read whole before they go on (Envoy's `buffer`): a backend then gets them with their length.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};

use crate::http::Arrived;
use crate::http::body::Broken;
use crate::http::filters::{Flow, within};
use crate::http::incoming::Incoming;

/// A body that has been read.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    data: Bytes,
    trailers: Option<HeaderMap>,
}

impl Whole {
    /// Content without trailers.
    pub(crate) fn of(data: Bytes) -> Self {
        Self { data, trailers: None }
    }

    /// Content with trailers, if there are any.
    pub(crate) fn with_trailers(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self { data, trailers }
    }

    /// What is left of the content.
    pub(super) fn content(&self) -> &Bytes {
        &self.data
    }

    /// What is next; there is nothing to wait for.
    pub(crate) fn next(&mut self) -> Option<Frame<Bytes>> {
        if self.data.is_empty() {
            return self.trailers.take().map(Frame::trailers);
        }
        Some(Frame::data(std::mem::take(&mut self.data)))
    }

    /// Whether all has been taken.
    pub(crate) fn is_over(&self) -> bool {
        self.data.is_empty() && self.trailers.is_none()
    }

    /// What is left.
    pub(crate) fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.len() as u64)
    }
}

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
    let mut whole = Whole::default();
    let mut data = BytesMut::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
        match frame.map_err(Unread::Broken)?.into_data() {
            Ok(more) if data.len() + more.len() > limit => return Err(Unread::TooLarge),
            Ok(more) => data.extend_from_slice(&more),
            Err(frame) => whole.trailers = frame.into_trailers().ok(),
        }
    }
    whole.data = data.freeze();
    Ok(whole)
}
