//! Services that are made again, because no API server changes what is asked of them.

use anyhow::{Context, Result, ensure};
use e2e::{
    lab::{Kind, Tenant, condition},
    stack::DataPlane,
    with_each_data_plane,
};
use serde_json::{Value, json};

with_each_data_plane! {
    a_service_is_made_again_where_the_new_one_is_granted,
}

fn a_service_is_made_again_where_the_new_one_is_granted(plane: &DataPlane) -> Result<()> {
    let tenant = Tenant::install(&format!("remade-{plane}"), plane)?;
    tenant.explain(is_made_again(&tenant, plane))
}

fn is_made_again(tenant: &Tenant, plane: &DataPlane) -> Result<()> {
    let lab = tenant.lab;
    let gateway = tenant.front()?;
    tenant.address("front", 80)?;
    let service = tenant.fleet_object(&Kind::core("Service"), "front")?;
    let set = |service: Value| tenant.set_proxies(&json!({"provider": {"cluster": {"envoyService": service}}}));
    set(json!({"type": "ClusterIP"}))?;
    let inside = lab.wait_until(&service, "to be inside only", |service| {
        service["spec"]["type"] == "ClusterIP"
    })?;
    let running = inside["spec"]["clusterIP"].as_str().context("no address")?.to_owned();
    let reached = |ip: &str| Ok::<_, anyhow::Error>(std::net::SocketAddr::new(ip.parse()?, 80));
    tenant.wait_for_status(reached(&running)?, "www.example.com", "/", 200)?;
    let ask = |ip: &str| {
        let addresses = json!([{"type": "IPAddress", "value": ip}]);
        lab.change(&gateway, &json!({"spec": {"addresses": addresses}}))
    };

    // One that no Service has is refused before the running one goes.
    ask("192.0.2.77")?;
    lab.wait_until(&gateway, "to say that it can't have the address", |gateway| {
        condition(&gateway["status"]["conditions"], "Programmed")["reason"] == "AddressNotUsable"
    })?;
    let uid = &inside["metadata"]["uid"];
    ensure!(
        lab.get(&service)?["metadata"]["uid"] == *uid,
        "the running Service was given up"
    );
    tenant.wait_for_status(reached(&running)?, "www.example.com", "/", 200)?;

    let network = running.rsplitn(3, '.').last().unwrap_or_default();
    let host = match plane {
        DataPlane::EdgeProxy => 201,
        DataPlane::Envoy(_) => 202,
    };
    let wanted = format!("{network}.0.{host}");
    ask(&wanted)?;
    lab.wait_until(&service, "to have the address that is asked for", |service| {
        service["spec"]["clusterIP"] == wanted.as_str() && service["metadata"]["uid"] != *uid
    })?;
    lab.wait_until_true(&gateway, "Programmed")?;
    tenant.wait_for_status(reached(&wanted)?, "www.example.com", "/", 200)?;

    // Another load balancer, and none in particular again.
    lab.change(&gateway, &json!({"spec": {"addresses": null}}))?;
    set(json!({"type": "LoadBalancer"}))?;
    tenant.address("front", 80)?;
    for class in [json!("example.com/other"), Value::Null] {
        set(json!({"type": "LoadBalancer", "loadBalancerClass": class}))?;
        let wish = format!("to be for the load balancer {class}");
        lab.wait_until(&service, &wish, |service| {
            service["metadata"]["deletionTimestamp"].is_null() && service["spec"]["loadBalancerClass"] == class
        })?;
    }
    // The Gateway may still say where the one before was reached.
    let ingress = |service: &Value| service["status"]["loadBalancer"]["ingress"][0]["ip"].clone();
    let balanced = lab.wait_until(&service, "to have an address again", |service| {
        ingress(service).is_string()
    })?;
    let address = ingress(&balanced);
    lab.wait_until(&gateway, "to say where it is reached now", |gateway| {
        gateway["status"]["addresses"][0]["value"] == address
    })?;
    let address = address.as_str().unwrap_or_default();
    tenant
        .wait_for_status(reached(address)?, "www.example.com", "/", 200)
        .map(drop)
}
