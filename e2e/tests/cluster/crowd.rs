//! Two hundred Gateways at once: each gets what it is to have, and nothing is written more often than it must be.

use anyhow::{Result, ensure};
use e2e::{
    lab::{Kind, Object, Tenant, condition, is, said_once, wait_for, writes},
    stack::DataPlane,
    with_each_data_plane,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

with_each_data_plane! {
    many_gateways_share_a_fleet,
}

const GATEWAYS: usize = 200;
/// What a fleet is made of.
const KINDS: [&str; 4] = ["ConfigMap", "Deployment", "Service", "ServiceAccount"];

fn many_gateways_share_a_fleet(plane: &DataPlane) -> Result<()> {
    let tenant = Tenant::install(&format!("shared-{plane}"), plane)?;
    tenant.explain(share(&tenant))
}

fn share(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let deployment = json!({"patch": {"value": patient()}});
    let provider = json!({"cluster": {"envoyDeployment": deployment}});
    tenant.set_proxies(&json!({"mergeGateways": true, "provider": provider}))?;
    tenant.echo()?;
    let host = |n: usize| format!("{n}.example.com");
    for n in 0..GATEWAYS {
        tenant.route(&name(n), &name(n), &host(n), "echo")?;
    }
    let before = inventory(tenant)?;
    let mut statuses = lab.record(&Kind::gateway_api("Gateway"), &tenant.apps.name)?;
    let crowd = crowd(tenant, Some(&host))?;
    let address = tenant.address(&name(0), 80)?;
    for (n, gateway) in crowd.iter().enumerate() {
        ensure!(tenant.address(&gateway.name, 80)? == address, "{gateway} is elsewhere");
        tenant.wait_for_status(address, &host(n), "/", 200)?;
    }
    // Accepted, with an address, with proxies, with proxies that have taken its listener.
    at_most(4, &statuses.statuses(&crowd[0])?)?;

    for gateway in &crowd {
        lab.delete(gateway)?;
    }
    wait_until_left(tenant, &before)
}

fn name(n: usize) -> String {
    format!("crowd-{n}")
}

/// Proxies that may take their time to say that they are ready: on a machine that is busy with two such crowds, a
/// second can pass, and all Gateways would truly say that they have lost their proxies and found them again.
fn patient() -> Value {
    let containers = ["edge", "shutdown-manager"].map(|name| {
        let probe = json!({"timeoutSeconds": 30, "failureThreshold": 3});
        json!({"name": name, "readinessProbe": probe})
    });
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

/// Makes the Gateways, one after the other as fast as the API server takes them.
fn crowd(tenant: &Tenant, host: Option<&dyn Fn(usize) -> String>) -> Result<Vec<Object>> {
    let gateway = |n: usize| tenant.gateway(&name(n), host.map(|host| host(n)).as_deref());
    (0..GATEWAYS).map(gateway).collect()
}

/// Each with a fleet of its own, for which this machine would be too small: without pods.
#[test]
fn many_gateways_have_their_fleets() -> Result<()> {
    let tenant = Tenant::install("apart", &DataPlane::EdgeProxy)?;
    tenant.explain(have(&tenant))
}

fn have(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let deployment = json!({"replicas": 0});
    tenant.set_proxies(&json!({"provider": {"cluster": {"envoyDeployment": deployment}}}))?;
    let before = inventory(tenant)?;
    let mut statuses = lab.record(&Kind::gateway_api("Gateway"), &tenant.apps.name)?;
    let crowd = crowd(tenant, None)?;
    for gateway in &crowd {
        lab.wait_until(gateway, "to be accepted and to have no pods", |gateway| {
            is(gateway, "Accepted", "True")
                && condition(&gateway["status"]["conditions"], "Programmed")["reason"] == "NoResources"
        })?;
    }
    // Statuses say so before there is anything, so what there is tells when all is done.
    wait_for("each object to be applied, once", || {
        let mut applied = BTreeMap::new();
        for kind in KINDS {
            // An API server that hands out node ports to many at once turns some away, who come again.
            let series = format!("resource_apply_total{{kind=\"{kind}\",status=\"success\"");
            applied.insert(kind, tenant.metric(&series)?);
        }
        ensure!(applied.values().all(|times| *times == GATEWAYS as f64), "{applied:?}");
        Ok(Some(()))
    })?;
    let all = inventory(tenant)?;
    let made = all.difference(&before);
    let mut kinds = BTreeMap::new();
    for name in made {
        *kinds.entry(name.split(' ').next().unwrap_or_default()).or_insert(0) += 1;
    }
    for kind in KINDS {
        ensure!(kinds.get(kind) == Some(&GATEWAYS), "{kinds:?}");
    }
    ensure!(!kinds.contains_key("Pod"), "{kinds:?}");
    // Accepted, with an address, without proxies.
    at_most(4, &statuses.statuses(&crowd[0])?)?;

    for gateway in &crowd {
        lab.delete(gateway)?;
    }
    wait_until_left(tenant, &before)
}

/// Names of all that fleets are made of, and of what Kubernetes makes for that.
fn inventory(tenant: &Tenant) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for (api_version, kind) in [
        ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"),
        ("discovery.k8s.io/v1", "EndpointSlice"),
        ("v1", "ConfigMap"),
        ("v1", "Pod"),
        ("v1", "Secret"),
        ("v1", "Service"),
        ("v1", "ServiceAccount"),
    ] {
        let all = tenant
            .lab
            .list(&Kind::new(api_version, kind), &tenant.system.name, "")?;
        // The pod of an installation's Job goes when Kubernetes gets round to it.
        let is_of_job = |object: &Value| object["metadata"]["ownerReferences"][0]["kind"] == "Job";
        for object in all.iter().filter(|object| !is_of_job(object)) {
            names.insert(format!(
                "{kind} {}",
                object["metadata"]["name"].as_str().unwrap_or_default()
            ));
        }
    }
    Ok(names)
}

/// Waits until there is what there was, no more and no less.
fn wait_until_left(tenant: &Tenant, before: &BTreeSet<String>) -> Result<()> {
    wait_for("what was made for the Gateways to be gone", || {
        let now = inventory(tenant)?;
        let difference: Vec<_> = now.symmetric_difference(before).take(5).collect();
        ensure!(difference.is_empty(), "it differs by {difference:?}");
        Ok(Some(()))
    })
}

/// Wants no more writes of a status than that, and each to say something new.
fn at_most(limit: usize, statuses: &BTreeMap<String, Vec<Value>>) -> Result<()> {
    said_once(statuses)?;
    for (name, statuses) in statuses.iter().filter(|(name, _)| name.starts_with("crowd")) {
        ensure!(writes([statuses]) <= limit, "Gateway {name}: {statuses:#?}");
    }
    Ok(())
}
