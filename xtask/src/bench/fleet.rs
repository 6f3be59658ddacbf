//! A fleet of 10,000 routes end to end (`e2e/benches/fleet.rs`), with our proxy and with stock Envoy.

use super::report;
use crate::{
    envoy,
    workspace::{self, Profile, Programs},
};
use anyhow::{Context, Result, bail};
use std::process::Stdio;

/// Measures and publishes.
pub(crate) fn run() -> Result<()> {
    let programs = Programs::build(Profile::Release)?;
    let output = workspace::cargo()?
        .args(["bench", "--quiet", "--locked", "-p", "e2e", "--bench", "fleet"])
        .env("EDGE_ENVOY", envoy::binary()?)
        .env("EDGE_PROGRAMS", programs.path(""))
        .stderr(Stdio::inherit())
        .output()
        .context("cargo can't be started")?;
    if !output.status.success() {
        bail!("the fleet's bench failed");
    }
    let table = String::from_utf8(output.stdout)?;
    let body = format!(
        "`edgegateway` with 10,000 HTTPRoutes, 5,000 Services and 5,000 EndpointSlices in files, its proxy as a process \
         beside it with a worker for each core; one more HTTPRoute is saved in 21 versions, and the median time is \
         given until the proxy answers by the new one (10 ms of it are the wait for a pause in writing):\n\n{table}"
    );
    report::publish("fleet", "cargo xtask bench fleet", &body)
}
