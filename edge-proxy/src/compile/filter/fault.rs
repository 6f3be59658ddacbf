//! HTTPFault → [`Faults`].

use envoy_types::pb::envoy::extensions::filters::common::fault::v3::FaultDelay;
use envoy_types::pb::envoy::extensions::filters::common::fault::v3::fault_delay::FaultDelaySecifier;
use envoy_types::pb::envoy::extensions::filters::http::fault::v3::fault_abort::ErrorType;
use envoy_types::pb::envoy::extensions::filters::http::fault::v3::{FaultAbort, HttpFault};
use envoy_types::pb::google::protobuf::Any;
use http::StatusCode;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, duration, fields, unpack};
use crate::compile::header::header_condition;
use crate::compile::route::fraction;
use crate::config::filter::fault::{Abort, Faults};
use crate::config::filter::{FilterKind, FilterSettings};

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterKind, Rejection> {
    faults(at, &unpack(at, config)?).map(FilterKind::Fault)
}

/// Compiles what a route says.
pub(super) fn of_route(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterSettings, Rejection> {
    faults(at, &unpack(at, config)?).map(FilterSettings::Fault)
}

fn faults(at: &At<'_>, message: &HttpFault) -> Result<Faults, Rejection> {
    fields!(at, message => HttpFault {
        delay, abort, headers;
        // Names of runtime values, which don't exist here, and of statistics.
        ignore delay_percent_runtime, abort_percent_runtime, delay_duration_runtime, abort_http_status_runtime,
               max_active_faults_runtime, response_rate_limit_percent_runtime, abort_grpc_status_runtime,
               disable_downstream_cluster_stats, filter_metadata;
        refuse upstream_cluster, downstream_nodes, max_active_faults, response_rate_limit
    });
    let list = at.field("headers");
    let conditions = headers.iter().enumerate();
    Ok(Faults {
        conditions: conditions
            .map(|(index, matcher)| header_condition(&list.index(index), matcher))
            .collect::<Result<_, _>>()?,
        delay: delay
            .as_ref()
            .map(|delay| self::delay(&at.field("delay"), delay))
            .transpose()?,
        abort: abort
            .as_ref()
            .map(|abort| self::abort(&at.field("abort"), abort))
            .transpose()?,
    })
}

fn delay(
    at: &At<'_>,
    message: &FaultDelay,
) -> Result<(crate::config::route::Fraction, std::time::Duration), Rejection> {
    fields!(at, message => FaultDelay { percentage, fault_delay_secifier; ignore; refuse });
    match fault_delay_secifier {
        Some(FaultDelaySecifier::FixedDelay(time)) => Ok((
            fraction(&at.field("percentage"), Some(&percentage.unwrap_or_default()))?,
            duration(&at.field("fixed_delay"), time)?,
        )),
        Some(FaultDelaySecifier::HeaderDelay(_)) => Err(at.unsupported("header_delay")),
        None => Err(at.field("fixed_delay").error("is required")),
    }
}

fn abort(at: &At<'_>, message: &FaultAbort) -> Result<(crate::config::route::Fraction, Abort), Rejection> {
    fields!(at, message => FaultAbort { percentage, error_type; ignore; refuse response_body });
    let share = fraction(&at.field("percentage"), Some(&percentage.unwrap_or_default()))?;
    match error_type {
        Some(ErrorType::HttpStatus(code)) => {
            let status = u16::try_from(*code).ok().filter(|code| (200..600).contains(code));
            let status = status.and_then(|code| StatusCode::from_u16(code).ok());
            let wrong = || {
                at.field("http_status")
                    .error(format!("{code} is not the status of a response"))
            };
            Ok((share, Abort::Http(status.ok_or_else(wrong)?)))
        }
        Some(ErrorType::GrpcStatus(code)) => Ok((share, Abort::Grpc(*code))),
        Some(ErrorType::HeaderAbort(_)) => Err(at.unsupported("header_abort")),
        None => Err(at.field("http_status").error("is required")),
    }
}
