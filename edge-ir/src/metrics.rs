//! Whom proxies push their metrics to. That is known from the start: it stands in the bootstrap.

use crate::{Pairs, SubjectName, TlsParameters};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A collector in OpenTelemetry's protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricSink {
    /// Where it is: names or addresses. Names are resolved by the proxy, so that a pod that comes or goes starts no
    /// proxy anew.
    pub hosts: Vec<MetricHost>,
    /// Host that it is asked as.
    pub authority: Arc<str>,
    /// TLS towards it; none is spoken to in clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<MetricTls>,
    /// Metadata of calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Pairs,
    /// Attributes of the resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource: Pairs,
    /// How counters are told.
    pub counters: Temporality,
    /// How histograms are told.
    pub histograms: Temporality,
}

/// A host of a collector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricHost {
    /// Its name or address.
    pub host: Arc<str>,
    /// Its port.
    pub port: u16,
    /// Its share among those of its priority.
    pub weight: u32,
    /// How far behind others it stands; those of 0 are used first.
    pub priority: u32,
}

/// TLS towards a collector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricTls {
    /// The name that is asked for.
    pub server_name: Arc<str>,
    /// Names of which one must be in the certificate.
    pub subjects: Vec<SubjectName>,
    /// The authorities of which one must have signed, in PEM; those of the system where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<Arc<str>>,
    /// What may be agreed on.
    #[serde(default, skip_serializing_if = "TlsParameters::is_default")]
    pub parameters: TlsParameters,
}

/// What numbers that grow are told as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Temporality {
    /// All since the proxy began.
    #[default]
    Cumulative,
    /// What came since they were told last.
    Delta,
}
