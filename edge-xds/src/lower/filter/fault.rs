//! Failures on purpose.

use super::super::common::{duration, fractional};
use edge_ir::{AbortStatus, Fault};
use envoy_types::pb::envoy::extensions::filters::{
    common::fault::v3::{FaultDelay, fault_delay::FaultDelaySecifier},
    http::fault::v3::{FaultAbort, HttpFault, fault_abort::ErrorType},
};

/// What a route does; without it the filter does nothing.
pub(super) fn lower(fault: &Fault) -> HttpFault {
    HttpFault {
        delay: fault.delay.map(|delay| FaultDelay {
            percentage: Some(fractional(delay.share)),
            fault_delay_secifier: Some(FaultDelaySecifier::FixedDelay(duration(delay.time))),
        }),
        abort: fault.abort.map(|abort| FaultAbort {
            percentage: Some(fractional(abort.share)),
            error_type: Some(match abort.status {
                AbortStatus::Http(code) => ErrorType::HttpStatus(code.into()),
                AbortStatus::Grpc(code) => ErrorType::GrpcStatus(code.into()),
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}
