//! Requests that are refused while too few succeed.

use super::Problems;
use crate::api::{BackendTrafficPolicySpec, Metadata, admission::GrpcStatus};
use edge_ir::{AdmissionControl, Timeout};

const AREA: &str = "AdmissionControl";

/// When requests are refused; the source is the policy that says so. Of what is unset the defaults are those of the
/// field.
pub(super) fn admission(
    spec: &BackendTrafficPolicySpec,
    source: &Metadata,
    problems: &mut Problems,
) -> Option<AdmissionControl> {
    let control = spec.admission_control.as_deref()?;
    let window = problems
        .millis(AREA, "samplingWindow", control.sampling_window.as_ref())
        .unwrap_or(Timeout(30_000));
    if window < Timeout(1000) {
        problems.add(AREA, "samplingWindow must be at least 1s");
    }
    let success = control.success_criteria.as_ref();
    let codes = success.and_then(|success| success.http.as_ref());
    let codes = codes.map_or(&[][..], |http| &http.status_codes);
    let statuses = success.and_then(|success| success.grpc.as_ref());
    let statuses = statuses.map_or(&[][..], |grpc| &grpc.status_codes);
    let mut number =
        |field, value: Option<u32>, usual, bounds| problems.number(AREA, field, value.unwrap_or(usual), bounds);
    Some(AdmissionControl {
        owner: format!("{}/{}", source.namespace, source.name).into(),
        // The proxy counts by the second.
        window: Timeout(window.0.div_ceil(1000) * 1000),
        min_success_percent: number("minSuccessRate", control.min_success_rate, 95, 1..=100),
        aggression: number("rejectionAggression", control.rejection_aggression, 1, 1..=u32::MAX),
        min_rate: control.min_request_rate.unwrap_or_default(),
        max_rejection_percent: number("maxRejectionPercent", control.max_rejection_percent, 80, 0..=100),
        http_success: problems.codes(AREA, "statusCodes", codes),
        grpc_success: statuses
            .iter()
            .filter_map(|status| number_of(status, problems))
            .collect(),
    })
}

/// The number of a status: the type has them in this order.
fn number_of(status: &GrpcStatus, problems: &mut Problems) -> Option<u8> {
    let place = GrpcStatus::KNOWN.iter().position(|known| *known == status.as_str());
    if place.is_none() {
        problems.add(AREA, format_args!("unsupported gRPC status {status}"));
    }
    u8::try_from(place?).ok()
}
