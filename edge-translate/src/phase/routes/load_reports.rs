//! What clients see of the loads that backends report.

use crate::name::{LoadReports, Traffic};
use edge_ir::HeaderEdits;
use std::sync::Arc;

/// The headers in which backends report their load (Open Request Cost Aggregation), as text and as bytes.
const REPORTS: [&str; 2] = ["endpoint-load-metrics", "endpoint-load-metrics-bin"];

/// What becomes of the headers of responses: a rule's own edits, and the end of reports that are for the proxy alone.
pub(super) fn beyond(mut own: HeaderEdits, traffic: &Traffic) -> HeaderEdits {
    if traffic.load_reports == LoadReports::Removed {
        own.remove.extend(REPORTS.map(Arc::from));
    }
    own
}
