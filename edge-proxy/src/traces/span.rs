//! Spans of an exchange that is over, with what they tell.

use std::borrow::Cow;
use std::time::{Instant, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::access_log::{self, Client, Entry, Fields, Heads, Record, Stage, Values};
use crate::config::access_log::{AddressOf, CapturedFields, Flags, Piece};
use crate::config::cluster::Cluster;
use crate::config::endpoint::{Host, HostAddress};
use crate::config::tracing::{SpanFormat, TagValue, Tracer};
use crate::fault::{Fault, Source};
use crate::message::head::is_grpc;
use crate::traces::choice::X_CLIENT_TRACE_ID;
use crate::traces::{Attempt, Course, Trace};

/// A span.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) kind: Kind,
    pub(super) id: u64,
    pub(super) parent: Option<u64>,
    pub(super) name: String,
    /// Nanoseconds since 1970.
    pub(super) begun: u64,
    pub(super) over: u64,
    /// In order, no name twice.
    pub(super) tags: Vec<(Cow<'static, str>, String)>,
}

/// Whose side of a request a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// That of whoever answers.
    Server,
    /// That of whoever asks.
    Client,
}

impl Span {
    /// The value of a tag.
    pub(super) fn tag(&self, name: &str) -> Option<&str> {
        let found = self.tags.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }

    pub(super) fn put(&mut self, name: &'static str, value: impl Into<String>) {
        self.set(Cow::Borrowed(name), value.into());
    }

    /// The host that was asked.
    pub(super) fn put_host(&mut self, host: &Host) {
        let address = match &host.address {
            HostAddress::Socket(socket) => socket.to_string(),
            HostAddress::Pipe(path) => path.display().to_string(),
            HostAddress::Internal(name) => name.to_string(),
        };
        self.put("upstream_address", address.clone());
        self.put("peer.address", address);
    }

    /// What all spans tell of how it ended.
    pub(super) fn put_outcome(&mut self, cluster: Option<&Cluster>, status: u16, flags: &str) {
        self.put("component", "proxy");
        if let Some(cluster) = cluster {
            self.put("upstream_cluster", &*cluster.name);
            self.put("upstream_cluster.name", shown_name(cluster));
        }
        self.put("http.status_code", status.to_string());
        self.put("response_flags", flags);
        if status == 0 || status >= 500 {
            self.put("error", "true");
        }
    }

    fn set(&mut self, name: Cow<'static, str>, value: String) {
        match self.tags.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.tags.push((name, value)),
        }
    }
}

/// All spans of an exchange: of the attempts to get a response, and of the request.
pub(super) fn spans(trace: &Trace, course: &Course, client: Client<'_>, record: &Record) -> Vec<Span> {
    let nothing = Heads::default();
    let teller = Teller {
        trace,
        course,
        client,
        record,
        heads: record.heads.as_deref().unwrap_or(&nothing),
    };
    let last = course.attempts.len().saturating_sub(1);
    let attempts = course.attempts.iter().enumerate();
    let mut spans: Vec<_> = attempts
        .map(|(index, attempt)| teller.attempt(attempt, index == last))
        .collect();
    spans.push(teller.request());
    spans
}

/// What is known of an exchange.
struct Teller<'a> {
    trace: &'a Trace,
    course: &'a Course,
    client: Client<'a>,
    record: &'a Record,
    heads: &'a Heads,
}

