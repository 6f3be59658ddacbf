//! Services that what was observed is sent to.
//!
//! Where such a service is, how long entries are gathered for it, and how they are wrapped. All workers share the
//! definition, and each has entries, a connection and a stream of its own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue};

use crate::config::ClusterId;

/// A service that gathers what proxies observe.
#[derive(Debug)]
pub struct Collector {
    /// Its cluster, which may be undefined.
    pub cluster: ClusterId,
    /// The cluster's name: a number may come to mean another one.
    pub cluster_name: Arc<str>,
    /// Under which name it is called.
    pub authority: HeaderValue,
    /// Fields of each call.
    pub metadata: Box<[(HeaderName, HeaderValue)]>,
    /// How long a call may take.
    pub timeout: Duration,
    /// How long an entry waits for others.
    pub patience: Duration,
    /// As many bytes are sent at once.
    pub full: usize,
    /// How entries are wrapped and sent.
    pub form: Form,
}

/// How entries are wrapped and sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Envoy's access log service: a stream, whose first message says who sends. Entries are of HTTP.
    HttpLogs {
        /// That part of the first message.
        identifier: Bytes,
    },
    /// The same with entries of connections.
    StreamLogs {
        /// That part of the first message.
        identifier: Bytes,
    },
    /// OTLP: a call for each batch of lines.
    OtlpLogs {
        /// Of what they are.
        resource: Bytes,
    },
    /// OTLP: a call for each batch of spans.
    OtlpSpans {
        /// Of what they are.
        resource: Bytes,
        /// Who has made them.
        scope: Bytes,
    },
    /// OTLP: a call for each batch of metrics.
    OtlpMetrics {
        /// Of what they are.
        resource: Bytes,
    },
    /// Zipkin: a request with a JSON list for each batch of spans.
    ZipkinSpans {
        /// Where it goes.
        target: PathAndQuery,
    },
}
