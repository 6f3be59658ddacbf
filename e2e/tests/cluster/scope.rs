//! Whose objects a controller looks at: its own classes, in the namespaces that it watches.

use anyhow::{Result, ensure};
use e2e::{
    lab::{Kind, PATIENCE, Tenant, Terms, is, on_parent},
    stack::DataPlane,
    traffic::Traffic,
    with_each_data_plane,
};
use serde_json::{Value, json};

with_each_data_plane! {
    namespaces_come_and_go_under_load,
}

const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: front, namespace: NAMESPACE }
spec:
  gatewayClassName: CLASS
  listeners: [{ name: http, protocol: HTTP, port: 80, allowedRoutes: { namespaces: { from: All } } }]
";

/// Of the second namespace, to the Gateway of the first.
const ROUTE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: visitor, namespace: chosen-other }
spec: { parentRefs: [{ name: front, namespace: chosen }] }
";

#[test]
fn namespaces_enter_and_leave_what_is_watched() -> Result<()> {
    let watch = "{ type: NamespaceSelector, namespaceSelector: { matchLabels: { team: chosen } } }";
    let terms = Terms {
        watch: Some(watch),
        ..Terms::default()
    };
    let tenant = Tenant::install_with("chosen", &DataPlane::EdgeProxy, terms)?;
    tenant.explain(enters_and_leaves(&tenant))
}

fn enters_and_leaves(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let other = lab.namespace("chosen-other")?;
    for namespace in [&tenant.apps.name, &other.name] {
        lab.apply(
            &GATEWAY
                .replace("NAMESPACE", namespace)
                .replace("CLASS", &tenant.apps.name),
        )?;
    }
    let gateway = |namespace: &str| Kind::gateway_api("Gateway").named(namespace, "front");
    let label = |namespace: &str, team: serde_json::Value| {
        let namespace = Kind::core("Namespace").for_all(namespace);
        lab.change(&namespace, &json!({"metadata": {"labels": {"team": team}}}))
    };
    let is_accepted = |object: &serde_json::Value| is(object, "Accepted", "True");
    label(&tenant.apps.name, "chosen".into())?;
    lab.wait_until(&gateway(&tenant.apps.name), "to be accepted", is_accepted)?;
    // Nobody has looked at the other one, although it is older than what was accepted.
    let unseen = lab.get(&gateway(&other.name))?;
    assert!(!is_accepted(&unseen), "{unseen}");
    label(&other.name, "chosen".into())?;
    lab.wait_until(&gateway(&other.name), "to be accepted", is_accepted)?;
    lab.apply(ROUTE)?;
    let route = Kind::gateway_api("HTTPRoute").named(&other.name, "visitor");
    lab.wait_until(&route, "to attach", |route| {
        route["status"]["parents"][0]["parentRef"]["name"] == "front"
    })?;
    // Out again: what is in there is as if it were not.
    label(&tenant.apps.name, serde_json::Value::Null)?;
    lab.wait_until(&route, "to have no parent of ours", |route| {
        route["status"]["parents"][0].is_null()
    })?;
    Ok(())
}

/// A route of another namespace to the Gateway and the backend of the tenant's.
const VISITOR: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: visitor, namespace: OTHER }
spec:
  parentRefs: [{ name: front, namespace: TENANT }]
  hostnames: [visitor.example.com]
  rules: [{ backendRefs: [{ name: echo, namespace: TENANT, port: 80 }] }]
---
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: { name: visitors, namespace: TENANT }
spec:
  from: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: OTHER }]
  to: [{ group: '', kind: Service }]
";

fn namespaces_come_and_go_under_load(plane: &DataPlane) -> Result<()> {
    let name = format!("guests-{plane}");
    let watch = format!("{{ type: NamespaceSelector, namespaceSelector: {{ matchLabels: {{ team: {name} }} }} }}");
    let terms = Terms {
        watch: Some(&watch),
        ..Terms::default()
    };
    let tenant = Tenant::install_with(&name, plane, terms)?;
    tenant.explain(come_and_go(&tenant))
}

fn come_and_go(tenant: &Tenant) -> Result<()> {
    let (lab, name) = (tenant.lab, &tenant.apps.name);
    let other = lab.namespace(&format!("{name}-other"))?;
    let label = |namespace: &str, team: Value| {
        let namespace = Kind::core("Namespace").for_all(namespace);
        lab.change(&namespace, &json!({ "metadata": { "labels": { "team": team } } }))
    };
    label(name, name.as_str().into())?;
    lab.apply(&GATEWAY.replace("NAMESPACE", name).replace("CLASS", name))?;
    tenant.echo()?;
    tenant.route("www", "front", "www.example.com", "echo")?;
    let address = tenant.address("front", 80)?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    let traffic = Traffic::gentle(address, "www.example.com");

    tenant.apply(&VISITOR.replace("OTHER", &other.name))?;
    let visitor = Kind::gateway_api("HTTPRoute").named(&other.name, "visitor");
    // Made after it, and seen.
    tenant.route("later", "front", "later.example.com", "echo")?;
    tenant.wait_for_status(address, "later.example.com", "/", 200)?;
    tenant.wait_for_status(address, "visitor.example.com", "/", 404)?;
    ensure!(lab.get(&visitor)?["status"].is_null(), "a route outside was judged");
    for _ in 0..2 {
        label(&other.name, name.as_str().into())?;
        tenant.wait_for_status(address, "visitor.example.com", "/", 200)?;
        lab.wait_until(&visitor, "to be accepted", |route| {
            on_parent(route, &format!("gateway.edge/{name}"), "Accepted")["status"] == "True"
        })?;
        label(&other.name, Value::Null)?;
        tenant.wait_for_status(address, "visitor.example.com", "/", 404)?;
        traffic.wait_for_more(20, PATIENCE)?;
    }
    traffic.stop_without_failure().map(drop)
}

/// Each on a data plane of its own.
#[test]
fn tenants_serve_beside_each_other_and_leave_each_others_classes_alone() -> Result<()> {
    let one = Tenant::install("tenant-one", &DataPlane::EdgeProxy)?;
    let two = Tenant::install("tenant-two", &DataPlane::envoy()?)?;
    one.explain(two.explain(apart(&one, &two)))
}

fn apart(one: &Tenant, two: &Tenant) -> Result<()> {
    for (tenant, other) in [(one, two), (two, one)] {
        let text = GATEWAY.replace("NAMESPACE", &tenant.apps.name);
        // Of the other one's class, in a namespace that this one watches; what is accepted comes after it.
        let foreign = text.replace("CLASS", &other.apps.name).replace("front", "foreign");
        tenant.lab.apply(&foreign)?;
        tenant.lab.apply(&text.replace("CLASS", &tenant.apps.name))?;
    }
    for tenant in [one, two] {
        let of = |name| tenant.object(&Kind::gateway_api("Gateway"), name);
        tenant.lab.wait_until(&of("front"), "to be accepted", |gateway| {
            is(gateway, "Accepted", "True")
        })?;
        let foreign = tenant.lab.get(&of("foreign"))?;
        assert!(!is(&foreign, "Accepted", "True"), "{foreign}");
    }
    for tenant in [one, two] {
        tenant.echo()?;
        tenant.route("www", "front", "www.example.com", "echo")?;
        tenant.wait_for_status(tenant.address("front", 80)?, "www.example.com", "/", 200)?;
    }
    Ok(())
}
