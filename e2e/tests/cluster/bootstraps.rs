//! Bootstraps that EdgeProxies replace, merge into and patch, and those that can't be used.

use crate::inspection::{bootstrap, edgectl};
use anyhow::{Context, Result, ensure};
use e2e::{
    lab::{Kind, Object, PATIENCE, Tenant, condition},
    stack::{DataPlane, program},
    traffic::Traffic,
    with_each_data_plane,
};
use serde_json::{Value, json};
use std::process::Command;

with_each_data_plane! {
    bootstraps_are_replaced_merged_patched_or_refused,
}

fn bootstraps_are_replaced_merged_patched_or_refused(plane: &DataPlane) -> Result<()> {
    let tenant = Tenant::install(&format!("bootstraps-{plane}"), plane)?;
    let customised = |bootstrap: Value| {
        let deployment = json!({"container": {"image": plane.image()}});
        json!({"bootstrap": bootstrap, "provider": {"type": "Cluster", "cluster": {"envoyDeployment": deployment}}})
    };
    let result = (|| {
        tenant.front()?;
        let merged = "layered_runtime: { layers: [{ name: runtime-0, static_layer: { example.limit: 8 } }] }";
        let path = "/layered_runtime/layers/0/static_layer/example.limit";
        let patch = json!({"op": "add", "path": path, "value": 7});
        for (name, bootstrap) in [
            ("merged", json!({"type": "Merge", "value": merged})),
            ("patched", json!({"type": "JSONPatch", "jsonPatches": [patch]})),
            ("replaced", json!({"type": "Replace", "value": default_elsewhere()?})),
        ] {
            tenant.gateway_with(name, &customised(bootstrap))?;
        }
        for (name, limit) in [("merged", 8.0), ("patched", 7.0)] {
            let runtime = &begun_with(&tenant, name)?["layeredRuntime"]["layers"][0]["staticLayer"];
            // Envoy takes what has a fraction for a text.
            let value = |name: &str| runtime[name].as_f64();
            ensure!(value("example.limit") == Some(limit), "{name}: {runtime}");
            ensure!(
                value("re2.max_program_size.warn_level") == Some(1000.0),
                "{name}: {runtime}"
            );
        }
        let admin = &begun_with(&tenant, "replaced")?["admin"]["address"]["socketAddress"];
        ensure!(admin["portValue"] == ELSEWHERE, "{admin}");
        // What a proxy shows, whose controller has its full name.
        let copied = bootstrap(&tenant, &tenant.pod("front")?)?;
        tenant.gateway_with(
            "copied",
            &customised(json!({"type": "Replace", "value": copied.to_string()})),
        )?;
        begun_with(&tenant, "copied")?;
        refuses(&tenant)?;
        keeps_what_runs(&tenant, &customised(json!({"type": "Replace", "value": "{}"})))?;
        is_too_long(&tenant, &customised)?;
        drains(&tenant).context("the proxies with another admin port")
    })();
    tenant.explain(result)
}

/// Another port for the admin interface.
const ELSEWHERE: u16 = 20000;

/// The bootstrap that `edgectl` shows as the default one, with that port.
fn default_elsewhere() -> Result<String> {
    let gateway = "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: g, namespace: default}, \
                   spec: {gatewayClassName: c, listeners: [{name: l, protocol: HTTP, port: 80}]}}";
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("gateway.yaml");
    std::fs::write(&file, gateway)?;
    let output = Command::new(program("edgectl")?)
        .args([
            "x",
            "translate",
            "--add-missing-resources",
            "--to",
            "xds",
            "-t",
            "bootstrap",
            "-o",
            "json",
            "-f",
        ])
        .arg(&file)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let shown: Value = serde_json::from_str(&text)?;
    let mut bootstrap = shown["bootstrap"].clone();
    ensure!(bootstrap.is_object(), "{shown}");
    let port = &mut bootstrap["admin"]["address"]["socketAddress"]["portValue"];
    ensure!(port == 19000, "{bootstrap}");
    *port = ELSEWHERE.into();
    Ok(bootstrap.to_string())
}

/// The bootstrap of the one proxy of a Gateway that serves.
fn begun_with(tenant: &Tenant, gateway: &str) -> Result<Value> {
    let address = tenant.address(gateway, 80).with_context(|| gateway.to_owned())?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    bootstrap(tenant, &tenant.pod(gateway)?)
}

