//! The span of a copy of a request. A copy may outlive its request, so it is told by itself.

use std::time::{Instant, SystemTime};

use http::{HeaderMap, StatusCode};

use crate::config::cluster::Cluster;
use crate::config::endpoint::Host;
use crate::fault::Fault;
use crate::local::Local;
use crate::random::Random;
use crate::traces::span::{Kind, Span};
use crate::traces::{Trace, fresh};

/// A copy's part in the trace of its request.
#[derive(Debug)]
pub(crate) struct CopySpan {
    trace: Trace,
    id: u64,
    begun: Instant,
    calendar: SystemTime,
}

/// What became of a copy.
pub(crate) struct CopyOutcome<'a> {
    /// The cluster that it went to.
    pub(crate) cluster: &'a Cluster,
    /// The host, if there was one, and what it speaks.
    pub(crate) host: Option<(&'a Host, &'static str)>,
    /// The status that was answered, or why none was.
    pub(crate) answer: Result<StatusCode, Fault>,
}

impl Trace {
    /// A copy of the request begins: its backend is told of a span of its own, as by Envoy whether or not attempts have
    /// any. Gives what is to be reported when it is over, if it is kept. `wanted`: whether it is, where that is said.
    pub(crate) fn copied(
        &self,
        wanted: Option<bool>,
        headers: &mut HeaderMap,
        random: &Random,
        now: Instant,
    ) -> Option<CopySpan> {
        let (id, mut trace) = (fresh(random), self.without_course());
        trace.context.is_sampled = wanted.unwrap_or(trace.context.is_sampled);
        trace.tell(id, Some(trace.context.span), headers);
        trace.is_sampled().then(|| CopySpan {
            trace,
            id,
            begun: now,
            calendar: SystemTime::now(),
        })
    }
}

impl CopySpan {
    /// Reports a copy that is over.
    pub(crate) fn report(&self, worker: &Local, outcome: &CopyOutcome<'_>) {
        let since = self.calendar.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let nanos = |moment: Instant| {
            let moment = since + moment.saturating_duration_since(self.begun);
            u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX)
        };
        let mut span = Span {
            kind: Kind::Client,
            id: self.id,
            parent: Some(self.trace.context.span),
            name: "mirror".to_owned(),
            begun: nanos(self.begun),
            over: nanos(worker.clock.now()),
            tags: Vec::with_capacity(8),
        };
        let (status, flag) = match &outcome.answer {
            Ok(status) => (status.as_u16(), ""),
            Err(fault) => (fault.verdict().status.as_u16(), fault.verdict().flag),
        };
        if let Some((host, protocol)) = outcome.host {
            span.put("http.protocol", protocol);
            span.put_host(host);
        }
        span.put_outcome(Some(outcome.cluster), status, if flag.is_empty() { "-" } else { flag });
        self.trace.write(&span, worker);
    }
}
