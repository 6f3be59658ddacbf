//! AdmissionControl → [`Admission`].

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{RuntimeDouble, RuntimeFeatureFlag, RuntimePercent, RuntimeUInt32};
use envoy_types::pb::envoy::extensions::filters::http::admission_control::v3::AdmissionControl;
use envoy_types::pb::envoy::extensions::filters::http::admission_control::v3::admission_control::{
    EvaluationCriteria, SuccessCriteria,
};
use envoy_types::pb::google::protobuf::Any;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, duration_or, fields, unpack};
use crate::config::filter::FilterKind;
use crate::config::filter::admission_control::{Admission, SharedHistory};

/// Calls that have gone well as far as their backend is concerned, where nothing is said: OK, CANCELLED,
/// INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, UNAUTHENTICATED, FAILED_PRECONDITION, OUT_OF_RANGE, PERMISSION_DENIED
/// and UNIMPLEMENTED, with UNKNOWN.
const USUAL_CALLS: [u32; 11] = [0, 1, 2, 3, 5, 6, 7, 9, 11, 12, 16];

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterKind, Rejection> {
    let message: AdmissionControl = unpack(at, config)?;
    fields!(at, &message => AdmissionControl {
        enabled, sampling_window, aggression, sr_threshold, rps_threshold, max_rejection_probability,
        evaluation_criteria;
        ignore;
        refuse
    });
    if !is_enabled(enabled.as_ref()) {
        return Ok(FilterKind::Admission(None));
    }
    let window = at.field("sampling_window");
    let seconds = duration_or(&window, sampling_window.as_ref(), Duration::from_secs(30))?.as_secs();
    if seconds == 0 {
        return Err(window.error("must be at least a second"));
    }
    let at_success = at.field("sr_threshold");
    let success = percent(&at_success, sr_threshold.as_ref(), 95.0)?;
    if success < 1.0 {
        return Err(at_success.error("must be at least 1 percent"));
    }
    let Some(EvaluationCriteria::SuccessCriteria(criteria)) = evaluation_criteria else {
        return Err(at.field("success_criteria").error("is required"));
    };
    let (http, grpc) = self::criteria(&at.field("success_criteria"), criteria)?;
    Ok(FilterKind::Admission(Some(Arc::new(Admission {
        window: Duration::from_secs(seconds),
        aggression: aggression_of(aggression.as_ref()),
        success: success.min(100.0) / 100.0,
        min_rate: rate(rps_threshold.as_ref()),
        max_rejection: percent(
            &at.field("max_rejection_probability"),
            max_rejection_probability.as_ref(),
            80.0,
        )? / 100.0,
        http,
        grpc,
        history: SharedHistory::default(),
    }))))
}

/// Of values that a runtime may override, the default counts: there is no runtime here.
fn is_enabled(message: Option<&RuntimeFeatureFlag>) -> bool {
    let value = message.and_then(|message| message.default_value.as_ref());
    value.is_none_or(|value| value.value)
}

fn percent(at: &At<'_>, message: Option<&RuntimePercent>, usual: f64) -> Result<f64, Rejection> {
    let Some(message) = message else { return Ok(usual) };
    let value = message.default_value.as_ref().map_or(0.0, |percent| percent.value);
    match value {
        0.0..=100.0 => Ok(value),
        _ => Err(at.error("must be from 0 to 100 percent")),
    }
}

/// As in Envoy: less than 1 is 1.
fn aggression_of(message: Option<&RuntimeDouble>) -> f64 {
    message.map_or(1.0, |message| message.default_value.max(1.0))
}

fn rate(message: Option<&RuntimeUInt32>) -> u32 {
    message.map_or(0, |message| message.default_value)
}

/// Statuses of responses, and of calls.
type Criteria = (Box<[Range<u16>]>, Box<[u32]>);

fn criteria(at: &At<'_>, message: &SuccessCriteria) -> Result<Criteria, Rejection> {
    fields!(at, message => SuccessCriteria { http_criteria, grpc_criteria; ignore; refuse });
    let at_http = at.field("http_criteria");
    let list = at_http.field("http_success_status");
    let http = match http_criteria {
        None => std::iter::once(100..500).collect(),
        Some(criteria) => {
            let ranges = criteria.http_success_status.iter().enumerate();
            let ranges = ranges.map(|(index, range)| {
                let ends = (u16::try_from(range.start), u16::try_from(range.end));
                match ends {
                    (Ok(start @ 100..), Ok(end @ ..=600)) if start < end => Ok(start..end),
                    _ => Err(list.index(index).error("must be a range within 100 to 600")),
                }
            });
            ranges.collect::<Result<_, _>>()?
        }
    };
    let at_grpc = at.field("grpc_criteria");
    let list = at_grpc.field("grpc_success_status");
    let grpc = match grpc_criteria {
        None => USUAL_CALLS.into(),
        Some(criteria) => {
            let statuses = criteria.grpc_success_status.iter().enumerate();
            let statuses = statuses.map(|(index, status)| match status {
                0..=16 => Ok(*status),
                _ => Err(list.index(index).error("must be at most 16")),
            });
            statuses.collect::<Result<_, _>>()?
        }
    };
    Ok((http, grpc))
}
