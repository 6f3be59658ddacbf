//! What the controller says about objects, and what it leaves alone.

use anyhow::{Result, ensure};
use e2e::{
    lab::{Kind, PATIENCE, Tenant, condition, is, is_held, on_parent, said_once, wait_for, writes},
    stack::DataPlane,
    traffic::Traffic,
};
use serde_json::{Value, json};
use std::time::Instant;

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: { name: shop, namespace: TENANT }
spec:
  selector: { app: shop }
  ports: [{ port: 80 }]
";

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
    let gateway = tenant.gateway("front", None)?;
    let route = tenant.route("shop", "front", "shop.example.com", "shop")?;
    lab.wait_until(&gateway, "to be accepted with its route", |gateway| {
        let listener = &gateway["status"]["listeners"][0];
        is(gateway, "Accepted", "True")
            && listener["name"] == "http"
            && listener["attachedRoutes"] == 1
            && condition(&listener["conditions"], "Accepted")["status"] == "True"
    })?;
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
fn a_class_stays_while_there_are_gateways_of_it() -> Result<()> {
    let tenant = Tenant::install("held", &DataPlane::EdgeProxy)?;
    tenant.explain(is_held_while_used(&tenant))
}

fn is_held_while_used(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let class = Kind::gateway_api("GatewayClass").for_all("held");
    let gateways = [tenant.gateway("front", None)?, tenant.gateway("back", None)?];
    for gateway in &gateways {
        lab.wait_until_true(gateway, "Programmed")?;
    }
    let held = lab.wait_until(&class, "to be held", is_held)?;
    ensure!(is(&held, "Accepted", "True"), "{held}");
    lab.delete(&class)?;
    lab.delete(&gateways[0])?;
    // It is deleted, and what is left of it serves and follows what is asked of it.
    let port = json!({"spec": {"listeners": [{"name": "http", "protocol": "HTTP", "port": 8080}]}});
    lab.change(&gateways[1], &port)?;
    lab.wait_until_true(&gateways[1], "Programmed")?;
    let deleted = lab.get(&class)?;
    ensure!(
        is_held(&deleted) && deleted["metadata"]["deletionTimestamp"].is_string(),
        "{deleted}"
    );
    lab.delete(&gateways[1])?;
    lab.wait_until_gone(&class)
}

/// As Argo CD prunes.
#[test]
fn a_class_that_is_deleted_with_its_dependents_first_takes_no_fleet_with_it() -> Result<()> {
    let tenant = Tenant::install("pruned", &DataPlane::EdgeProxy)?;
    tenant.explain(outlives_its_class(&tenant))
}

fn outlives_its_class(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let class = Kind::gateway_api("GatewayClass").for_all("pruned");
    let gateway = tenant.front()?;
    let address = tenant.address("front", 80)?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    lab.wait_until(&class, "to be held", is_held)?;
    let uids = || -> Result<Vec<Value>> {
        let objects = tenant.made_for("front")?;
        let uid = |object| Ok(lab.get(object)?["metadata"]["uid"].clone());
        objects.iter().map(uid).collect()
    };
    let before = uids()?;
    let traffic = Traffic::start(address, "www.example.com", 4);
    traffic.wait_for_more(100, PATIENCE)?;
    lab.delete_dependents_first(&class)?;
    // The garbage collector has been through with it then.
    lab.wait_until(&class, "to wait for its Gateways alone", |class| {
        class["metadata"]["deletionTimestamp"].is_string()
            && class["metadata"]["finalizers"].as_array().map(Vec::len) == Some(1)
    })?;
    traffic.wait_for_more(500, PATIENCE)?;
    traffic.stop_without_failure()?;
    ensure!(uids()? == before, "its fleet was made anew");
    lab.delete(&gateway)?;
    lab.wait_until_gone(&class)
}

/// A change freeze, as clusters have them.
const FREEZE: &str = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: { name: frozen }
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: frozen } }
    resourceRules:
    - { apiGroups: [gateway.networking.k8s.io], apiVersions: ['*'], operations: [UPDATE], resources: [httproutes/status] }
  validations: [{ expression: 'false', message: change freeze }]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: { name: frozen }
spec: { policyName: frozen, validationActions: [Deny] }
";

#[test]
fn what_admission_denied_is_said_once_it_allows_that() -> Result<()> {
    let tenant = Tenant::install("frozen", &DataPlane::EdgeProxy)?;
    tenant.explain(is_said_after_a_freeze(&tenant))
}

fn is_said_after_a_freeze(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    lab.wait_until_true(&tenant.gateway("front", None)?, "Accepted")?;
    let is_accepted = |route: &Value| on_parent(route, "gateway.edge/frozen", "Accepted")["status"] == "True";
    let first = tenant.route("first", "front", "first.example.com", "none")?;
    lab.wait_until(&first, "to be accepted", is_accepted)?;
    lab.apply(FREEZE)?;
    wait_for("the freeze to begin", || {
        let changed = lab.change_status(&first, &json!({"status": {"parents": []}}));
        Ok(changed.is_err().then_some(()))
    })?;
    let route = tenant.route("later", "front", "later.example.com", "none")?;
    tenant.wait_for_log("change freeze")?;
    for kind in ["ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"] {
        lab.delete(&Kind::new("admissionregistration.k8s.io/v1", kind).for_all("frozen"))?;
    }
    lab.wait_until(&route, "to be accepted", is_accepted)?;
    lab.wait_until(&first, "to be accepted again", is_accepted).map(drop)
}

