//! Whose objects a controller looks at: its own classes, in the namespaces that it watches.

use anyhow::Result;
use e2e::{
    lab::{Kind, Tenant, Terms, is},
    stack::DataPlane,
};
use serde_json::json;

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

#[test]
fn tenants_leave_each_others_classes_alone() -> Result<()> {
    let one = Tenant::install("tenant-one", &DataPlane::EdgeProxy)?;
    let two = Tenant::install("tenant-two", &DataPlane::EdgeProxy)?;
    one.explain(two.explain(apart(&one, &two)))
}

fn apart(one: &Tenant, two: &Tenant) -> Result<()> {
    for tenant in [one, two] {
        let text = GATEWAY.replace("NAMESPACE", &tenant.apps.name);
        tenant.lab.apply(&text.replace("CLASS", &tenant.apps.name))?;
        // Of the other one's class, in a namespace that this one watches.
        let class = if tenant.apps.name == one.apps.name { two } else { one };
        let foreign = text.replace("CLASS", &class.apps.name).replace("front", "foreign");
        tenant.lab.apply(&foreign)?;
    }
    for tenant in [one, two] {
        let of = |name| tenant.object(&Kind::gateway_api("Gateway"), name);
        tenant.lab.wait_until(&of("front"), "to be accepted", |gateway| {
            is(gateway, "Accepted", "True")
        })?;
        let foreign = tenant.lab.get(&of("foreign"))?;
        assert!(!is(&foreign, "Accepted", "True"), "{foreign}");
    }
    Ok(())
}
