//! Traces and metrics of the routes that a policy covers.

use super::Problems;
use crate::{
    api::BackendTrafficPolicySpec,
    phase::{operators, tracing},
};
use edge_ir::RouteTracing;
use std::sync::Arc;

const AREA: &str = "Telemetry";

/// Traces of the routes; none where the policy says nothing of them.
pub(super) fn tracing(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Option<RouteTracing> {
    let tracing = spec.telemetry.as_deref()?.tracing.as_deref()?;
    Some(tracing::read(tracing.spans(), operators::check_of_span, problems))
}

/// Operators of the name under which a route is counted.
const OF_ROUTE: [&str; 3] = ["ROUTE_KIND", "ROUTE_NAMESPACE", "ROUTE_NAME"];

/// Whether a name holds no operators but these, and is one at all.
pub(crate) fn holds_alone(name: &str, operators: &[&str]) -> bool {
    let has_pairs = name.matches('%').count().is_multiple_of(2);
    let mut named = name.split('%').skip(1).step_by(2);
    !name.is_empty()
        && has_pairs
        && !name.chars().any(char::is_control)
        && named.all(|operator| operators.contains(&operator))
}

/// The name under which requests are counted.
pub(super) fn stat_name(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Option<Arc<str>> {
    let name = spec
        .telemetry
        .as_deref()?
        .metrics
        .as_ref()?
        .route_stat_name
        .as_deref()?;
    if !holds_alone(name, &OF_ROUTE) {
        problems.add(
            AREA,
            format_args!(
                "routeStatName {name:?} may hold the operators {} alone",
                OF_ROUTE.join(", ")
            ),
        );
    }
    Some(name.into())
}
