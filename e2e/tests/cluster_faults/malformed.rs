//! Objects that no definition should have let through: of every kind one that can't be read, and one that is as large
//! as can be. Each is told, and costs nobody else anything.

use super::has_lasted;
use anyhow::{Context, Result};
use e2e::{
    lab::{Kind, Object, PATIENCE, Tenant, on_parent},
    process::wait_for,
    stack::DataPlane,
    with_each_data_plane,
};
use edge_translate::api::{Kind as Known, Scope};
use serde_json::{Value, json};

with_each_data_plane! {
    a_malformed_object_of_each_kind_is_told_and_costs_no_other,
}

/// Bytes of an object that is large.
const LARGE: usize = 1_200_000;
/// Bytes that etcd takes for nothing.
const TOO_LARGE: usize = 1_600_000;
/// Kinds that are kept as they were written, so that what can't be read guards all the same: their statuses tell.
const FREE: [Known; 4] = [
    Known::BackendTrafficPolicy,
    Known::ClientTrafficPolicy,
    Known::SecurityPolicy,
    Known::EdgeExtensionPolicy,
];

/// Kinds that aren't installed, but for a while by the test of one that comes late.
const ABSENT: [Known; 1] = [Known::ServiceImport];

/// A definition that lets anything through, until it is dropped.
struct Loose<'a> {
    tenant: &'a Tenant,
    definition: Object,
    versions: Value,
}

impl<'a> Loose<'a> {
    /// Loosens the definition of a kind; none if the kind is Kubernetes' own, or isn't installed.
    fn new(tenant: &'a Tenant, kind: Known) -> Result<Option<Self>> {
        let definitions = Kind::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        let all = tenant.lab.list(&definitions, "", "")?;
        let found = all.iter().find(|definition| {
            let spec = &definition["spec"];
            spec["group"] == kind.group() && spec["names"]["kind"] == kind.as_str()
        });
        let Some(found) = found else { return Ok(None) };
        let definition = definitions.for_all(found["metadata"]["name"].as_str().context("no name")?);
        let versions = found["spec"]["versions"].clone();
        let mut loose = versions.clone();
        for version in loose.as_array_mut().context("no versions")? {
            version["schema"]["openAPIV3Schema"] =
                json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        }
        tenant
            .lab
            .change(&definition, &json!({ "spec": { "versions": loose } }))?;
        Ok(Some(Self {
            tenant,
            definition,
            versions,
        }))
    }
}

impl Drop for Loose<'_> {
    /// Others in this lab count on what it says.
    fn drop(&mut self) {
        let before = json!({ "spec": { "versions": self.versions } });
        let _ = self.tenant.lab.change(&self.definition, &before);
    }
}

fn a_malformed_object_of_each_kind_is_told_and_costs_no_other(plane: &DataPlane) -> Result<()> {
    let tenant = Tenant::install(&format!("malformed-{plane}"), plane)?;
    tenant.explain(are_told(&tenant))
}

fn are_told(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    tenant.front()?;
    let address = tenant.address("front", 80)?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    let mut n_told = 0;
    let is_judged_here = |kind: &&Known| !FREE.contains(kind) && !ABSENT.contains(kind);
    for kind in Known::ALL.iter().filter(is_judged_here) {
        let Some(loose) = Loose::new(tenant, *kind)? else {
            continue;
        };
        let broken = put_broken(tenant, *kind)?;
        let told = is_told(tenant, &broken, "can't be read: spec");
        lab.delete(&broken)?;
        told?;
        // The others are as they were, and those that come are read.
        drop(loose);
        n_told += 1;
    }
    // All others but Kubernetes' own, which no definition can loosen.
    assert_eq!(n_told, 14);
    tenant.route("after", "front", "after.example.com", "echo")?;
    tenant.wait_for_status(address, "after.example.com", "/", 200)?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    has_lasted(tenant)
}

/// Makes an object whose spec can't be read.
fn put_broken(tenant: &Tenant, kind: Known) -> Result<Object> {
    let mut broken = json!({
        "apiVersion": kind.api_version(), "kind": kind.as_str(), "metadata": { "name": "malformed-broken" }, "spec": 7,
    });
    if kind.scope() == Scope::Namespaced {
        broken["metadata"]["namespace"] = tenant.apps.name.as_str().into();
    }
    // The API server takes a new definition in its own time.
    wait_for("the loose definition to hold", PATIENCE, || {
        Ok(tenant.lab.apply(&broken.to_string()).is_ok().then_some(()))
    })?;
    Object::of(&broken).context("an object without a name")
}

/// Waits for a line of the log about an object.
fn is_told(tenant: &Tenant, object: &Object, words: &str) -> Result<()> {
    let name = match &object.namespace {
        Some(namespace) => format!("{}/{namespace}/{}", object.kind.kind, object.name),
        None => format!("{}/{}", object.kind.kind, object.name),
    };
    wait_for(&format!("{name} to be told"), PATIENCE, || {
        let logs = tenant.lab.logs(&tenant.system.name);
        let is_told = |line: &str| line.contains(&name) && line.contains(words);
        Ok(logs.lines().any(is_told).then_some(()))
    })
    .map(drop)
}

#[test]
fn an_object_whose_status_has_no_room_is_told_and_costs_no_other() -> Result<()> {
    let tenant = Tenant::install("huge", &DataPlane::EdgeProxy)?;
    tenant.explain(has_no_room(&tenant))
}

fn has_no_room(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    tenant.echo()?;
    let _loose = Loose::new(tenant, Known::HttpRoute)?;
    wait_for("the loose definition to hold", PATIENCE, || {
        Ok(put_filled(tenant, "large", LARGE).is_ok().then_some(()))
    })?;
    // As large as etcd takes it, to the last hundred bytes: a status doesn't fit in.
    let (mut fits, mut is_too_large) = (LARGE, TOO_LARGE);
    while is_too_large - fits > 100 {
        let middle = usize::midpoint(fits, is_too_large);
        match put_filled(tenant, "huge", middle) {
            Ok(()) => fits = middle,
            Err(_) => is_too_large = middle,
        }
    }
    // Only now there is anything to be said about them.
    tenant.gateway("front", None)?;
    tenant.route("www", "front", "www.example.com", "echo")?;
    let huge = tenant.object(&Kind::gateway_api("HTTPRoute"), "huge");
    is_told(tenant, &huge, "too large")?;
    let accepted = |route: &Value| on_parent(route, "gateway.edge/huge", "Accepted")["status"] == "True";
    for name in ["large", "www"] {
        let route = tenant.object(&Kind::gateway_api("HTTPRoute"), name);
        lab.wait_until(&route, "to be accepted", accepted)?;
    }
    let address = tenant.address("front", 80)?;
    for host in ["www.example.com", "large.example.com", "huge.example.com"] {
        tenant.wait_for_status(address, host, "/", 200)?;
    }
    has_lasted(tenant)
}

/// Makes an HTTPRoute with something in it that takes room.
fn put_filled(tenant: &Tenant, name: &str, bytes: usize) -> Result<()> {
    let spec = json!({
        "parentRefs": [{ "name": "front" }],
        "hostnames": [format!("{name}.example.com")],
        "rules": [{ "backendRefs": [{ "name": "echo", "port": 80 }] }],
        "filler": "x".repeat(bytes),
    });
    let metadata = json!({ "name": name, "namespace": tenant.apps.name });
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": metadata, "spec": spec,
    });
    tenant.lab.apply(&route.to_string())
}
