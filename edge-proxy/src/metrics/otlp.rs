//! Metrics for collectors of OpenTelemetry (OTLP).

use std::time::SystemTime;

use envoy_types::pb::opentelemetry::proto::common::v1::any_value::Value as Content;
use envoy_types::pb::opentelemetry::proto::common::v1::{AnyValue, KeyValue};
use prost::encoding::message;

use crate::config::metrics::{Naming, Sink, Temporality};
use crate::metrics::Sample;
use crate::stats::{BUCKETS, HistogramValue};

/// `opentelemetry.proto.metrics.v1.Metric`, as far as it is filled here.
#[derive(Clone, PartialEq, prost::Message)]
struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(oneof = "Data", tags = "5, 7, 9")]
    data: Option<Data>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Data {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Gauge {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<Number>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Sum {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<Number>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    is_monotonic: bool,
}

/// `NumberDataPoint`
#[derive(Clone, PartialEq, prost::Message)]
struct Number {
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    // MetricValue even where it is 0.
    #[prost(sfixed64, optional, tag = "6")]
    as_int: Option<i64>,
    #[prost(message, repeated, tag = "7")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Histogram {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<Distribution>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
}

/// `HistogramDataPoint`
#[derive(Clone, PartialEq, prost::Message)]
struct Distribution {
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    count: u64,
    #[prost(double, optional, tag = "5")]
    sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    bucket_counts: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    explicit_bounds: Vec<f64>,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
}

/// When values were taken, and since when they have grown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// When the proxy began.
    pub(super) begun: SystemTime,
    /// When they were told last.
    pub(super) before: SystemTime,
    /// Now.
    pub(super) now: SystemTime,
}

impl Times {
    fn start(&self, temporality: Temporality) -> u64 {
        nanos(match temporality {
            Temporality::Delta => self.before,
            Temporality::Cumulative => self.begun,
        })
    }
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A value as it is told.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MetricValue {
    /// What it is now.
    Gauge(i64),
    /// What it has grown to, or by.
    Counter(u64),
    /// The same of a distribution.
    Histogram(Box<HistogramValue>),
}

/// Writes a metric as a field of `ScopeMetrics`.
pub(super) fn write(sink: &Sink, sample: &Sample, value: &MetricValue, times: &Times, out: &mut Vec<u8>) {
    let attributes = match sink.has_attributes {
        true => sample.tags().map(attribute).collect(),
        false => Vec::new(),
    };
    let number = |as_int, start_time_unix_nano, attributes| Number {
        start_time_unix_nano,
        time_unix_nano: nanos(times.now),
        as_int: Some(as_int),
        attributes,
    };
    let data = match value {
        MetricValue::Gauge(value) => Data::Gauge(Gauge {
            // What it was before is of no interest.
            data_points: vec![number(*value, 0, attributes)],
        }),
        MetricValue::Counter(value) => {
            let value = i64::try_from(*value).unwrap_or(i64::MAX);
            Data::Sum(Sum {
                data_points: vec![number(value, times.start(sink.counters), attributes)],
                aggregation_temporality: code(sink.counters),
                is_monotonic: true,
            })
        }
        MetricValue::Histogram(value) => Data::Histogram(Histogram {
            data_points: vec![Distribution {
                start_time_unix_nano: times.start(sink.histograms),
                time_unix_nano: nanos(times.now),
                count: value.count(),
                sum: Some(value.sum_us as f64 / 1000.0),
                bucket_counts: value.buckets.to_vec(),
                explicit_bounds: BUCKETS.iter().map(|bound| *bound as f64 / 1000.0).collect(),
                attributes,
            }],
            aggregation_temporality: code(sink.histograms),
        }),
    };
    let name = match sink.naming {
        Naming::Tagged => sample.tagged(),
        Naming::Whole => sample.full(),
    };
    let metric = Metric {
        name: format!("{}{name}", sink.prefix),
        data: Some(data),
    };
    message::encode(2, &metric, out);
}

fn attribute((key, value): (&str, &str)) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(Content::StringValue(value.to_owned())),
        }),
        ..KeyValue::default()
    }
}

/// `AggregationTemporality`
fn code(temporality: Temporality) -> i32 {
    match temporality {
        Temporality::Delta => 1,
        Temporality::Cumulative => 2,
    }
}
