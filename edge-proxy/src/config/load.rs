//! Weights by the load that hosts report (ORCA), and hosts that requests name.

use std::time::Duration;

use http::HeaderName;

use crate::config::access::MetadataPath;

/// How reports of load become weights (Envoy's client-side weighted round robin).
#[derive(Clone, Debug, PartialEq)]
pub struct LoadWeights {
    /// A host reports for so long before its weight counts.
    pub blackout: Duration,
    /// A report counts for so long.
    pub expiration: Duration,
    /// Weights are looked at anew after so long.
    pub update: Duration,
    /// How often the share of errors is added to the load.
    pub error_penalty: f64,
    /// The greatest of these is the load, where one is reported.
    pub metrics: Box<[Metric]>,
}

/// A figure of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metric {
    /// `application_utilization`
    Application,
    /// `cpu_utilization`
    Cpu,
    /// `mem_utilization`
    Memory,
    /// One of `named_metrics`.
    Named(Box<str>),
    /// One of `utilization`.
    Utilization(Box<str>),
    /// The greatest of `named_metrics`.
    AnyNamed,
    /// The greatest of `utilization`.
    AnyUtilization,
}

/// Where a request names hosts, as `IP:port` with commas between.
#[derive(Debug, PartialEq, Eq)]
pub enum HostSource {
    /// In the first field of this name.
    Header(HeaderName),
    /// In what filters have found out.
    Metadata(MetadataPath),
}
