//! Traces: what a request is part of, how backends are told, and spans for whoever gathers them.
//!
//! A request of a manager that traces begins a [`Trace`] once its route is known, from what its caller says of a
//! trace or anew. Each attempt tells its backend of the trace, and has a span of its own. When the exchange is over its
//! spans go into the [`outbox`](crate::outbox) of their collector. A request that isn't traced is part of a trace all
//! the same: whoever comes behind must know that it isn't.
//! The rules of which requests are traced, and what a span tells, are Envoy's.

mod b3;
mod choice;
mod copy;
mod otlp;
mod span;
mod w3c;
mod zipkin;

pub(crate) use choice::Reason;
pub(crate) use copy::CopyOutcome;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::access_log::{Client, Record};
use crate::config::endpoint::Host;
use crate::config::http_manager::HttpManager;
use crate::config::tracing::{RouteTracing, Sampler, Tracer, Tracing};
use crate::fault::Fault;
use crate::local::Local;
use crate::message::head::Head;
use crate::random::Random;
use span::Span;

/// The part that a request has in a trace.
#[derive(Debug)]
pub(crate) struct Trace {
    tracing: Arc<Tracing>,
    context: Context,
    /// How the caller has told of it.
    propagation: Propagation,
    /// The host that it was sent to.
    host: HeaderValue,
    /// Fields of requests under the configured prefix.
    downstream: HeaderName,
    original_path: HeaderName,
    /// Its id, in which why it is traced may stand.
    pub(crate) request_id: Option<HeaderValue>,
    course: RefCell<Course>,
}

/// Which span it is, in which trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Context {
    /// The first half of the trace's id; 0 where it has one half.
    high: u64,
    low: u64,
    span: u64,
    parent: Option<u64>,
    /// Somebody else began it.
    is_remote: bool,
    /// It is kept.
    is_sampled: bool,
}

/// How a caller has passed a trace on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Propagation {
    /// In the fields of its family.
    #[default]
    Usual,
    /// In one field of B3.
    Single,
    /// With this state of W3C's.
    State(HeaderValue),
}

/// What a caller says can't be understood: there is no telling which trace it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Malformed;

/// What has become of it so far.
#[derive(Debug, Default)]
struct Course {
    route: Option<Arc<RouteTracing>>,
    attempts: Vec<Attempt>,
}

/// An attempt to get a response from a backend.
#[derive(Debug)]
struct Attempt {
    span: u64,
    number: u32,
    host: Arc<Host>,
    begun: Instant,
    over: Option<Instant>,
    protocol: Option<&'static str>,
    status: u16,
    fault: Option<Fault>,
    /// It was given up from this side.
    is_canceled: bool,
}

impl Trace {
    /// The part of a request whose route is known; `None` where nothing is traced. Where the caller's words make no
    /// sense the request is part of no trace, whatever was chosen.
    pub(crate) fn begin(
        manager: &HttpManager,
        worker: &Local,
        head: &mut Head,
        route: Option<&Arc<RouteTracing>>,
    ) -> Option<(Reason, Option<Self>)> {
        let tracing = manager.tracing.as_ref()?;
        let shares = route.map_or(&tracing.shares, |route| &route.shares);
        let traces = manager.request_id.traces;
        let reason = choice::choose(shares, traces, &manager.prefixed, &mut head.headers, &worker.random);
        let is_wanted = reason != Reason::NotTraceable;
        let found = match &tracing.tracer {
            Tracer::OpenTelemetry { sampler } => {
                let found = w3c::find(&head.headers).map(|found| found.unzip());
                found.map(|(parent, propagation)| {
                    let mut context = Context::below(parent, &worker.random);
                    // As in Envoy: neither a sampler nor who came before wants more than the shares of the listener.
                    context.is_sampled = is_wanted
                        && match sampler {
                            Some(sampler) => sampler.keeps(&context),
                            None => !context.is_remote || context.is_sampled,
                        };
                    (context, propagation)
                })
            }
            Tracer::Zipkin { long_ids, shared } => b3::find(&head.headers, is_wanted).map(|found| {
                let context = match found.parent {
                    Some(parent) if *shared => parent,
                    Some(parent) => Context::below(Some(parent), &worker.random),
                    None => Context {
                        is_sampled: found.is_sampled,
                        ..Context::first(*long_ids, &worker.random)
                    },
                };
                (context, Some(found.propagation))
            }),
        };
        let trace = found.map(|(context, propagation)| Self {
            tracing: Arc::clone(tracing),
            context,
            propagation: propagation.unwrap_or_default(),
            host: head.authority.clone(),
            downstream: manager.prefixed.downstream_service_cluster.clone(),
            original_path: manager.prefixed.original_path.clone(),
            request_id: head.headers.get("x-request-id").cloned(),
            course: RefCell::default(),
        });
        Some((reason, trace.ok()))
    }

