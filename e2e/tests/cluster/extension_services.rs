//! Kinds that only extension services know: defined by their users, read once they are, with the rights that an
//! installation has.

use anyhow::{Result, ensure};
use e2e::{
    lab::{Kind, Lab, Object, Tenant, Terms, condition, on_parent, writes},
    stack::DataPlane,
};
use serde_json::{Value, json};

/// Defines a kind of the group, with statuses.
fn definition(kind: &str, plural: &str, singular: &str) -> String {
    let free = "{ type: object, x-kubernetes-preserve-unknown-fields: true }";
    format!(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{ name: {plural}.sample.example.com }}
spec:
  group: sample.example.com
  names: {{ kind: {kind}, plural: {plural}, singular: {singular} }}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {{ status: {{}} }}
      schema: {{ openAPIV3Schema: {{ type: object, properties: {{ spec: {free}, status: {free} }} }} }}
"
    )
}

/// Defines it, and waits until it is there.
fn define(lab: &Lab, kind: &str, plural: &str, singular: &str) -> Result<Kind> {
    lab.apply(&definition(kind, plural, singular))?;
    let defined = Kind::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    lab.wait_until_true(&defined.for_all(&format!("{plural}.sample.example.com")), "Established")?;
    let kind = Kind::new("sample.example.com/v1", kind);
    lab.wait_until_served(&kind)?;
    Ok(kind)
}

/// Nobody is there to be called, and nobody needs to be: what is asked for is whether objects are found.
const MANAGER: &str = "{ failOpen: true, service: { host: nobody.invalid }, \
                       resources: [{ group: sample.example.com, version: v1, kind: Cache }], \
                       hooks: { xdsTranslator: { post: [Route] } } }";

#[test]
fn objects_of_kinds_that_services_know_are_found() -> Result<()> {
    let terms = Terms {
        extension_manager: Some(MANAGER),
        ..Terms::default()
    };
    let tenant = Tenant::install_with("extended", &DataPlane::EdgeProxy, terms)?;
    tenant.explain(are_found(&tenant))
}

fn are_found(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    tenant.front()?;
    let address = tenant.address("front", 80)?;
    let filter = json!({
        "type": "ExtensionRef",
        "extensionRef": { "group": "sample.example.com", "kind": "Cache", "name": "long" },
    });
    let spec = json!({
        "parentRefs": [{ "name": "front" }],
        "hostnames": ["cached.example.com"],
        "rules": [{ "filters": [filter], "backendRefs": [{ "name": "echo", "port": 80 }] }],
    });
    let route = tenant.make(&Kind::gateway_api("HTTPRoute"), "cached", &spec)?;
    let resolves = |wanted: &'static str| {
        move |route: &Value| on_parent(route, "gateway.edge/extended", "ResolvedRefs")["status"] == wanted
    };
    // The kind isn't defined yet.
    lab.wait_until(&route, "to miss its object", resolves("False"))?;
    tenant.wait_for_status(address, "cached.example.com", "/", 500)?;
    let cache = define(lab, "Cache", "caches", "cache")?;
    let long = tenant.make(&cache, "long", &json!({ "seconds": 60 }))?;
    lab.wait_until(&route, "to find its object", resolves("True"))?;
    tenant.wait_for_status(address, "cached.example.com", "/", 200)?;
    lab.delete(&long)?;
    lab.wait_until(&route, "to miss its object again", resolves("False"))?;
    tenant.wait_for_status(address, "cached.example.com", "/", 500)?;
    Ok(())
}

const ATTACHED: &str = "{ failOpen: true, service: { host: nobody.invalid }, \
                        policyResources: [{ group: sample.example.com, version: v1, kind: Limit }], \
                        backendResources: [{ group: sample.example.com, version: v1, kind: Pool }], \
                        hooks: { xdsTranslator: { post: [Route, Cluster] } } }";

#[test]
fn policies_that_services_know_are_told_whom_they_are_for() -> Result<()> {
    let terms = Terms {
        extension_manager: Some(ATTACHED),
        ..Terms::default()
    };
    let tenant = Tenant::install_with("attached", &DataPlane::EdgeProxy, terms)?;
    tenant.explain(are_told(&tenant).and_then(|()| backends_are_found(&tenant)))
}