/// What can't be used is said of the class, and what its fleet runs with stays.
fn refuses(tenant: &Tenant) -> Result<()> {
    let class = Kind::gateway_api("GatewayClass").for_all(&tenant.apps.name);
    let address = tenant.address("front", 80)?;
    let before = tenant.pod("front")?;
    let removal = json!([{"op": "remove", "path": "/dynamic_resources"}]);
    let nowhere = json!([{"op": "replace", "path": "/nowhere/at/all", "value": 1}]);
    for (bootstrap, words) in [
        (json!({"type": "Replace", "value": "admin: {}"}), "dynamic_resources"),
        (json!({"type": "Replace", "value": "- a list"}), "must be a mapping"),
        (json!({"type": "Merge", "value": "admin: { adress: {} }"}), "adress"),
        (json!({"type": "Merge", "value": "admin: ["}), "not valid YAML"),
        (
            json!({"type": "JSONPatch", "jsonPatches": removal}),
            "dynamic_resources",
        ),
        (json!({"type": "JSONPatch", "jsonPatches": nowhere}), "can't be applied"),
    ] {
        // One after the other, whole: fields of another type would be a mistake of their own.
        tenant.set_proxies(&json!({"bootstrap": null}))?;
        tenant.set_proxies(&json!({"bootstrap": bootstrap}))?;
        says(tenant, &class, words).with_context(|| bootstrap.to_string())?;
        tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    }
    tenant.set_proxies(&json!({"bootstrap": null}))?;
    tenant.lab.wait_until_true(&class, "Accepted")?;
    ensure!(tenant.pod("front")? == before, "its pod was replaced");
    Ok(())
}

/// The same for a Gateway with an EdgeProxy of its own.
fn keeps_what_runs(tenant: &Tenant, broken: &Value) -> Result<()> {
    let (before, address) = (tenant.pod("merged")?, tenant.address("merged", 80)?);
    let gateway = tenant.gateway_with("merged", broken)?;
    says(tenant, &gateway, "dynamic_resources")?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    ensure!(tenant.pod("merged")? == before, "its pod was replaced");
    Ok(())
}

/// A bootstrap with which no program could be started is said of its Gateway, and its pod stays.
fn is_too_long(tenant: &Tenant, customised: &impl Fn(Value) -> Value) -> Result<()> {
    let (before, address) = (tenant.pod("patched")?, tenant.address("patched", 80)?);
    let layer = json!({"name": "runtime-0", "static_layer": {"example.text": "x".repeat(140_000)}});
    let merged = json!({"layered_runtime": {"layers": [layer]}}).to_string();
    let gateway = tenant.gateway_with("patched", &customised(json!({"type": "Merge", "value": merged})))?;
    tenant
        .lab
        .wait_until(&gateway, "to say that its bootstrap is too long", |gateway| {
            let programmed = condition(&gateway["status"]["conditions"], "Programmed");
            let message = programmed["message"].as_str().unwrap_or_default();
            programmed["reason"] == "Invalid" && message.contains("bootstrap: it has 14") && message.contains("131071")
        })?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    ensure!(tenant.pod("patched")? == before, "its pod was replaced");
    Ok(())
}

fn says(tenant: &Tenant, object: &Object, words: &str) -> Result<()> {
    let said = tenant.lab.wait_until(object, &format!("to say {words:?}"), |object| {
        let accepted = condition(&object["status"]["conditions"], "Accepted");
        accepted["status"] == "False" && accepted["message"].as_str().is_some_and(|text| text.contains(words))
    });
    said.map(drop)
}

/// A proxy is told to leave wherever its admin interface is, so that its clients hear of it in time.
fn drains(tenant: &Tenant) -> Result<()> {
    let traffic = Traffic::start(tenant.address("replaced", 80)?, "www.example.com", 2);
    traffic.wait_for_more(100, PATIENCE)?;
    let old = Kind::core("Pod").named(&tenant.system.name, &tenant.pod("replaced")?);
    let proxies = tenant.object(&Kind::edge("EdgeProxy"), "replaced");
    let pod = json!({"annotations": {"example.com/round": "2"}});
    let change = json!({"spec": {"provider": {"cluster": {"envoyDeployment": {"pod": pod}}}}});
    tenant.lab.change(&proxies, &change)?;
    tenant.lab.wait_until_gone(&old)?;
    traffic.wait_for_more(100, PATIENCE)?;
    traffic.stop_without_failure()?;
    let shown = edgectl(tenant, &["config", "envoy-proxy", "listener", &tenant.pod("replaced")?])?;
    ensure!(String::from_utf8(shown)?.contains("tcp-80"), "no listeners are shown");
    Ok(())
}
