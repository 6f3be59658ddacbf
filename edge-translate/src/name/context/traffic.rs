//! What BackendTrafficPolicies say.

use super::{LoadReports, PolicyFilters};
use crate::name::Placement;
use edge_ir::{LoadBalancing, RetryPolicy, RouteTraffic, Timeout, UpstreamSettings, ZonePreference};
use std::sync::Arc;

/// What a BackendTrafficPolicy, or two of them merged, say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Traffic {
    /// Of the choice among endpoints.
    pub(crate) load_balancing: LoadBalancing,
    /// Of the endpoints themselves.
    pub(crate) placement: Arc<Placement>,
    /// Of those in the zone of the proxy.
    pub(crate) zone_preference: Option<ZonePreference>,
    /// Of what clients see of the loads that backends report.
    pub(crate) load_reports: LoadReports,
    /// Of connections to backends.
    pub(crate) upstream: Arc<UpstreamSettings>,
    /// Of the whole request, where a rule has no limit.
    pub(crate) timeout: Option<Timeout>,
    /// Of retries, where a rule says nothing.
    pub(crate) retry: Option<Arc<RetryPolicy>>,
    /// Of what a route says besides.
    pub(crate) route: Option<Arc<RouteTraffic>>,
    /// The same with as much patience for silence as long limits need.
    pub(crate) patience: Patience,
    /// Of that, what is for a rule that forwards nothing: traces and the name of metrics.
    pub(crate) telemetry: Option<Arc<RouteTraffic>>,
    /// Filters for requests and responses.
    pub(crate) filters: PolicyFilters,
}

/// What routes say besides where their limits need patience for silence, shared by all that have such limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Patience {
    /// For a limit above the silence that a proxy bears of its own accord.
    pub(crate) long: Option<Arc<RouteTraffic>>,
    /// For no limit at all.
    pub(crate) endless: Option<Arc<RouteTraffic>>,
}
