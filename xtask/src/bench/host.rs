//! Many routes in one host, under the controller (`e2e/benches/one_host.rs`), with our proxy and with stock Envoy.

use super::report;
use crate::workspace::{Profile, Programs};
use anyhow::Result;

/// Measures and publishes.
pub(crate) fn run() -> Result<()> {
    let programs = Programs::build(Profile::Dist)?;
    let table = report::table(&mut report::bench("one_host")?, &programs)?;
    let body = format!(
        "CPU µs of the proxy for a request of 1 kB to the last of so many HTTPRoutes of one host, which match by the \
         beginnings of paths, without access log; HTTP/1.1, 64 connections, all workers on one core, load and backend on \
         another; median of three runs of 3 s. Below, what Envoy takes with the smallest configuration that passes requests on:\n\n{table}"
    );
    report::publish("host", "cargo xtask bench host", &body)
}
