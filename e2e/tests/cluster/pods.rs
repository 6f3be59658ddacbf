//! What EdgeProxies put into the pods of fleets, as the processes in there see it.

use crate::inspection::{bootstrap, look, stats};
use anyhow::{Context, Result, ensure};
use e2e::{
    lab::{Kind, Tenant},
    stack::DataPlane,
    with_each_data_plane,
};
use serde_json::{Value, json};
use std::{fs, net::IpAddr};

with_each_data_plane! {
    fleets_have_settings_of_their_own,
}

/// A part of a bootstrap, in a file that the proxy finds in a volume.
const EXTRA: &str = "
apiVersion: v1
kind: ConfigMap
metadata: { name: extra, namespace: SYSTEM }
data:
  part.yaml: 'stats_flush_interval: 7s'
";

fn fleets_have_settings_of_their_own(plane: &DataPlane) -> Result<()> {
    let tenant = Tenant::install(&format!("pods-{plane}"), plane)?;
    let in_family = |family: &str| {
        let deployment = json!({"container": {"image": plane.image()}});
        json!({"ipFamily": family, "provider": {"type": "Cluster", "cluster": {"envoyDeployment": deployment}}})
    };
    let result = (|| {
        tenant.echo()?;
        tenant.lab.apply(&EXTRA.replace("SYSTEM", &tenant.system.name))?;
        // All at once, so that they start side by side.
        tenant.gateway_with("given", &given(plane))?;
        tenant.gateway_with("both", &in_family("DualStack"))?;
        tenant.gateway_with("moved", &in_family("IPv4"))?;
        finds_what_it_was_given(&tenant, plane).context("given")?;
        look(&tenant, "given")?;
        has_addresses(&tenant, "moved", &[IpAddr::is_ipv4]).context("moved")?;
        tenant.gateway_with("moved", &in_family("IPv6"))?;
        has_addresses(&tenant, "both", &[IpAddr::is_ipv4, IpAddr::is_ipv6]).context("both")?;
        has_addresses(&tenant, "moved", &[IpAddr::is_ipv6]).context("moved to IPv6")?;
        runs_anew(&tenant, "moved")
    })();
    tenant.explain(result)
}

/// Waits until no pod of a fleet runs as it ran before.
fn runs_anew(tenant: &Tenant, gateway: &str) -> Result<()> {
    let deployment = tenant.fleet_object(&Kind::new("apps/v1", "Deployment"), gateway)?;
    let done = tenant
        .lab
        .wait_until(&deployment, "to run new pods only", |deployment| {
            let status = &deployment["status"];
            status["observedGeneration"] == deployment["metadata"]["generation"]
                && status["updatedReplicas"] == 1
                && status["readyReplicas"] == 1
                && status["replicas"] == 1
        });
    done.map(drop)
}

/// Settings of every part of a pod.
fn given(plane: &DataPlane) -> Value {
    let mounts = json!([
        {"name": "extra", "mountPath": "/etc/extra", "readOnly": true},
        {"name": "scratch", "mountPath": "/scratch"},
    ]);
    let deployment = json!({
        "name": "given-proxies",
        "container": {
            "image": plane.image(),
            "env": [{"name": "TEAM", "value": "shop"}],
            "resources": {"limits": {"memory": "1000Mi"}},
            "volumeMounts": mounts,
        },
        "pod": {"volumes": [{"name": "extra", "configMap": {"name": "extra"}}, {"name": "scratch", "emptyDir": {}}]},
        "patch": {"type": "JSONMerge", "value": {
            "metadata": {"annotations": {"example.com/owner": "shop"}},
            "spec": {"revisionHistoryLimit": null, "minReadySeconds": 1},
        }},
    });
    let patch = json!({"spec": {"externalTrafficPolicy": "Cluster", "sessionAffinity": "ClientIP"}});
    let cluster = json!({
        "envoyDeployment": deployment,
        "envoyService": {"name": "given-front", "patch": {"type": "JSONMerge", "value": patch}},
        // Whose token opens the fleet's configuration.
        "envoyServiceAccount": {"name": "given-account"},
        "envoyPDB": {"maxUnavailable": "50%"},
    });
    json!({
        "concurrency": 3,
        // An option and its value may be one string or two.
        "extraArgs": [
            "--admin-address-path", "/scratch/admin",
            "--config-path", "/etc/extra/part.yaml",
            "--disable-extensions envoy.access_loggers.wasm",
        ],
        "provider": {"type": "Cluster", "cluster": cluster},
    })
}

