//! A fleet of 10,000 routes end to end (`e2e/benches/fleet.rs`), with our proxy and with stock Envoy.

use super::report;
use crate::workspace::{Profile, Programs};
use anyhow::Result;

/// Measures and publishes.
pub(crate) fn run() -> Result<()> {
    let programs = Programs::build(Profile::Dist)?;
    let table = report::table(&mut report::bench("fleet")?, &programs)?;
    let body = format!(
        "`edgegateway` with 10,000 HTTPRoutes, 5,000 Services and 5,000 EndpointSlices in files, its proxy as a process \
         beside it with a worker for each core; one more HTTPRoute is saved in 21 versions, and the median time is \
         given until the proxy answers by the new one (10 ms of it are the wait for a pause in writing):\n\n{table}"
    );
    report::publish("fleet", "cargo xtask bench fleet", &body)
}
