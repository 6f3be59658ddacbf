//! What a Gateway brings into the cluster, from its first request to its end.

use anyhow::{Result, ensure};
use e2e::{
    lab::{Kind, Tenant, is_rolled_out},
    stack::DataPlane,
    with_each_data_plane,
};
use serde_json::json;

with_each_data_plane! {
    a_gateway_serves_grows_and_goes,
}

fn a_gateway_serves_grows_and_goes(plane: &DataPlane) -> Result<()> {
    let tenant = Tenant::install(&format!("fleet-{plane}"), plane)?;
    tenant.explain(serves_grows_and_goes(&tenant))
}

fn serves_grows_and_goes(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let services = Kind::core("Service");
    let gateway = tenant.front()?;
    let address = tenant.address("front", 80)?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    let missing = tenant.wait_for_status(address, "nobody.example", "/", 404)?;
    ensure!(
        missing.body.is_empty() && missing.header("content-length") == Some("0"),
        "{missing:?}"
    );

    let deployment = tenant.fleet_object(&Kind::new("apps/v1", "Deployment"), "front")?;
    tenant.set_proxies(&json!({"provider": {"cluster": {"envoyDeployment": {"replicas": 2}}}}))?;
    lab.wait_until(&deployment, "to have two ready pods", |workload| {
        workload["spec"]["replicas"] == 2 && is_rolled_out(workload, 2)
    })?;

    let made = tenant.made_for("front")?;
    ensure!(made.len() == 4, "{made:?}");
    lab.delete(&gateway)?;
    for object in made {
        lab.wait_until_gone(&object)?;
    }
    // What isn't of that Gateway stays.
    for kept in [
        services.named(&tenant.system.name, "edge-gateway"),
        services.named(&tenant.apps.name, "echo"),
    ] {
        ensure!(!lab.get(&kept)?.is_null(), "{kept} is gone");
    }
    Ok(())
}
