//! Fleets that are replaced while they serve: other images, other certificates, other addresses.

use crate::inspection::edgectl;
use anyhow::{Result, ensure};
use e2e::{
    lab::{Kind, PATIENCE, Tenant, is_rolled_out, wait_for},
    stack::{DataPlane, program},
    traffic::Traffic,
    with_each_data_plane,
};
use serde_json::json;
use std::process::Command;

with_each_data_plane! {
    an_image_is_replaced_under_load,
    certificates_are_replaced_under_load,
    a_fleet_has_the_families_it_is_set_to,
}

/// A tenant with a Gateway that serves `www.example.com`.
fn serving(scenario: &str, plane: &DataPlane, check: impl Fn(&Tenant) -> Result<()>) -> Result<()> {
    let tenant = Tenant::install(&format!("{scenario}-{plane}"), plane)?;
    let result = (|| {
        tenant.front()?;
        let address = tenant.address("front", 80)?;
        tenant.wait_for_status(address, "www.example.com", "/", 200)?;
        check(&tenant)
    })();
    tenant.explain(result)
}

fn an_image_is_replaced_under_load(plane: &DataPlane) -> Result<()> {
    let image = match plane {
        DataPlane::EdgeProxy => "edge-proxy:next",
        DataPlane::Envoy(_) => "envoy:next",
    };
    serving("upgrade", plane, |tenant| {
        let traffic = Traffic::start(tenant.address("front", 80)?, "www.example.com", 4);
        traffic.wait_for_more(100, PATIENCE)?;
        let deployment = json!({"container": {"image": image}, "replicas": 2});
        tenant.set_proxies(&json!({"provider": {"cluster": {"envoyDeployment": deployment}}}))?;
        let workload = tenant.fleet_object(&Kind::new("apps/v1", "Deployment"), "front")?;
        let mut shown = Vec::new();
        wait_for("the next image to run only", || {
            // Whichever pods come and go meanwhile, the others are shown.
            let labels = "gateway.edge/owning-gateway-name=front";
            shown.push(edgectl(tenant, &["config", "envoy-proxy", "listener", "-l", labels]));
            let workload = tenant.lab.get(&workload)?;
            let container = &workload["spec"]["template"]["spec"]["containers"][0];
            let is_next = container["image"] == image && workload["spec"]["replicas"] == 2;
            Ok((is_next && is_rolled_out(&workload, 2)).then_some(()))
        })?;
        shown.into_iter().try_for_each(|shown| shown.map(drop))?;
        traffic.wait_for_more(100, PATIENCE)?;
        traffic.stop_without_failure().map(drop)
    })
}

fn certificates_are_replaced_under_load(plane: &DataPlane) -> Result<()> {
    serving("rotation", plane, |tenant| {
        let address = tenant.address("front", 80)?;
        let proxies = tenant.proxies("front")?;
        let traffic = Traffic::start(address, "www.example.com", 4);
        traffic.wait_for_more(100, PATIENCE)?;
        let secret = Kind::core("Secret").named(&tenant.system.name, "edge-gateway");
        let certificate = || Ok::<_, anyhow::Error>(tenant.lab.get(&secret)?["data"]["tls.crt"].clone());
        let before = certificate()?;
        let made = Command::new(program("edgegateway")?)
            .args(["certgen", "--overwrite", "--disable-topology-injector"])
            .env("EDGE_GATEWAY_NAMESPACE", &tenant.system.name)
            .output()?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        ensure!(
            !before.is_null() && certificate()? != before,
            "the certificate is the old one"
        );
        // A controller that begins with the new certificate serves proxies that began with the old.
        tenant.scale(0)?;
        tenant.route("later", "front", "later.example.com", "echo")?;
        tenant.scale(1)?;
        tenant.wait_for_status(address, "later.example.com", "/", 200)?;
        traffic.wait_for_more(100, PATIENCE)?;
        traffic.stop_without_failure()?;
        let after = tenant.proxies("front")?;
        ensure!(
            after == proxies && after.len() == 1,
            "proxies were replaced: {proxies:?}, then {after:?}"
        );
        Ok(())
    })
}

fn a_fleet_has_the_families_it_is_set_to(plane: &DataPlane) -> Result<()> {
    serving("families", plane, |tenant| {
        let service = tenant.fleet_object(&Kind::core("Service"), "front")?;
        tenant.set_proxies(&json!({"ipFamily": "DualStack"}))?;
        tenant.lab.wait_until(&service, "to have both families", |service| {
            service["spec"]["ipFamilies"] == json!(["IPv4", "IPv6"])
                && service["status"]["loadBalancer"]["ingress"]
                    .as_array()
                    .map_or(0, Vec::len)
                    == 2
        })?;
        let gateway = tenant.object(&Kind::gateway_api("Gateway"), "front");
        let both = tenant.lab.wait_until(&gateway, "to tell both addresses", |gateway| {
            gateway["status"]["addresses"].as_array().map_or(0, Vec::len) == 2
        })?;
        for address in both["status"]["addresses"].as_array().into_iter().flatten() {
            let ip = address["value"].as_str().unwrap_or_default().parse()?;
            tenant.wait_for_status(std::net::SocketAddr::new(ip, 80), "www.example.com", "/", 200)?;
        }
        Ok(())
    })
}
