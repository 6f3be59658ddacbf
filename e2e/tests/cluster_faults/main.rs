//! What the controller makes of a cluster whose parts fail. These tests break what all others need, so they have a lab
//! of their own and run one after the other. Runs inside a lab: `cargo xtask test --tier cluster`.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod away;
mod definitions;
mod forbidden;
mod gateway_api;
mod malformed;
mod removal;

use anyhow::Result;
use e2e::lab::{Kind, Object, Tenant, is};

/// Makes a Gateway, and waits until it is accepted.
fn accepted(tenant: &Tenant, name: &str) -> Result<()> {
    await_acceptance(tenant, &tenant.gateway(name, None)?)
}

fn await_acceptance(tenant: &Tenant, gateway: &Object) -> Result<()> {
    let accepted = |gateway: &serde_json::Value| is(gateway, "Accepted", "True");
    tenant.lab.wait_until(gateway, "to be accepted", accepted).map(drop)
}

/// Whether the controller is the process that it was.
fn has_lasted(tenant: &Tenant) -> Result<()> {
    let pods = tenant
        .lab
        .list(&Kind::core("Pod"), &tenant.system.name, "control-plane=edge-gateway")?;
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0]["status"]["containerStatuses"][0]["restartCount"], 0);
    Ok(())
}
