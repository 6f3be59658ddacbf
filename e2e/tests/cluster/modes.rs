//! Where fleets live and how many Gateways share one.

use anyhow::{Result, ensure};
use e2e::{
    lab::{Kind, Tenant, Terms, condition, is},
    stack::DataPlane,
    with_each_data_plane,
};
use serde_json::json;

with_each_data_plane! {
    gateways_of_a_class_share_a_fleet,
    fleets_live_where_their_gateways_do,
}

fn gateways_of_a_class_share_a_fleet(plane: &DataPlane) -> Result<()> {
    let tenant = Tenant::install(&format!("merged-{plane}"), plane)?;
    tenant.explain(share(&tenant))
}

fn share(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    tenant.set_proxies(&json!({"mergeGateways": true}))?;
    tenant.echo()?;
    for name in ["one", "two"] {
        let hostname = format!("{name}.example.com");
        tenant.gateway(name, Some(&hostname))?;
        tenant.route(name, name, &hostname, "echo")?;
    }
    let address = tenant.address("one", 80)?;
    ensure!(tenant.address("two", 80)? == address, "two addresses");
    tenant.wait_for_status(address, "one.example.com", "/", 200)?;
    tenant.wait_for_status(address, "two.example.com", "/", 200)?;
    let owner = format!("gateway.edge/owning-gatewayclass={}", tenant.apps.name);
    let services = lab.list(&Kind::core("Service"), &tenant.system.name, &owner)?;
    ensure!(services.len() == 1, "{} Services", services.len());

    let rival = tenant.gateway("rival", Some("one.example.com"))?;
    lab.wait_until(&rival, "to have lost a hostname to an older Gateway", |gateway| {
        condition(&gateway["status"]["listeners"][0]["conditions"], "Conflicted")["status"] == "True"
    })?;
    tenant.wait_for_status(address, "one.example.com", "/", 200)?;
    Ok(())
}

fn fleets_live_where_their_gateways_do(plane: &DataPlane) -> Result<()> {
    let terms = Terms {
        deploy: Some("{ type: GatewayNamespace }"),
        ..Terms::default()
    };
    let tenant = Tenant::install_with(&format!("beside-{plane}"), plane, terms)?;
    tenant.explain(live_beside(&tenant))
}

fn live_beside(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let gateway = tenant.front()?;
    let address = tenant.address("front", 80)?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    let labels = "gateway.networking.k8s.io/gateway-name=front";
    let workloads = Kind::new("apps/v1", "Deployment");
    let fleet = lab.list(&workloads, &tenant.apps.name, labels)?;
    ensure!(fleet.len() == 1, "{} Deployments beside the Gateway", fleet.len());
    ensure!(
        fleet[0]["metadata"]["ownerReferences"][0]["kind"] == "Gateway",
        "{}",
        fleet[0]["metadata"]
    );
    // Nothing secret leaves the controller's namespace: proxies prove themselves by their tokens.
    let secrets = lab.list(&Kind::core("Secret"), &tenant.apps.name, "")?;
    ensure!(secrets.is_empty(), "{} Secrets beside the Gateway", secrets.len());
    ensure!(
        tenant.fleet(&workloads, "front")?.is_empty(),
        "a fleet beside the controller"
    );

    ensure!(is(&lab.get(&gateway)?, "Programmed", "True"), "not programmed any more");
    let mut made = Vec::new();
    for kind in [
        workloads,
        Kind::core("Service"),
        Kind::core("ConfigMap"),
        Kind::core("ServiceAccount"),
    ] {
        for object in lab.list(&kind, &tenant.apps.name, labels)? {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            made.push(kind.named(&tenant.apps.name, name));
        }
    }
    ensure!(made.len() == 4, "{made:?}");
    lab.delete(&gateway)?;
    for object in made {
        lab.wait_until_gone(&object)?;
    }
    Ok(())
}
