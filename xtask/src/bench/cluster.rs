//! The controller in a real cluster on this machine (`e2e/benches/cluster`), with our proxy.

use super::report;
use crate::{
    lab::Lab,
    workspace::{Profile, Programs},
};
use anyhow::Result;

/// Measures and publishes.
pub(crate) fn run() -> Result<()> {
    let lab = Lab::build()?;
    let programs = Programs::build(Profile::Dist)?;
    let mut bench = report::bench("cluster")?;
    lab.around(&mut bench, "bench")?;
    let table = report::table(&mut bench, &programs)?;
    let body = format!(
        "`edgegateway` with its default limits and one `edge-proxy`, in the test cluster (`e2e/kubelab`) on the same \
         machine; routes of two rules and three matches, a Service with two endpoints for every two of them:\n\n{table}"
    );
    report::publish("cluster", "cargo xtask bench cluster", &body)
}