fn finds_what_it_was_given(tenant: &Tenant, plane: &DataPlane) -> Result<()> {
    let address = tenant.address("given", 80)?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    let pod = tenant.pod("given")?;
    let processes = tenant.lab.processes(&pod, plane.program())?;
    let process = processes.first().context("no proxy runs in its pod")?;
    // Its own writes, in the volume that is mounted for them.
    let written = fs::read_to_string(format!("/proc/{process}/root/scratch/admin"))?;
    ensure!(written.trim() == "127.0.0.1:19000", "{written}");
    let environment = fs::read_to_string(format!("/proc/{process}/environ"))?;
    ensure!(environment.contains("TEAM=shop\0"), "{environment}");

    let bootstrap = bootstrap(tenant, &pod)?;
    let interval = &bootstrap["statsFlushInterval"];
    ensure!(interval == "7s", "the file isn't read: {interval}");
    let monitor = &bootstrap["overloadManager"]["resourceMonitors"];
    let monitor = monitor.as_array().into_iter().flatten();
    let heap = monitor
        .map(|m| &m["typedConfig"]["maxHeapSizeBytes"])
        .find(|m| !m.is_null());
    let share = (1000_u64 << 20) * 8 / 10;
    ensure!(
        heap == Some(&share.to_string().into()),
        "{}",
        bootstrap["overloadManager"]
    );

    let stats = stats(tenant, &pod)?;
    let value = |name: &str| {
        stats
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    };
    ensure!(
        value("server.concurrency") == Some(3.into()),
        "{:?}",
        value("server.concurrency")
    );
    if matches!(plane, DataPlane::Envoy(_)) {
        let pressure = value("overload.envoy.resource_monitors.fixed_heap.pressure");
        ensure!(pressure.is_some(), "nobody watches the heap");
    }

    let object = |kind: &Kind| tenant.lab.get(&tenant.fleet_object(kind, "given")?);
    let deployment = object(&Kind::new("apps/v1", "Deployment"))?;
    ensure!(
        deployment["metadata"]["name"] == "given-proxies"
            && deployment["metadata"]["annotations"]["example.com/owner"] == "shop"
            && deployment["spec"]["minReadySeconds"] == 1,
        "{deployment}"
    );
    let service = object(&Kind::core("Service"))?;
    ensure!(
        service["metadata"]["name"] == "given-front"
            && service["spec"]["externalTrafficPolicy"] == "Cluster"
            && service["spec"]["sessionAffinity"] == "ClientIP",
        "{service}"
    );
    let account = object(&Kind::core("ServiceAccount"))?;
    ensure!(account["metadata"]["name"] == "given-account", "{account}");
    let budget = tenant.fleet_object(&Kind::new("policy/v1", "PodDisruptionBudget"), "given")?;
    let budget = tenant.lab.wait_until(&budget, "to count its pod", |budget| {
        budget["spec"]["maxUnavailable"] == "50%" && budget["status"]["currentHealthy"] == 1
    });
    budget.map(drop)
}

/// Whether a Gateway has an address of each family, in their order and no other, and serves there.
fn has_addresses(tenant: &Tenant, gateway: &str, families: &[fn(&IpAddr) -> bool]) -> Result<()> {
    let object = tenant.object(&Kind::gateway_api("Gateway"), gateway);
    // Programmed means that its pods are ready, which the node finds out by the pods' own addresses.
    tenant.lab.wait_until_true(&object, "Programmed")?;
    let in_families = |gateway: &Value| {
        let addresses = addresses(gateway);
        addresses.len() == families.len() && addresses.iter().zip(families).all(|(address, is_of)| is_of(address))
    };
    let told = tenant.lab.wait_until(&object, "to tell its addresses", in_families)?;
    for address in addresses(&told) {
        tenant.wait_for_status((address, 80).into(), "www.example.com", "/", 200)?;
    }
    Ok(())
}

fn addresses(gateway: &Value) -> Vec<IpAddr> {
    let all = gateway["status"]["addresses"].as_array().into_iter().flatten();
    all.filter_map(|address| address["value"].as_str()?.parse().ok())
        .collect()
}
