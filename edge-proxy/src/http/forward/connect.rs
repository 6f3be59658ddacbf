//! CONNECT (RFC 9110 §9.3.6) that ends here: a backend of the route gets what is in the tunnel, as it is.
//!
//! A connection to a host is opened as for any stream of bytes, and the client is told 200 when it stands.
//! Attempts that come to nothing are made again by the route's policy, as far as it is about connections.

use std::rc::Rc;
use std::sync::Arc;

use http::Response;

use crate::access_log::Record;
use crate::fault::Fault;
use crate::http::body::ResponseBody;
use crate::http::forward::{Forwarding, Source};
use crate::http::respond;
use crate::message::head::Head;
use crate::transport::Transport;
use crate::upstream::limits::{ConnectionGuard, may_connect};
use crate::upstream::{RequestGuard, connect, report, retry};

/// A connection to a backend, with what counts it.
pub(crate) struct Opened {
    pub(crate) transport: Transport,
    pub(crate) counted: ConnectionGuard,
    pub(crate) guard: RequestGuard,
}

impl Forwarding<'_> {
    pub(super) async fn connect(mut self, head: Box<Head>) -> Response<ResponseBody> {
        let policy = self.settings.retry.as_deref();
        let policy = policy.filter(|policy| policy.max_retries > 0 && retry::covers(policy, &head));
        let mut attempt = 1;
        let mut retrying = None;
        loop {
            let opened = self.open_stream(&head, attempt).await;
            drop(retrying.take());
            let fault = match opened {
                Ok(opened) => return respond::connected(self, opened, &head),
                Err(fault) => fault,
            };
            self.exchange.attempt_failed(fault);
            let wanted = policy.filter(|policy| retry::wants_fault(policy, fault));
            let wanted = wanted.filter(|policy| self.may_retry(policy, attempt, &Source::Empty));
            retrying = wanted.and_then(|_| self.begin_retry());
            let paused = match wanted.filter(|_| retrying.is_some()) {
                Some(policy) => self.pause(policy, attempt).await,
                None => Err(fault),
            };
            if let Err(fault) = paused {
                return self.give_up(fault, Some(&head), attempt);
            }
            attempt += 1;
        }
    }

    async fn open_stream(&mut self, head: &Head, number: u32) -> Result<Opened, Fault> {
        let connection = Rc::clone(&self.exchange.connection);
        let worker = &connection.worker;
        self.exchange.note(|record| record.upstream.attempts = number);
        let pool = self.pick(head, number)?;
        self.exchange
            .note(|record| record.upstream.host = Some(Arc::clone(&pool.host)));
        self.exchange.begin_attempt(head, self.route_name, &pool);
        if !may_connect(&self.entry.cluster, worker.shared.workers) {
            pool.cells().upstream_cx_overflow.inc();
            return Err(Fault::Overflow);
        }
        let guard = RequestGuard::new(&pool);
        let opening = connect::stream(worker, &pool, connection.addresses());
        let opened = self.within_limits(opening, Some(&pool)).await;
        let (transport, counted) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(fault)) | Err(fault) => return Err(self.failed(fault, &pool)),
        };
        report::connected(&pool.cluster, &pool.host);
        let connected = |record: &mut Record| {
            record.upstream.local = transport.local();
            record.upstream.is_connected = true;
        };
        self.exchange.note(|record| {
            connected(record);
            record.details = "via_upstream".into();
        });
        self.exchange.note_attempt(connected);
        Ok(Opened {
            transport,
            counted,
            guard,
        })
    }
}
