//! What a Gateway brings into the cluster, from its first request to its end.

use anyhow::{Result, ensure};
use e2e::{
    lab::{Kind, Tenant},
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
    let (workloads, services) = (Kind::new("apps/v1", "Deployment"), Kind::core("Service"));
    let gateway = tenant.front()?;
    let address = tenant.address("front", 80)?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    let missing = tenant.wait_for_status(address, "nobody.example", "/", 404)?;
    ensure!(
        missing.body.is_empty() && missing.header("content-length") == Some("0"),
        "{missing:?}"
    );

    let deployment = tenant.fleet_object(&workloads, "front")?;
    tenant.set_proxies(&json!({"provider": {"cluster": {"envoyDeployment": {"replicas": 2}}}}))?;
    lab.wait_until(&deployment, "to have two ready pods", |workload| {
        workload["status"]["readyReplicas"] == 2
    })?;

    lab.delete(&gateway)?;
    lab.wait_until_gone(&deployment)?;
    for kind in [&services, &Kind::core("ConfigMap"), &Kind::core("ServiceAccount")] {
        for object in tenant.fleet(kind, "front")? {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            lab.wait_until_gone(&kind.named(&tenant.system.name, name))?;
        }
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
