//! Fleets that change what runs them while they serve: a DaemonSet instead of a Deployment, an autoscaler.

use anyhow::{Result, ensure};
use e2e::{
    lab::{Kind, PATIENCE, Tenant},
    stack::DataPlane,
    traffic::Traffic,
    with_each_data_plane,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

with_each_data_plane! {
    a_fleet_becomes_a_daemon_set_and_a_deployment_again,
    an_autoscaler_takes_over_what_runs,
}

fn a_fleet_becomes_a_daemon_set_and_a_deployment_again(plane: &DataPlane) -> Result<()> {
    let tenant = Tenant::install(&format!("daemons-{plane}"), plane)?;
    tenant.explain(becomes(&tenant, plane))
}

fn becomes(tenant: &Tenant, plane: &DataPlane) -> Result<()> {
    let lab = tenant.lab;
    tenant.front()?;
    let address = tenant.address("front", 80)?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    let deployment = tenant.fleet_object(&Kind::new("apps/v1", "Deployment"), "front")?;
    let daemons = Kind::new("apps/v1", "DaemonSet").named(&tenant.system.name, &deployment.name);
    let traffic = Traffic::start(address, "www.example.com", 2);
    traffic.wait_for_more(100, PATIENCE)?;

    // One that can't run takes nobody's place.
    let run_by = |kind: &str, image: &str| {
        let mut cluster = json!({"envoyDeployment": null, "envoyDaemonSet": null});
        cluster[kind] = json!({"container": {"image": image}});
        tenant.set_proxies(&json!({"provider": {"cluster": cluster}}))
    };
    run_by("envoyDaemonSet", "nobody-has:this")?;
    lab.wait_until(&daemons, "to want a pod", |daemons| {
        daemons["status"]["desiredNumberScheduled"] == 1 && daemons["status"]["numberUnavailable"] == 1
    })?;
    traffic.wait_for_more(500, PATIENCE)?;
    let kept = lab.get(&deployment)?;
    ensure!(
        kept["metadata"]["deletionTimestamp"].is_null() && kept["status"]["readyReplicas"] == 1,
        "nothing is ready to take the place of {kept}"
    );

    run_by("envoyDaemonSet", plane.image())?;
    lab.wait_until_gone(&deployment)?;
    let ready = lab.get(&daemons)?;
    ensure!(ready["status"]["numberAvailable"] == 1, "{ready}");
    traffic.wait_for_more(100, PATIENCE)?;

    run_by("envoyDeployment", plane.image())?;
    lab.wait_until_gone(&daemons)?;
    traffic.wait_for_more(100, PATIENCE)?;
    traffic.stop_without_failure().map(drop)
}

fn an_autoscaler_takes_over_what_runs(plane: &DataPlane) -> Result<()> {
    let tenant = Tenant::install(&format!("scaled-{plane}"), plane)?;
    tenant.explain(takes_over(&tenant))
}

fn takes_over(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let set = |replicas: Value, hpa: Value| {
        let cluster = json!({"envoyDeployment": {"replicas": replicas}, "envoyHpa": hpa});
        tenant.set_proxies(&json!({"provider": {"cluster": cluster}}))
    };
    set(3.into(), Value::Null)?;
    tenant.front()?;
    tenant.address("front", 80)?;
    let deployment = tenant.fleet_object(&Kind::new("apps/v1", "Deployment"), "front")?;
    let runs = |n: u64| {
        lab.wait_until(&deployment, &format!("to run {n} pods"), |deployment| {
            let status = &deployment["status"];
            deployment["spec"]["replicas"] == n && status["replicas"] == n && status["readyReplicas"] == n
        })
    };
    runs(3)?;
    let before = pods(tenant)?;

    // Within its bounds an autoscaler that knows no load changes nothing, and neither does its coming.
    set(3.into(), json!({"minReplicas": 2, "maxReplicas": 4}))?;
    let autoscaler = Kind::new("autoscaling/v2", "HorizontalPodAutoscaler");
    let autoscaler = autoscaler.named(&tenant.system.name, &deployment.name);
    let counts = |n: u64| {
        lab.wait_until(&autoscaler, &format!("to lead {n} pods"), |autoscaler| {
            autoscaler["status"]["currentReplicas"] == n
        })
    };
    counts(3)?;
    ensure!(pods(tenant)? == before, "pods were replaced");
    // Its bounds are law, whatever the EdgeProxy says beside them.
    set(5.into(), json!({"minReplicas": 1, "maxReplicas": 2}))?;
    runs(2)?;
    set(1.into(), Value::Null)?;
    lab.wait_until_gone(&autoscaler)?;
    runs(1).map(drop)
}

/// What tells the fleet's pods from others of their names.
fn pods(tenant: &Tenant) -> Result<BTreeSet<String>> {
    let pods = tenant.fleet(&Kind::core("Pod"), "front")?;
    Ok(pods.iter().map(|pod| pod["metadata"]["uid"].to_string()).collect())
}
