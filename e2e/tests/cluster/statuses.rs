//! What the controller says about objects, and what it leaves alone.

use anyhow::{Result, ensure};
use e2e::{
    lab::{Kind, Tenant, condition, is},
    stack::DataPlane,
};
use serde_json::{Value, json};

/// A Gateway, a route to it, and the Service that the route names.
const SHOP: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: front, namespace: TENANT }
spec:
  gatewayClassName: TENANT
  listeners: [{ name: http, protocol: HTTP, port: 80 }]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: shop, namespace: TENANT }
spec:
  parentRefs: [{ name: front }]
  hostnames: [shop.example.com]
  rules: [{ backendRefs: [{ name: shop, port: 80 }] }]
";

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: { name: shop, namespace: TENANT }
spec:
  selector: { app: shop }
  ports: [{ port: 80 }]
";

/// A parent's condition on a route, by the name of its controller.
fn on_parent<'a>(route: &'a Value, controller: &str, kind: &str) -> &'a Value {
    let parents = route["status"]["parents"].as_array();
    let ours = parents.and_then(|all| all.iter().find(|parent| parent["controllerName"] == controller));
    ours.map_or(&Value::Null, |parent| condition(&parent["conditions"], kind))
}

#[test]
fn every_object_says_what_became_of_it() -> Result<()> {
    let tenant = Tenant::install("said", &DataPlane::EdgeProxy)?;
    tenant.explain(becomes(&tenant))
}

fn becomes(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let class = lab.wait_until_true(&Kind::gateway_api("GatewayClass").for_all("said"), "Accepted")?;
    let features = class["status"]["supportedFeatures"].as_array().map_or(0, Vec::len);
    ensure!(features > 10, "{features} features are claimed");
    tenant.apply(SHOP)?;
    let gateway = tenant.object(&Kind::gateway_api("Gateway"), "front");
    lab.wait_until(&gateway, "to be accepted with its route", |gateway| {
        let listener = &gateway["status"]["listeners"][0];
        is(gateway, "Accepted", "True")
            && listener["name"] == "http"
            && listener["attachedRoutes"] == 1
            && condition(&listener["conditions"], "Accepted")["status"] == "True"
    })?;
    let route = tenant.object(&Kind::gateway_api("HTTPRoute"), "shop");
    lab.wait_until(&route, "to miss its backend", |route| {
        let resolved = on_parent(route, "gateway.edge/said", "ResolvedRefs");
        resolved["status"] == "False" && resolved["reason"] == "BackendNotFound"
    })?;
    tenant.apply(SERVICE)?;
    lab.wait_until(&route, "to have its backend", |route| {
        ["Accepted", "ResolvedRefs"]
            .iter()
            .all(|kind| on_parent(route, "gateway.edge/said", kind)["status"] == "True")
    })?;
    lab.delete(&gateway)?;
    lab.wait_until(&route, "to be nobody's", |route| {
        on_parent(route, "gateway.edge/said", "Accepted").is_null()
    })?;
    Ok(())
}

#[test]
fn entries_of_other_controllers_stay() -> Result<()> {
    let tenant = Tenant::install("others", &DataPlane::EdgeProxy)?;
    tenant.explain(stays(&tenant))
}

fn stays(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    tenant.apply(SHOP)?;
    let route = tenant.object(&Kind::gateway_api("HTTPRoute"), "shop");
    let is_ours = |route: &Value| !on_parent(route, "gateway.edge/others", "Accepted").is_null();
    let written = lab.wait_until(&route, "to be judged", is_ours)?;
    let foreign = json!({
        "parentRef": {"name": "another"}, "controllerName": "example.com/another",
        "conditions": [{
            "type": "Accepted", "status": "True", "reason": "Accepted", "message": "theirs",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    });
    let mut parents = written["status"]["parents"].as_array().cloned().unwrap_or_default();
    parents.push(foreign.clone());
    lab.change_status(&route, &json!({"status": {"parents": parents}}))?;
    // A change that we answer to with a write of our own, on top of theirs.
    tenant.apply(SERVICE)?;
    let after = lab.wait_until(&route, "to have its backend", |route| {
        on_parent(route, "gateway.edge/others", "ResolvedRefs")["status"] == "True"
    })?;
    let theirs = on_parent(&after, "example.com/another", "Accepted");
    ensure!(theirs == &foreign["conditions"][0], "their condition is now {theirs}");
    Ok(())
}

#[test]
fn many_routes_at_once_are_written_once_each() -> Result<()> {
    let tenant = Tenant::install("many", &DataPlane::EdgeProxy)?;
    tenant.explain(once_each(&tenant))
}

fn once_each(tenant: &Tenant) -> Result<()> {
    const ROUTES: usize = 200;
    // The Gateway that they are all judged by: when it is seen, and when its routes are counted.
    const OTHERS: f64 = 3.0;
    let lab = tenant.lab;
    let (gateway, route) = SHOP.split_once("---").unwrap();
    let nth = |n: usize| route.replace("name: shop, namespace", &format!("name: shop-{n}, namespace"));
    tenant.apply(SERVICE)?;
    tenant.apply(&(0..ROUTES).map(nth).collect::<Vec<_>>().join("---"))?;
    let before = tenant.metric("status_update_total{status=\"success\"}")?;
    tenant.apply(gateway)?;
    let front = tenant.object(&Kind::gateway_api("Gateway"), "front");
    lab.wait_until(&front, "to have all routes", |gateway| {
        gateway["status"]["listeners"][0]["attachedRoutes"] == ROUTES
    })?;
    for n in 0..ROUTES {
        let route = tenant.object(&Kind::gateway_api("HTTPRoute"), &format!("shop-{n}"));
        lab.wait_until(&route, "to be judged", |route| {
            on_parent(route, "gateway.edge/many", "ResolvedRefs")["status"] == "True"
        })?;
    }
    let written = tenant.metric("status_update_total{status=\"success\"}")? - before;
    let routes = ROUTES as f64;
    ensure!(
        (routes..=routes + OTHERS).contains(&written),
        "{written} writes for {ROUTES} routes and a Gateway"
    );
    Ok(())
}
