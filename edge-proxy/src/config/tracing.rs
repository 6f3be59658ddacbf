//! Traces: which requests are traced, what spans tell, and who gathers them.

use std::sync::Arc;

use crate::config::access_log::{CapturedFields, Piece};
use crate::config::collector::Collector;
use crate::config::route::Fraction;

/// The traces of a connection manager.
#[derive(Debug)]
pub struct Tracing {
    /// Which requests are traced, where their route doesn't say.
    pub shares: Shares,
    /// What spans tell.
    pub spans: SpanFormat,
    /// Whether requests to backends have spans of their own.
    pub spawns: bool,
    /// Backends aren't told.
    pub is_private: bool,
    /// So much of a path stands in a span.
    pub max_path: usize,
    /// How traces are told to backends, and spans to the collector.
    pub tracer: Tracer,
    /// Who gathers spans.
    pub collector: Arc<Collector>,
    /// Who this proxy says it is.
    pub node: Node,
}

/// What spans say of this proxy.
#[derive(Debug)]
pub struct Node {
    /// Its id.
    pub id: Box<str>,
    /// The cluster that it belongs to.
    pub cluster: Box<str>,
    /// Its zone.
    pub zone: Box<str>,
}

/// What a route says of the traces of its requests.
#[derive(Debug)]
pub struct RouteTracing {
    /// Which are traced: none of the shares of the manager counts.
    pub shares: Shares,
    /// What spans tell; what isn't said here is as the manager says.
    pub spans: SpanFormat,
}

/// Which requests are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Of those that a client wants traced.
    pub client: Fraction,
    /// Of all.
    pub random: Fraction,
    /// Of those that would be traced.
    pub overall: Fraction,
}

/// What spans tell beside the usual.
#[derive(Debug, Default)]
pub struct SpanFormat {
    /// More tags.
    pub tags: Box<[Tag]>,
    /// The name of the span of a request.
    pub server: Option<Box<[Piece]>>,
    /// The name of that of a request to a backend.
    pub client: Option<Box<[Piece]>>,
    /// The fields that these speak of.
    pub wanted: CapturedFields,
}

/// A tag of a span. One that would be empty is left out.
#[derive(Debug)]
pub struct Tag {
    /// Its name.
    pub name: Box<str>,
    /// Its value.
    pub value: TagValue,
}

/// The value of a tag.
#[derive(Debug, PartialEq, Eq)]
pub enum TagValue {
    /// Always the same.
    Fixed(Box<str>),
    /// A field of the request, by its place in [`CapturedFields`], or else this.
    Field(usize, Box<str>),
    /// A text with values in it.
    Format(Box<[Piece]>),
}

/// A family of traces.
#[derive(Debug, PartialEq)]
pub enum Tracer {
    /// W3C's fields, and spans of OTLP.
    OpenTelemetry {
        /// Who decides which spans are kept, in place of the shares.
        sampler: Option<Sampler>,
    },
    /// B3's fields, and spans of Zipkin.
    Zipkin {
        /// Whether ids of traces have 128 bits.
        long_ids: bool,
        /// Whether the span of a request is that of its caller.
        shared: bool,
    },
}

/// A sampler of OpenTelemetry.
#[derive(Debug, PartialEq)]
pub enum Sampler {
    /// Keeps all.
    All,
    /// Keeps some traces, by their ids.
    Ratio(Fraction),
    /// Does as the caller does, or else as this one.
    Parent(Box<Sampler>),
}
