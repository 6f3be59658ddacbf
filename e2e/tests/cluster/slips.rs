//! Slips in an EdgeProxy: what serves goes on serving, and the controller may begin anew meanwhile.

use anyhow::{Result, ensure};
use e2e::{
    lab::{Kind, Tenant, condition, is},
    stack::DataPlane,
    with_each_data_plane,
};
use serde_json::json;

with_each_data_plane! {
    fleets_outlive_their_edge_proxies,
}

fn fleets_outlive_their_edge_proxies(plane: &DataPlane) -> Result<()> {
    let tenant = Tenant::install(&format!("slips-{plane}"), plane)?;
    tenant.explain(outlive(&tenant, plane))
}

/// One fleet has an account of its own name, the other one that the EdgeProxy of the class names.
fn outlive(tenant: &Tenant, plane: &DataPlane) -> Result<()> {
    let lab = tenant.lab;
    tenant.set_proxies(&json!({"provider": {"cluster": {"envoyServiceAccount": {"name": "named"}}}}))?;
    tenant.front()?;
    let deployment = json!({"container": {"image": plane.image()}});
    tenant.gateway_with(
        "own",
        &json!({"provider": {"type": "Cluster", "cluster": {"envoyDeployment": deployment}}}),
    )?;
    let names = ["front", "own"];
    let mut before = Vec::new();
    for name in names {
        let address = tenant.address(name, 80)?;
        tenant.wait_for_status(address, "www.example.com", "/", 200)?;
        before.push((address, tenant.proxies(name)?));
    }

    lab.delete(&Kind::edge("EdgeProxy").named(&tenant.system.name, "proxies"))?;
    lab.delete(&tenant.object(&Kind::edge("EdgeProxy"), "own"))?;
    let gateways = names.map(|name| tenant.object(&Kind::gateway_api("Gateway"), name));
    let says_so = |gateway: &serde_json::Value| {
        let accepted = condition(&gateway["status"]["conditions"], "Accepted");
        accepted["status"] == "False" && accepted["reason"] == "InvalidParameters"
    };
    for gateway in &gateways {
        lab.wait_until(gateway, "to say that its parameters are gone", says_so)?;
    }
    tenant.scale(0)?;
    tenant.scale(1)?;
    for ((name, gateway), (address, proxies)) in names.iter().zip(&gateways).zip(&before) {
        let host = format!("later-{name}.example.com");
        tenant.route(&format!("later-{name}"), name, &host, "echo")?;
        tenant.wait_for_status(*address, &host, "/", 200)?;
        let after = tenant.proxies(name)?;
        ensure!(after == *proxies, "proxies were replaced: {proxies:?}, then {after:?}");
        // What it said before may stand there yet, so something has to change for all to see.
        let workload = tenant.fleet_object(&Kind::new("apps/v1", "Deployment"), name)?;
        for (replicas, status) in [(0, "False"), (1, "True")] {
            lab.change(&workload, &json!({ "spec": { "replicas": replicas } }))?;
            lab.wait_until(gateway, "to say whether it is programmed all the same", |gateway| {
                says_so(gateway) && is(gateway, "Programmed", status)
            })?;
        }
    }
    Ok(())
}
