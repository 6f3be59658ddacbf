//! Definitions of kinds that come late, or let anything through.

use anyhow::{Context, Result, ensure};
use e2e::{
    lab::{Kind, Object, Tenant, on_parent, wait_for},
    stack::DataPlane,
};
use serde_json::{Value, json};

const IMPORTED: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: far, namespace: TENANT }
spec:
  parentRefs: [{ name: front }]
  rules: [{ backendRefs: [{ group: multicluster.x-k8s.io, kind: ServiceImport, name: far, port: 80 }] }]
";

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: serviceimports.multicluster.x-k8s.io }
spec:
  group: multicluster.x-k8s.io
  scope: Namespaced
  names: { kind: ServiceImport, plural: serviceimports, singular: serviceimport }
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
";

const IMPORT: &str = "
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: { name: far, namespace: TENANT }
spec: { type: ClusterSetIP, ips: [10.1.2.3], ports: [{ port: 80, protocol: TCP }] }
";

#[test]
fn a_kind_that_is_installed_later_is_read_without_a_restart() -> Result<()> {
    let tenant = Tenant::install("late", &DataPlane::EdgeProxy)?;
    tenant.explain(comes_late(&tenant))
}

fn comes_late(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    tenant.gateway("front", None)?;
    tenant.apply(IMPORTED)?;
    let route = tenant.object(&Kind::gateway_api("HTTPRoute"), "far");
    let resolved = |status: &'static str| {
        move |route: &Value| on_parent(route, "gateway.edge/late", "ResolvedRefs")["status"] == status
    };
    lab.wait_until(&route, "to miss its backend", resolved("False"))?;
    let definition = Kind::new("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        .for_all("serviceimports.multicluster.x-k8s.io");
    lab.apply(DEFINITION)?;
    let found = finds_its_backend(tenant, &definition, || {
        lab.wait_until(&route, "to have its backend", resolved("True"))
    });
    // Gone again with the definition, which other tests of this lab don't count on, however this one ends.
    lab.delete(&definition)?;
    found?;
    lab.wait_until(&route, "to miss its backend again", resolved("False"))?;
    Ok(())
}

fn finds_its_backend(tenant: &Tenant, definition: &Object, found: impl Fn() -> Result<Value>) -> Result<()> {
    let lab = tenant.lab;
    lab.wait_until_true(definition, "Established")?;
    // What says so is heard of before the part of the API server that serves the kind has heard it.
    wait_for("an import to be taken", || {
        Ok(tenant.apply(IMPORT).is_ok().then_some(()))
    })?;
    found().map(drop)
}

const STREAM: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: front, namespace: TENANT }
spec:
  gatewayClassName: TENANT
  listeners: [{ name: tcp, protocol: TCP, port: 9000 }]
---
apiVersion: v1
kind: Service
metadata: { name: db, namespace: TENANT }
spec: { ports: [{ port: 9000 }] }
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: { name: db, namespace: TENANT }
spec:
  parentRefs: [{ name: front }]
  rules: [{ backendRefs: [{ name: db, port: 9000 }] }]
";

#[test]
fn an_object_that_a_loose_definition_let_through_is_told_and_costs_no_other() -> Result<()> {
    let tenant = Tenant::install("loose", &DataPlane::EdgeProxy)?;
    tenant.explain(is_told(&tenant))
}

fn is_told(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    tenant.apply(STREAM)?;
    let route = tenant.object(&Kind::gateway_api("TCPRoute"), "db");
    let accepted = |route: &Value| on_parent(route, "gateway.edge/loose", "Accepted").clone();
    lab.wait_until(&route, "to be accepted", |route| accepted(route)["status"] == "True")?;
    let definition =
        Kind::new("apiextensions.k8s.io/v1", "CustomResourceDefinition").for_all("tcproutes.gateway.networking.k8s.io");
    let mut loose = lab.get(&definition)?;
    let versions = loose["spec"]["versions"].as_array_mut().context("no versions")?;
    for version in versions.iter_mut() {
        let properties = &mut version["schema"]["openAPIV3Schema"]["properties"];
        properties["spec"] = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    }
    lab.change(&definition, &json!({ "spec": { "versions": versions } }))?;
    let broken = json!({ "spec": { "rules": "none" } });
    // The API server takes a new definition in its own time.
    wait_for("the loose definition to hold", || {
        Ok(lab.change(&route, &broken).is_ok().then_some(()))
    })?;
    let told = lab.wait_until(&route, "to be told", |route| accepted(route)["status"] == "False")?;
    let message = accepted(&told)["message"].as_str().unwrap_or_default().to_owned();
    ensure!(message.contains("spec.rules: found the string"), "{message}");
    // Others don't notice, and it is all right again when it is mended.
    tenant.apply(&STREAM.replace("name: db, namespace", "name: other, namespace"))?;
    let other = tenant.object(&Kind::gateway_api("TCPRoute"), "other");
    lab.wait_until(&other, "to be judged", |route| !accepted(route).is_null())?;
    lab.change(
        &route,
        &json!({ "spec": { "rules": [{ "backendRefs": [{ "name": "db", "port": 9000 }] }] } }),
    )?;
    lab.wait_until(&route, "to be accepted again", |route| {
        accepted(route)["status"] == "True"
    })?;
    Ok(())
}