#[test]
fn a_listener_set_without_its_gateway_is_not_accepted_any_more() -> Result<()> {
    let tenant = Tenant::install("left", &DataPlane::EdgeProxy)?;
    tenant.explain(is_left(&tenant))
}

fn is_left(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    tenant.apply(
        "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: front, namespace: TENANT}, spec: \
         {gatewayClassName: TENANT, allowedListeners: {namespaces: {from: Same}}, listeners: [{name: http, protocol: HTTP, \
         port: 80}]}}",
    )?;
    tenant.apply(
        "{apiVersion: gateway.networking.k8s.io/v1, kind: ListenerSet, metadata: {name: more, namespace: TENANT}, spec: \
         {parentRef: {name: front}, listeners: [{name: more, protocol: HTTP, port: 81}]}}",
    )?;
    let set = tenant.object(&Kind::gateway_api("ListenerSet"), "more");
    lab.wait_until_true(&set, "Programmed")?;
    lab.delete(&tenant.object(&Kind::gateway_api("Gateway"), "front"))?;
    lab.wait_until(&set, "to be nobody's", |set| {
        let accepted = condition(&set["status"]["conditions"], "Accepted");
        let listeners = set["status"]["listeners"].as_array().map_or(0, Vec::len);
        accepted["reason"] == "ParentNotAccepted" && is(set, "Programmed", "False") && listeners == 0
    })
    .map(drop)
}

#[test]
fn an_edge_proxy_has_one_entry_for_each_of_its_users() -> Result<()> {
    let tenant = Tenant::install("edited", &DataPlane::EdgeProxy)?;
    tenant.explain(has_one_entry(&tenant))
}

fn has_one_entry(tenant: &Tenant) -> Result<()> {
    // More than there is room for.
    const EDITS: usize = 20;
    let lab = tenant.lab;
    let proxy = Kind::new("gateway.edge/v1alpha1", "EdgeProxy").named(&tenant.system.name, "proxies");
    let is_up_to_date = |proxy: &Value| {
        let accepted = condition(&proxy["status"]["ancestors"][0]["conditions"], "Accepted");
        accepted["observedGeneration"] == proxy["metadata"]["generation"]
    };
    for edit in 0..EDITS {
        let deployment = json!({"pod": {"annotations": {"edit": edit.to_string()}}});
        let provider = json!({"cluster": {"envoyDeployment": deployment}});
        lab.change(&proxy, &json!({"spec": {"provider": provider}}))?;
        let edited = lab.wait_until(&proxy, "to be judged again", is_up_to_date)?;
        let ancestors = &edited["status"]["ancestors"];
        let is_one = ancestors.as_array().is_some_and(|all| all.len() == 1);
        ensure!(
            is_one && ancestors[0]["controllerName"] == "gateway.edge/edited",
            "{ancestors}"
        );
    }
    Ok(())
}

#[test]
fn entries_of_other_controllers_stay() -> Result<()> {
    let tenant = Tenant::install("others", &DataPlane::EdgeProxy)?;
    tenant.explain(stays(&tenant))
}

fn stays(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    tenant.gateway("front", None)?;
    let route = tenant.route("shop", "front", "shop.example.com", "shop")?;
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
fn routes_that_come_together_are_counted_a_few_times() -> Result<()> {
    let tenant = Tenant::install("counted", &DataPlane::EdgeProxy)?;
    tenant.explain(counted(&tenant))
}

fn counted(tenant: &Tenant) -> Result<()> {
    const ROUTES: usize = 300;
    let lab = tenant.lab;
    tenant.apply(SERVICE)?;
    let front = tenant.gateway("front", None)?;
    lab.wait_until_true(&front, "Programmed")?;
    let mut record = lab.record(&Kind::gateway_api("Gateway"), &tenant.apps.name)?;
    let begun = Instant::now();
    let route = |n: usize| {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": format!("shop-{n}"), "namespace": tenant.apps.name},
            "spec": {
                "parentRefs": [{"name": "front"}],
                "rules": [{"backendRefs": [{"name": "shop", "port": 80}]}],
            },
        })
    };
    lab.create_all(&(0..ROUTES).map(route).collect::<Vec<_>>())?;
    lab.wait_until(&front, "to have all routes", |gateway| {
        gateway["status"]["listeners"][0]["attachedRoutes"] == ROUTES
    })?;
    // At the start, and then when they pause for a second: no more often than that, however slow this machine is.
    let limit = 2 + usize::try_from(begun.elapsed().as_secs())?;
    let statuses = record.statuses(&front)?;
    said_once(&statuses)?;
    let written = writes(statuses.values());
    ensure!(
        (1..=limit).contains(&written),
        "{written} writes, {limit} at most: {statuses:#?}"
    );
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
    tenant.apply(SERVICE)?;
    let nth = |n: usize| tenant.route(&format!("shop-{n}"), "front", "shop.example.com", "shop");
    let all = (0..ROUTES).map(nth).collect::<Result<Vec<_>>>()?;
    let before = tenant.metric("status_update_total{status=\"success\"}")?;
    let front = tenant.gateway("front", None)?;
    lab.wait_until(&front, "to have all routes", |gateway| {
        gateway["status"]["listeners"][0]["attachedRoutes"] == ROUTES
    })?;
    for route in &all {
        lab.wait_until(route, "to be judged", |route| {
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