    /// Whether its spans are kept.
    pub(crate) fn is_sampled(&self) -> bool {
        self.context.is_sampled
    }

    /// The ids of the trace and of the span in it.
    pub(crate) fn ids(&self) -> (u128, u64) {
        let Context { high, low, span, .. } = self.context;
        (u128::from(high) << 64 | u128::from(low), span)
    }

    /// This route is taken.
    pub(crate) fn follow(&self, route: Option<&Arc<RouteTracing>>) {
        self.course.borrow_mut().route = route.cloned();
    }

    /// An attempt begins: its backend is told.
    pub(crate) fn attempt(
        &self,
        headers: &mut HeaderMap,
        host: &Arc<Host>,
        number: u32,
        random: &Random,
        now: Instant,
    ) {
        let (span, parent) = match self.tracing.spawns {
            true => (fresh(random), Some(self.context.span)),
            false => (self.context.span, self.context.parent),
        };
        self.tell(span, parent, headers);
        if !self.is_sampled() || !self.tracing.spawns {
            return;
        }
        let mut course = self.course.borrow_mut();
        if let Some(last) = course.attempts.last_mut().filter(|last| last.over.is_none()) {
            // Its response wasn't wanted.
            last.over = Some(now);
            last.is_canceled = true;
        }
        course.attempts.push(Attempt {
            span,
            number,
            host: Arc::clone(host),
            begun: now,
            over: None,
            protocol: None,
            status: 0,
            fault: None,
            is_canceled: false,
        });
    }

    /// A backend is told which span it is behind.
    fn tell(&self, span: u64, parent: Option<u64>, headers: &mut HeaderMap) {
        match &self.tracing.tracer {
            _ if self.tracing.is_private => {}
            Tracer::OpenTelemetry { .. } => w3c::tell(&self.context, &self.propagation, span, headers),
            Tracer::Zipkin { .. } => b3::tell(&self.context, &self.propagation, span, parent, headers),
        }
    }

    /// It goes over a connection that speaks this.
    pub(crate) fn sent(&self, protocol: &'static str) {
        if let Some(attempt) = self.course.borrow_mut().attempts.last_mut() {
            attempt.protocol = Some(protocol);
        }
    }

    /// The head of its response has come.
    pub(crate) fn answered(&self, status: u16) {
        if let Some(attempt) = self.course.borrow_mut().attempts.last_mut() {
            attempt.status = status;
        }
    }

    /// It has failed.
    pub(crate) fn failed(&self, fault: Fault, now: Instant) {
        let mut course = self.course.borrow_mut();
        if let Some(attempt) = course.attempts.last_mut().filter(|attempt| attempt.over.is_none()) {
            attempt.over = Some(now);
            attempt.fault = Some(fault);
        }
    }

    /// Reports an exchange that is over.
    pub(crate) fn report(&self, worker: &Local, client: Client<'_>, record: &Record) {
        let course = self.course.borrow();
        for span in span::spans(self, &course, client, record) {
            self.write(&span, worker);
        }
    }

    fn write(&self, span: &Span, worker: &Local) {
        worker.report(&self.tracing.collector, |out| match &self.tracing.tracer {
            Tracer::OpenTelemetry { .. } => otlp::write(self, span, out),
            Tracer::Zipkin { shared, .. } => zipkin::write(self, span, *shared, out),
        });
    }

    /// The same part, of which nothing has become yet.
    fn without_course(&self) -> Self {
        Self {
            tracing: Arc::clone(&self.tracing),
            context: self.context.clone(),
            propagation: self.propagation.clone(),
            host: self.host.clone(),
            downstream: self.downstream.clone(),
            original_path: self.original_path.clone(),
            request_id: self.request_id.clone(),
            course: RefCell::default(),
        }
    }
}

impl Context {
    /// A new trace, whose first span has its id, as in B3.
    fn first(is_long: bool, random: &Random) -> Self {
        let id = fresh(random);
        Self {
            high: if is_long { fresh(random) } else { 0 },
            low: id,
            span: id,
            ..Self::default()
        }
    }

    /// A new span below another one, or the first one of a new trace.
    fn below(parent: Option<Self>, random: &Random) -> Self {
        let span = fresh(random);
        match parent {
            Some(parent) => Self {
                span,
                parent: Some(parent.span),
                ..parent
            },
            None => Self {
                high: fresh(random),
                low: fresh(random),
                span,
                ..Self::default()
            },
        }
    }
}

impl Sampler {
    /// Whether the span is kept.
    fn keeps(&self, context: &Context) -> bool {
        match self {
            Self::All => true,
            // As Envoy reads the first half: its first byte is the least.
            Self::Ratio(share) => share.takes(context.high.swap_bytes()),
            Self::Parent(_) if context.is_remote => context.is_sampled,
            Self::Parent(otherwise) => otherwise.keeps(context),
        }
    }
}

/// An id: never 0, which is none.
fn fresh(random: &Random) -> u64 {
    random.next().max(1)
}
