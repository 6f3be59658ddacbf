//! What the controller makes of a cluster whose parts fail. These tests break what all others need, so they have a lab of
//! their own and run one after the other. Runs inside a lab: `cargo xtask test --tier cluster`.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod definitions;

use anyhow::Result;
use e2e::{
    lab::{Kind, PATIENCE, Tenant, is},
    process::wait_for,
    stack::DataPlane,
};

const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: NAME, namespace: TENANT }
spec:
  gatewayClassName: TENANT
  listeners: [{ name: http, protocol: HTTP, port: 80 }]
";

#[test]
fn an_api_server_that_was_away_is_caught_up_with() -> Result<()> {
    let tenant = Tenant::install("away", &DataPlane::EdgeProxy)?;
    tenant.explain(catches_up(&tenant))
}

fn catches_up(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let accepted = |name: &str| {
        tenant.apply(&GATEWAY.replace("NAME", name))?;
        let gateway = tenant.object(&Kind::gateway_api("Gateway"), name);
        lab.wait_until(&gateway, "to be accepted", |gateway| is(gateway, "Accepted", "True"))
    };
    let said = |text: &str| {
        wait_for(&format!("{text:?} in the controller's log"), PATIENCE, || {
            Ok(lab.logs(&tenant.system.name).contains(text).then_some(()))
        })
    };
    accepted("before")?;
    let before = tenant.replicas()?;
    lab.stop_api_server()?;
    // Long enough that it gives up what it can't renew.
    said("this replica doesn't lead any more")?;
    lab.start_api_server()?;
    accepted("after")?;
    // The same one: it has waited, not begun again.
    assert_eq!(tenant.replicas()?, before);
    let pods = lab.list(&Kind::core("Pod"), &tenant.system.name, "control-plane=edge-gateway")?;
    assert_eq!(pods[0]["status"]["containerStatuses"][0]["restartCount"], 0);
    Ok(())
}
