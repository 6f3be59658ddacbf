//! Requests that are refused while too few succeed.

use super::super::common::{duration, yes};
use edge_ir::AdmissionControl;
use envoy_types::pb::envoy::{
    config::core::v3::{RuntimeDouble, RuntimeFeatureFlag, RuntimePercent, RuntimeUInt32},
    extensions::filters::http::admission_control::v3::{
        self as pb,
        admission_control::{
            EvaluationCriteria, SuccessCriteria,
            success_criteria::{GrpcCriteria, HttpCriteria},
        },
    },
    r#type::v3::{Int32Range, Percent},
};

/// The filter, for the routes that switch it on.
pub(super) fn lower(control: &AdmissionControl) -> pb::AdmissionControl {
    let percent = |value: u32| {
        Some(RuntimePercent {
            default_value: Some(Percent { value: value.into() }),
            ..Default::default()
        })
    };
    // Ends of ranges are not in them.
    let range = |code: &u16| Int32Range {
        start: i32::from(*code),
        end: i32::from(*code) + 1,
    };
    let http = HttpCriteria {
        http_success_status: control.http_success.iter().map(range).collect(),
    };
    let grpc = GrpcCriteria {
        grpc_success_status: control.grpc_success.iter().map(|status| u32::from(*status)).collect(),
    };
    pb::AdmissionControl {
        enabled: Some(RuntimeFeatureFlag {
            default_value: yes(),
            ..Default::default()
        }),
        sampling_window: Some(duration(control.window)),
        aggression: Some(RuntimeDouble {
            default_value: control.aggression.into(),
            ..Default::default()
        }),
        sr_threshold: percent(control.min_success_percent),
        rps_threshold: Some(RuntimeUInt32 {
            default_value: control.min_rate,
            ..Default::default()
        }),
        max_rejection_probability: percent(control.max_rejection_percent),
        evaluation_criteria: Some(EvaluationCriteria::SuccessCriteria(SuccessCriteria {
            http_criteria: (!control.http_success.is_empty()).then_some(http),
            grpc_criteria: (!control.grpc_success.is_empty()).then_some(grpc),
        })),
    }
}
