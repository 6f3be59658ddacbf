//! `edge-conformance DATA_PLANE MODE SUITE [FLAG…]` inside of the test cluster: installs a controller for all
//! namespaces with its class `edge`, and becomes the conformance suite. `cargo xtask conformance` runs it.

use anyhow::{Result, bail};
use e2e::{
    lab::{Tenant, Terms},
    stack::DataPlane,
};
use serde_json::json;
use std::process::{Command, ExitCode};

fn main() -> Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [plane, mode, suite, flags @ ..] = &args[..] else {
        bail!("usage: edge-conformance DATA_PLANE MODE SUITE [FLAG…]");
    };
    let plane = match plane.as_str() {
        "edge-proxy" => DataPlane::EdgeProxy,
        "envoy" => DataPlane::envoy()?,
        other => bail!("there is no data plane {other:?}: edge-proxy or envoy"),
    };
    let deploy = (mode == "gateway-namespace").then_some("{ type: GatewayNamespace }");
    let terms = Terms {
        watch: Some("null"),
        deploy,
        ..Terms::default()
    };
    let tenant = Tenant::install_with("edge", &plane, terms)?;
    if mode == "merged" {
        tenant.set_proxies(&json!({ "mergeGateways": true }))?;
    }
    let status = Command::new(suite).args(flags).status()?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