impl Teller<'_> {
    /// The span of the request.
    fn request(&self) -> Span {
        let (trace, record) = (self.trace, self.record);
        let usual = match trace.tracing.tracer {
            Tracer::OpenTelemetry { .. } => "ingress".to_owned(),
            Tracer::Zipkin { .. } => text(&trace.host),
        };
        let (own, route) = self.formats();
        let name = route.and_then(|format| format.server.as_deref().zip(Some(&format.wanted)));
        let name = name.or_else(|| own.server.as_deref().zip(Some(&own.wanted)));
        let mut span = Span {
            kind: Kind::Server,
            id: trace.context.span,
            parent: trace.context.parent,
            name: self.name(name, usual, Known::All),
            begun: self.moment(record.times.begun),
            over: self.moment(record.times.over),
            tags: Vec::with_capacity(24),
        };
        span.put("node_id", &*trace.tracing.node.id);
        span.put("zone", &*trace.tracing.node.zone);
        self.tell_request(&mut span);
        span.put("request_size", record.received.to_string());
        span.put("response_size", record.sent.to_string());
        span.put_outcome(record.upstream.cluster.as_deref(), record.status, &flags(record.flags));
        tell_call(&mut span, &self.heads.response);
        tell_call(&mut span, &self.heads.trailers);
        self.tell_more(&mut span, Known::All);
        span
    }

    fn tell_request(&self, span: &mut Span) {
        let Some(request) = &self.record.request else { return };
        let fields = &self.heads.request;
        let or_none = |name: &HeaderName| fields.get(name).map_or_else(|| "-".to_owned(), text);
        if let Some(id) = fields.get("x-request-id") {
            span.put("guid:x-request-id", text(id));
        }
        span.put("http.url", self.url());
        span.put("http.method", request.method.as_str());
        span.put("downstream_cluster", or_none(&self.trace.downstream));
        span.put("user_agent", or_none(&http::header::USER_AGENT));
        let held = self.held(CapturedFields::NOTHING, Known::All);
        let entry = self.entry(&held);
        span.put("http.protocol", entry.protocol().unwrap_or("-"));
        if let Some(peer) = entry.socket(AddressOf::Peer) {
            span.put("peer.address", peer.ip().to_string());
        }
        if let Some(id) = fields.get(X_CLIENT_TRACE_ID) {
            span.put("guid:x-client-trace-id", text(id));
        }
        if is_grpc(fields) {
            span.put("grpc.path", request.target.as_str());
            span.put("grpc.authority", text(&request.authority));
            span.put(
                "grpc.content_type",
                fields.get(http::header::CONTENT_TYPE).map(text).unwrap_or_default(),
            );
            if let Some(timeout) = fields.get("grpc-timeout") {
                span.put("grpc.timeout", text(timeout));
            }
        }
    }

    /// Where the request wanted to go before its path was rewritten.
    fn url(&self) -> String {
        let Some(request) = &self.record.request else {
            return String::new();
        };
        let scheme = self.heads.request.get("x-forwarded-proto").map(text);
        let original = self.heads.request.get(&self.trace.original_path).map(text);
        let path = original.unwrap_or_else(|| request.target.to_string());
        let path: String = path.chars().take(self.trace.tracing.max_path).collect();
        let scheme = scheme.unwrap_or_else(|| request.scheme.to_owned());
        format!("{scheme}://{}{path}", text(&request.authority))
    }

    /// The span of an attempt.
    fn attempt(&self, attempt: &Attempt, is_last: bool) -> Span {
        let (trace, record) = (self.trace, self.record);
        let cluster = record.upstream.cluster.as_deref();
        // The client had no response yet when one was given up.
        let known = match attempt.fault.is_some() || attempt.is_canceled {
            true => Known::Request,
            false => Known::All,
        };
        let usual = format!("router {} egress", cluster.map(shown_name).unwrap_or_default());
        let (own, route) = self.formats();
        let name = route.and_then(|format| format.client.as_deref().zip(Some(&format.wanted)));
        let name = name.or_else(|| own.client.as_deref().zip(Some(&own.wanted)));
        let mut span = Span {
            kind: Kind::Client,
            id: attempt.span,
            parent: Some(trace.context.span),
            name: self.name(name, usual, known),
            begun: self.moment(attempt.begun),
            over: self.moment(attempt.over.unwrap_or(record.times.over)),
            tags: Vec::with_capacity(16),
        };
        if attempt.number > 1 {
            span.put("retry.count", (attempt.number - 1).to_string());
        }
        // Whatever broke off the response has broken off the attempt.
        let has_left = is_last && attempt.over.is_none() && record.flags.meets(broken());
        let verdict = attempt.fault.map(Fault::verdict);
        match attempt.fault.zip(verdict) {
            Some((fault, verdict)) if verdict.source == Source::Upstream && !is_own(fault) => {
                span.put("error", "true");
                span.put("error.reason", fault.reset_reason());
            }
            Some(_) => span.put("canceled", "true"),
            None if attempt.is_canceled || has_left => span.put("canceled", "true"),
            None => {}
        }
        if is_last && attempt.fault.is_none() && !attempt.is_canceled {
            tell_call(&mut span, &self.heads.response);
            tell_call(&mut span, &self.heads.trailers);
        }
        span.put("http.protocol", attempt.protocol.unwrap_or("-"));
        span.put_host(&attempt.host);
        let flag = verdict.map_or("", |verdict| verdict.flag);
        let flag = if flag.is_empty() { "-" } else { flag };
        span.put_outcome(cluster, attempt.status, flag);
        self.tell_more(&mut span, known);
        span
    }

    /// The tags of the route, and those of the manager that it doesn't replace.
    fn tell_more(&self, span: &mut Span, known: Known) {
        let (own, route) = self.formats();
        for format in route.into_iter().chain([own]) {
            let held = self.held(&format.wanted, known);
            for tag in &format.tags {
                let is_replaced = route.is_some_and(|route| {
                    !std::ptr::eq(route, format) && route.tags.iter().any(|known| known.name == tag.name)
                });
                if is_replaced {
                    continue;
                }
                let value = match &tag.value {
                    TagValue::Fixed(value) => value.to_string(),
                    TagValue::Field(at, otherwise) => {
                        let found = held.request.get(*at).and_then(Option::as_ref);
                        found.map_or_else(|| otherwise.to_string(), text)
                    }
                    TagValue::Format(pieces) => self.said(pieces, &held),
                };
                if !value.is_empty() {
                    span.set(Cow::Owned(tag.name.to_string()), value);
                }
            }
        }
    }

    /// What the manager says of spans, and what the route does.
    fn formats(&self) -> (&SpanFormat, Option<&SpanFormat>) {
        let route = self.course.route.as_deref().map(|route| &route.spans);
        (&self.trace.tracing.spans, route)
    }

    fn name(&self, format: Option<(&[Piece], &CapturedFields)>, usual: String, known: Known) -> String {
        let said = format.map(|(pieces, wanted)| self.said(pieces, &self.held(wanted, known)));
        said.filter(|name| !name.is_empty()).unwrap_or(usual)
    }

    fn said(&self, pieces: &[Piece], held: &Held) -> String {
        let said = access_log::text(pieces, &self.entry(held));
        String::from_utf8(said).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    fn held(&self, wanted: &CapturedFields, known: Known) -> Held {
        let request = access_log::values(&wanted.request, &self.heads.request);
        let whole = access_log::whole(&wanted.whole.request, &self.heads.request);
        match known {
            Known::All => Held {
                status: self.record.status,
                request,
                response: access_log::values(&wanted.response, &self.heads.response),
                trailers: access_log::values(&wanted.trailers, &self.heads.trailers),
                whole: [
                    whole,
                    access_log::whole(&wanted.whole.response, &self.heads.response),
                    access_log::whole(&wanted.whole.trailers, &self.heads.trailers),
                ],
            },
            Known::Request => Held {
                status: 0,
                request,
                response: Values::new(),
                trailers: Values::new(),
                whole: [whole, Values::new(), Values::new()],
            },
        }
    }

    fn entry<'e>(&'e self, held: &'e Held) -> Entry<'e> {
        Entry {
            client: self.client,
            record: self.record,
            status: held.status,
            fields: Fields {
                request: &held.request,
                response: &held.response,
                trailers: &held.trailers,
                whole: held.whole.each_ref().map(|values| &values[..]),
            },
            stage: Stage::Over,
        }
    }

    /// Nanoseconds since 1970.
    fn moment(&self, moment: Instant) -> u64 {
        let times = &self.record.times;
        let begun = times
            .calendar
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let since = begun + moment.saturating_duration_since(times.begun);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// How far an exchange had come when a span was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// To its end.
    All,
    /// To no response.
    Request,
}

/// What a format asks for.
#[derive(Debug)]
struct Held {
    status: u16,
    request: Values,
    response: Values,
    trailers: Values,
    /// Of all three, with all values of each field.
    whole: [Values; 3],
}

/// What a response of gRPC says of its call.
fn tell_call(span: &mut Span, fields: &HeaderMap) {
    if let Some(status) = fields.get("grpc-status") {
        span.put("grpc.status_code", text(status));
        if matches!(status.as_bytes(), b"2" | b"4" | b"12" | b"13" | b"14" | b"15") {
            span.put("error", "true");
        }
    }
    if let Some(message) = fields.get("grpc-message") {
        span.put("grpc.message", text(message));
    }
}

/// The name of a cluster as statistics have it.
fn shown_name(cluster: &Cluster) -> &str {
    &cluster.stats.label
}

/// Whether it was this proxy that gave an attempt up.
fn is_own(fault: Fault) -> bool {
    matches!(fault, Fault::RouteTimeout | Fault::PerTryTimeout | Fault::IdleResponse)
}

/// Flags of responses that broke off on this side of the backend.
fn broken() -> Flags {
    let mut flags = Flags::default();
    for flag in ["DC", "SI", "DT", "UT"].into_iter().filter_map(Flags::named) {
        flags.add(flag);
    }
    flags
}

fn flags(flags: Flags) -> String {
    let names: Vec<_> = flags.names().map(|(short, _)| short).collect();
    if names.is_empty() {
        "-".to_owned()
    } else {
        names.join(",")
    }
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}
