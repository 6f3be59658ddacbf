//! Failures on purpose.

use super::Problems;
use crate::api::{
    BackendTrafficPolicySpec,
    fault::{FaultAbort as Abort, FaultDelay as Delay},
};
use edge_ir::{AbortStatus, Fault, FaultAbort, FaultDelay};

const AREA: &str = "FaultInjection";

/// Which requests fail on purpose.
pub(super) fn fault(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Option<Fault> {
    let fault = spec.fault_injection.as_deref()?;
    if fault.delay.is_none() && fault.abort.is_none() {
        problems.add(AREA, "Delay and abort faults are set at least one");
    }
    Some(Fault {
        delay: fault.delay.as_ref().and_then(|wait| delay(wait, problems)),
        abort: fault.abort.as_ref().and_then(|answer| abort(answer, problems)),
    })
}

fn delay(delay: &Delay, problems: &mut Problems) -> Option<FaultDelay> {
    let share = problems.percent(AREA, "delay.percentage", delay.percentage);
    Some(FaultDelay {
        time: problems.positive(AREA, "FixedDelay", Some(&delay.fixed_delay))?,
        share,
    })
}

fn abort(abort: &Abort, problems: &mut Problems) -> Option<FaultAbort> {
    let share = problems.percent(AREA, "abort.percentage", abort.percentage);
    let status = match (abort.http_status, abort.grpc_status) {
        (Some(code), None) => http(code, problems)?,
        (None, Some(code)) => grpc(code, problems)?,
        (Some(_), Some(_)) => {
            problems.add(AREA, "httpStatus and grpcStatus cannot be simultaneously defined");
            return None;
        }
        (None, None) => {
            problems.add(AREA, "httpStatus and grpcStatus are set at least one");
            return None;
        }
    };
    Some(FaultAbort { status, share })
}

/// Proxies answer with no more than 599, although the field may say 600.
fn http(code: i32, problems: &mut Problems) -> Option<AbortStatus> {
    let known = u16::try_from(code).ok().filter(|code| (200..600).contains(code));
    if known.is_none() {
        problems.add(
            AREA,
            format_args!("httpStatus value {code} is out of range, must be between 200 and 599"),
        );
    }
    known.map(AbortStatus::Http)
}

fn grpc(code: i32, problems: &mut Problems) -> Option<AbortStatus> {
    let known = u8::try_from(code).ok().filter(|code| *code <= 16);
    if known.is_none() {
        problems.add(
            AREA,
            format_args!("grpcStatus value {code} is out of range, must be between 0 and 16"),
        );
    }
    known.map(AbortStatus::Grpc)
}
