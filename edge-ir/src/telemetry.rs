//! What proxies tell of requests and connections: access logs and traces.

use crate::{ClusterName, Fraction, TagValue};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Pairs in the order in which they are written.
pub type Pairs = Vec<(Arc<str>, Arc<str>)>;

/// Where access logs go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AccessLog {
    /// One JSON object a request on standard output.
    #[default]
    DefaultJson,
    /// No access log.
    Disabled,
    /// These.
    Of(Vec<AccessLogger>),
}

/// A place where entries go, and which do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLogger {
    /// Whose log it is.
    #[serde(default, skip_serializing_if = "LogScope::is_default")]
    pub scope: LogScope,
    /// CEL expressions over attributes, of which one must hold; without any, all entries go there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<Arc<str>>,
    /// Where entries go.
    pub sink: LogSink,
}

/// Whose access log it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LogScope {
    /// Requests and streams, and connections that no chain is for.
    #[default]
    Everything,
    /// Connections that no chain is for.
    Unmatched,
    /// Requests and streams.
    Requests,
    /// Tries of requests, with what the backend answered.
    Tries,
}

impl LogScope {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Where entries go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LogSink {
    /// A file.
    File {
        /// Its path.
        path: Arc<str>,
        /// What is written.
        format: LogFormat,
    },
    /// A gRPC log service of Envoy's kind.
    Service {
        /// The service.
        collector: CollectorRef,
        /// Name that tells the log from others.
        log_name: Arc<str>,
        /// What entries are about.
        entries: LogEntries,
    },
    /// A collector of OTLP log records.
    OpenTelemetry {
        /// The collector.
        collector: CollectorRef,
        /// Body of a record; empty where the format has no text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<Arc<str>>,
        /// Attributes of a record, sorted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attributes: Pairs,
        /// Attributes of the resource, sorted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        resource: Pairs,
    },
}

/// A service that telemetry is sent to by gRPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CollectorRef {
    /// Its cluster.
    pub cluster: ClusterName,
    /// Host that it is asked as.
    pub authority: Arc<str>,
    /// Further metadata of calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Pairs,
}

/// What an entry in a file looks like, a line each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LogFormat {
    /// The fields that a proxy logs that was not told otherwise, as JSON.
    DefaultJson,
    /// Text with command operators.
    Text(Arc<str>),
    /// A JSON object, sorted by key.
    Json(Pairs),
}

/// What entries for a log service are about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LogEntries {
    /// Requests, with further headers and trailers of them.
    Http {
        /// Of the request.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        request_headers: Vec<Arc<str>>,
        /// Of the response.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        response_headers: Vec<Arc<str>>,
        /// Behind the response.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        response_trailers: Vec<Arc<str>>,
    },
    /// Connections.
    Tcp,
}

/// Traces of all requests of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetTracing {
    /// Share of requests that are traced.
    pub random_sampling: Fraction,
    /// Share of those that a client wants traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_sampling: Option<Fraction>,
    /// Upper bound of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overall_sampling: Option<Fraction>,
    /// Tags of spans, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<(Arc<str>, TagValue)>,
    /// Name of spans for requests of clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_span: Option<Arc<str>>,
    /// Name of spans for requests to backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_span: Option<Arc<str>>,
    /// Where spans go.
    pub provider: TraceProvider,
}

/// Where spans go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TraceProvider {
    /// A collector of OTLP spans.
    OpenTelemetry {
        /// The collector.
        collector: CollectorRef,
        /// Name of the service in spans.
        service_name: Arc<str>,
        /// Attributes of the resource, sorted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        resource: Pairs,
        /// Which spans are kept; all by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sampler: Option<Sampler>,
    },
    /// A Zipkin collector.
    Zipkin {
        /// The collector.
        collector: CollectorRef,
        /// Whether trace ids are long.
        long_ids: bool,
        /// Whether client and server spans are one.
        shared_spans: bool,
    },
    /// A Datadog agent.
    Datadog {
        /// The agent.
        collector: CollectorRef,
        /// Name of the service in spans.
        service_name: Arc<str>,
    },
}

/// Which spans are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Sampler {
    /// By a rule.
    Own(SampledShare),
    /// As the caller decided; who has none, by a rule.
    OfParent(SampledShare),
}

/// How many spans are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SampledShare {
    /// Each.
    All,
    /// A share of traces, by their ids.
    Ratio(Fraction),
}
