//! Several replicas of the controller: one of them writes, and another when that one is gone.

use anyhow::{Context, Result};
use e2e::{
    lab::{Kind, Tenant, Terms},
    stack::DataPlane,
};

#[test]
fn a_replica_leads_and_another_follows_it() -> Result<()> {
    let tenant = Tenant::install_with(
        "replicas",
        &DataPlane::EdgeProxy,
        Terms {
            replicas: 2,
            ..Terms::default()
        },
    )?;
    tenant.explain(succession(&tenant))
}

fn succession(tenant: &Tenant) -> Result<()> {
    let lease = Kind::new("coordination.k8s.io/v1", "Lease").named(&tenant.system.name, "edge-gateway-leader");
    let holder = |lease: &serde_json::Value| lease["spec"]["holderIdentity"].as_str().map(str::to_owned);
    let is_held = |lease: &serde_json::Value| holder(lease).is_some_and(|name| !name.is_empty());
    let first = holder(&tenant.lab.wait_until(&lease, "to be held", is_held)?).context("no holder")?;
    let leader = tenant
        .replicas()?
        .into_iter()
        .find(|pod| first.starts_with(pod.as_str()));
    let leader = leader.with_context(|| format!("the holder {first} is no replica"))?;
    // Nothing is given up: the Lease runs out.
    tenant.lab.crash(&leader, "edgegateway")?;
    let next = tenant.lab.wait_until(&lease, "to be held by another", |lease| {
        is_held(lease) && holder(lease).as_ref() != Some(&first)
    })?;
    let next = holder(&next).context("no holder")?;
    assert!(
        tenant.replicas()?.iter().any(|pod| next.starts_with(pod.as_str())),
        "{next}"
    );
    Ok(())
}
