//! Requests that are refused while too few succeed, as Envoy's filter refuses them.
//!
//! A request that is let through is noted once: with its response, or, of a call, with the status that comes
//! behind its content. One that comes to nothing is a failure, and one that is refused here isn't noted.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};

use crate::clock::{Clock, Kind};
use crate::config::filter::admission_control::Admission;
use crate::http::Arrived;
use crate::http::body::{FilteredBody, ResponseBody};
use crate::http::exchange::Exchange;
use crate::http::filters::Flow;
use crate::message::body::Broken;
use crate::message::head;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The control at work on one request.
#[derive(Debug)]
pub(super) struct Admitting<'a> {
    admission: &'a Arc<Admission>,
    /// Until it is known what becomes of the request.
    pending: Option<Pending>,
    is_refused: bool,
}

/// A request that is still to be noted: as a failure, if nothing else is known when it is over.
#[derive(Debug)]
struct Pending {
    admission: Arc<Admission>,
    clock: Rc<Clock>,
    is_success: bool,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.admission.note(self.clock.recent(), self.is_success);
    }
}

impl<'a> Admitting<'a> {
    /// Nothing has come yet.
    pub(super) fn new(admission: &'a Arc<Admission>) -> Self {
        Self {
            admission,
            pending: None,
            is_refused: false,
        }
    }

    /// Lets the request through, or refuses it.
    pub(super) fn request(&mut self, arrived: &Arrived<'_>) -> Flow {
        let worker = &arrived.exchange.connection.worker;
        if self.admission.refuses(worker.clock.now(), worker.random.next()) {
            self.is_refused = true;
            return Flow::refuse(
                arrived,
                StatusCode::SERVICE_UNAVAILABLE,
                "",
                "denied_by_admission_control",
            );
        }
        self.pending = Some(self.pending(&worker.clock));
        Flow::Continue
    }

    fn pending(&self, clock: &Rc<Clock>) -> Pending {
        Pending {
            admission: Arc::clone(self.admission),
            clock: Rc::clone(clock),
            is_success: false,
        }
    }

    /// Notes what has become of the request, once that is known.
    pub(super) fn response(
        &mut self,
        exchange: &Exchange,
        mut response: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        if self.is_refused {
            return response;
        }
        // The answer of a filter before this one counts as well, as in Envoy.
        let clock = &exchange.connection.worker.clock;
        let mut pending = self.pending.take().unwrap_or_else(|| self.pending(clock));
        let fields = response.headers();
        let is_over = response.body().is_end_stream();
        let is_call = match is_over {
            true => fields.contains_key(GRPC_STATUS),
            false => response.status() == StatusCode::OK && head::is_grpc(fields),
        };
        match grpc_status(fields) {
            _ if !is_call => pending.is_success = self.admission.is_http_success(response.status().as_u16()),
            Some(status) => pending.is_success = self.admission.is_grpc_success(status),
            None => {
                let body = std::mem::replace(response.body_mut(), ResponseBody::Empty);
                let watched = WatchedBody {
                    body,
                    pending: Some(pending),
                };
                *response.body_mut() = ResponseBody::Filtered(Box::new(watched));
            }
        }
        response
    }
}

fn grpc_status(fields: &HeaderMap) -> Option<u32> {
    fields.get(GRPC_STATUS)?.to_str().ok()?.parse().ok()
}

/// The content of a call whose status is to come behind it.
#[derive(Debug)]
struct WatchedBody {
    body: ResponseBody,
    pending: Option<Pending>,
}

impl FilteredBody for WatchedBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(status) = frame.trailers_ref().and_then(grpc_status)
            && let Some(mut pending) = self.pending.take()
        {
            pending.is_success = pending.admission.is_grpc_success(status);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    fn expire(&mut self, exchange: &Exchange, kind: Kind) {
        self.body.expire(exchange, kind);
    }
}
