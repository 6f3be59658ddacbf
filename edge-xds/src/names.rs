//! Names of what is ours in every proxy, whatever fleet it serves.

/// The cluster of the controller, in the bootstrap.
pub(crate) const CONTROLLER_CLUSTER: &str = "xds_cluster";
/// The cluster of the proxy's own admin interface, in the bootstrap: metrics come from there.
pub(crate) const METRICS_CLUSTER: &str = "prometheus_stats";
/// What the names of our own listeners begin with, and their prefixes in statistics.
pub const OWN_LISTENERS: &str = "edge-gateway-proxy-";