/// Who writes to the status of a policy besides us.
const OTHER: &str = "other.example.com/controller";

fn are_told(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let limit = define(lab, "Limit", "limits", "limit")?;
    tenant.front()?;
    tenant.route("limited", "front", "limited.example.com", "echo")?;
    let target = |name: &str, section: Option<&str>| {
        json!({ "targetRefs": [{
            "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name, "sectionName": section,
        }] })
    };
    let strict = tenant.make(&limit, "strict", &target("limited", None))?;
    let told = lab.wait_until(&strict, "to be accepted", |policy| accepted(policy) == "True")?;
    let ours = ours(&told);
    ensure!(ours["ancestorRef"]["name"] == "front", "it hangs under {ours:#}");

    // What others say of it stays, and nothing is written again for it.
    let mut all: Vec<Value> = told["status"]["ancestors"].as_array().cloned().unwrap_or_default();
    let theirs = json!({
        "ancestorRef": { "name": "elsewhere" }, "controllerName": OTHER, "conditions": [],
    });
    all.push(theirs.clone());
    lab.change_status(&strict, &json!({ "status": { "ancestors": all } }))?;
    let mut record = lab.record(&limit, &tenant.apps.name)?;
    record.statuses(&strict)?;
    lab.change(&strict, &json!({ "spec": target("limited", Some("gone")) }))?;
    lab.wait_until(&strict, "to miss the rule", |policy| accepted(policy) == "False")?;
    let said = record.statuses(&strict)?;
    ensure!(writes(said.values()) == 1, "it was told more than once: {said:#?}");

    // For nobody of ours.
    lab.change(&strict, &json!({ "spec": target("nobody", None) }))?;
    let left = lab.wait_until(&strict, "to be left alone", |policy| accepted(policy).is_null())?;
    let left = &left["status"]["ancestors"];
    ensure!(*left == json!([theirs]), "what is left is {left:#}");
    lab.change(&strict, &json!({ "spec": target("limited", None) }))?;
    lab.wait_until(&strict, "to be accepted again", |policy| accepted(policy) == "True")?;
    lab.delete(&tenant.object(&Kind::gateway_api("HTTPRoute"), "limited"))?;
    lab.wait_until(&strict, "to be left alone with the route", |policy| {
        accepted(policy).is_null()
    })?;
    Ok(())
}

/// What our controller says of a policy.
fn ours(policy: &Value) -> Value {
    let ancestors = policy["status"]["ancestors"].as_array().into_iter().flatten();
    let mut ours = ancestors.filter(|ancestor| ancestor["controllerName"] == "gateway.edge/attached");
    ours.next().cloned().unwrap_or_default()
}

fn accepted(policy: &Value) -> Value {
    condition(&ours(policy)["conditions"], "Accepted")["status"].clone()
}

fn backends_are_found(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let pool = define(lab, "Pool", "pools", "pool")?;
    let address = tenant.address("front", 80)?;
    let spec = json!({
        "parentRefs": [{ "name": "front" }],
        "hostnames": ["pooled.example.com"],
        "rules": [{ "backendRefs": [{ "group": "sample.example.com", "kind": "Pool", "name": "far" }] }],
    });
    let route: Object = tenant.make(&Kind::gateway_api("HTTPRoute"), "pooled", &spec)?;
    let resolves = |wanted: &'static str| {
        move |route: &Value| on_parent(route, "gateway.edge/attached", "ResolvedRefs")["reason"] == wanted
    };
    lab.wait_until(&route, "to miss its backend", resolves("BackendNotFound"))?;
    tenant.wait_for_status(address, "pooled.example.com", "/", 500)?;
    let far = tenant.make(&pool, "far", &json!({ "says": "nothing" }))?;
    lab.wait_until(&route, "to find its backend", resolves("ResolvedRefs"))?;
    // Nobody has said where it is.
    tenant.wait_for_status(address, "pooled.example.com", "/", 503)?;
    lab.delete(&far)?;
    lab.wait_until(&route, "to miss its backend again", resolves("BackendNotFound"))?;
    tenant.wait_for_status(address, "pooled.example.com", "/", 500)?;
    Ok(())
}
