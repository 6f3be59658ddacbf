//! What logs of attempts are told (the router's `upstream_log`).
//!
//! A line for each attempt that has a host, however many a request takes. It is written as soon as it is over,
//! and speaks of the backend's side: bytes sent are those of the request, and the response is as it came.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http_body::Frame;

use crate::access_log::{self, Record, Spoken};
use crate::fault::Fault;
use crate::http::exchange::Exchange;
use crate::message::head::Head;
use crate::upstream::{HostPool, Lease};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The backend has given a response.
    Answered,
    /// It came to nothing.
    Failed(Fault),
    /// Nobody waits for it any more: the client has gone, or the request has lasted too long.
    GivenUp,
}

impl Ended {
    /// As it is for the attempt; as in Envoy, what is over for the whole request is no fault of it.
    pub(super) fn by(fault: Fault) -> Self {
        match fault {
            Fault::RouteTimeout
            | Fault::IdleRequest
            | Fault::IdleResponse
            | Fault::MaxDuration
            | Fault::RequestTimeout
            | Fault::DownstreamReset => Self::GivenUp,
            _ => Self::Failed(fault),
        }
    }
}

impl Exchange {
    /// An attempt begins at this host.
    pub(crate) fn begin_attempt(&self, head: &Head, route: &str, pool: &HostPool) {
        let manager = self.connection.manager();
        let Some(logs) = &manager.router.attempt_logs else {
            return;
        };
        let worker = &self.connection.worker;
        let mut record = Record::new(Some(Arc::clone(logs)), worker.clock.now(), worker.random.next());
        record.request(head);
        record.client = head.client;
        record.route = Some(route.into());
        record.upstream.cluster = Some(Arc::clone(&pool.cluster));
        record.upstream.host = Some(Arc::clone(&pool.host));
        self.attempt.replace(Some(Box::new(record)));
    }

    /// It has a connection.
    pub(crate) fn attempt_sent(&self, lease: &Lease) {
        self.note_attempt(|record| record.sent_on(lease, self.connection.worker.clock.recent()));
    }

    /// The backend has answered.
    pub(crate) fn attempt_answered(&self, response: &Response<()>) {
        self.note_attempt(|record| {
            record.times.answered = Some(self.connection.worker.clock.now());
            record.response(response.status(), response.headers());
        });
    }

    /// Content of its response has come, or its trailers.
    pub(crate) fn attempt_brought(&self, frame: &Frame<Bytes>) {
        self.note_attempt(|record| {
            if let Some(content) = frame.data_ref() {
                record.received += content.len() as u64;
            }
            if let Some(trailers) = frame.trailers_ref() {
                record.trailers(trailers);
            }
        });
    }

    /// It is over. Who says so first is right.
    pub(crate) fn end_attempt(&self, ended: Ended) {
        let Some(mut record) = self.attempt.take() else { return };
        if let Ended::Failed(fault) = ended {
            record.flag(fault.verdict().flag);
            record.failure = fault.transport_failure();
        }
        let arrival = self.arrival.borrow();
        record.sent = arrival.received() + self.tunnelled.get();
        record.times.read = arrival.read_at(self.started);
        record.times.over = self.connection.worker.clock.now();
        let manager = self.connection.manager();
        let client = access_log::Client {
            spoken: Spoken::Attempt,
            ..access_log::Client::of(&self.connection, &manager)
        };
        access_log::write(&self.connection.worker, client, &record);
    }

    /// Tells its logs something, if there are any.
    pub(crate) fn note_attempt(&self, tell: impl FnOnce(&mut Record)) {
        if let Some(record) = &mut *self.attempt.borrow_mut() {
            tell(record);
        }
    }
}
