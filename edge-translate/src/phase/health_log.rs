//! Logs of the probes of backends, as an EdgeProxy and policies write them.

use crate::api::edge_proxy::telemetry::{HealthCheckEvent as Event, HealthCheckLog, HealthCheckLogSink};
use edge_ir::HealthLog;

/// Where events go when nothing is said.
const STDOUT: &str = "/dev/stdout";

/// What is logged, or why it can't be.
pub(crate) fn log(spec: &HealthCheckLog) -> Result<HealthLog, String> {
    let path = match &*spec.sinks {
        [] => STDOUT,
        [HealthCheckLogSink { file: Some(file), .. }] => file.path.as_deref().unwrap_or(STDOUT),
        [_] => return Err("If ProxyHealthCheckLogSink type is File, file field needs to be set.".to_owned()),
        _ => return Err("at most one sink of healthCheckLog is supported".to_owned()),
    };
    if path.is_empty() {
        return Err("path of healthCheckLog must not be empty".to_owned());
    }
    let wants = |event: &Event| spec.matches.contains(event);
    if let Some(Event::Other(other)) = spec.matches.iter().find(|event| matches!(event, Event::Other(_))) {
        return Err(format!("unsupported event {other} of healthCheckLog"));
    }
    let (failures, successes) = (
        wants(&Event::Failure) || wants(&Event::FailureSeriesStart),
        wants(&Event::Success) || wants(&Event::HealthyTransition),
    );
    // A proxy logs either side whatever else it logs.
    if failures != successes {
        return Err("a failure type and a success type must both be specified together".to_owned());
    }
    let all = spec.matches.is_empty();
    Ok(HealthLog {
        path: path.into(),
        all_failures: all || wants(&Event::Failure),
        all_successes: all || wants(&Event::Success),
    })
}
