//! What an EdgeProxy changes about a running fleet.

use anyhow::Result;
use e2e::{
    lab::{Kind, Tenant, condition, is_rolled_out},
    stack::DataPlane,
    with_each_data_plane,
};
use serde_json::{Value, json};

with_each_data_plane! {
    a_fleet_is_made_as_its_settings_say,
}

fn a_fleet_is_made_as_its_settings_say(plane: &DataPlane) -> Result<()> {
    let tenant = Tenant::install(&format!("settings-{plane}"), plane)?;
    tenant.explain(follow_settings(&tenant))
}

fn set(tenant: &Tenant, cluster: &Value) -> Result<()> {
    tenant.set_proxies(&json!({"provider": {"cluster": cluster}}))
}

fn follow_settings(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let gateway = tenant.front()?;
    let address = tenant.address("front", 80)?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    let deployment = tenant.fleet_object(&Kind::new("apps/v1", "Deployment"), "front")?;
    let service = tenant.fleet_object(&Kind::core("Service"), "front")?;

    set(
        tenant,
        &json!({
            "envoyDeployment": {
                "container": {"env": [{"name": "TEAM", "value": "shop"}]},
                "pod": {"annotations": {"example.com/owner": "shop"}},
                "patch": {"value": {"spec": {"template": {"spec": {"containers": [
                    {"name": "edge", "resources": {"limits": {"memory": "700Mi"}}},
                ]}}}}},
            },
            "envoyService": {
                "annotations": {"example.com/balancer": "small"},
                "patch": {"value": {"spec": {"externalTrafficPolicy": "Cluster"}}},
            },
        }),
    )?;
    lab.wait_until(&deployment, "to be as it is set and patched", |deployment| {
        let pod = &deployment["spec"]["template"];
        let container = &pod["spec"]["containers"][0];
        let has = |name: &str| {
            container["env"]
                .as_array()
                .is_some_and(|all| all.iter().any(|e| e["name"] == name))
        };
        pod["metadata"]["annotations"]["example.com/owner"] == "shop"
            && has("TEAM")
            && has("EDGE_POD_NAME")
            && container["resources"]["limits"]["memory"] == "700Mi"
            && is_rolled_out(deployment, 1)
    })?;
    lab.wait_until(&service, "to be as it is set and patched", |service| {
        service["metadata"]["annotations"]["example.com/balancer"] == "small"
            && service["spec"]["externalTrafficPolicy"] == "Cluster"
    })?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;

    // What the API server refuses is told on the Gateway; what runs goes on; taking it back heals.
    set(
        tenant,
        &json!({"envoyService": {"patch": {"value": {"spec": {"externalTrafficPolicy": "Sideways"}}}}}),
    )?;
    lab.wait_until(&gateway, "to say what is refused", |gateway| {
        let programmed = condition(&gateway["status"]["conditions"], "Programmed");
        programmed["status"] == "False"
            && programmed["message"]
                .as_str()
                .is_some_and(|message| message.contains("Sideways"))
    })?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    set(
        tenant,
        &json!({"envoyService": {"patch": {"value": {"spec": {"externalTrafficPolicy": "Local"}}}}}),
    )?;
    lab.wait_until_true(&gateway, "Programmed")?;

    set(tenant, &json!({"envoyHpa": {"minReplicas": 1, "maxReplicas": 3}}))?;
    let autoscaler = Kind::new("autoscaling/v2", "HorizontalPodAutoscaler").named(&tenant.system.name, &service.name);
    lab.wait_until(&autoscaler, "to lead the Deployment", |hpa| {
        hpa["spec"]["scaleTargetRef"]["name"] == deployment.name.as_str() && hpa["spec"]["maxReplicas"] == 3
    })?;
    set(tenant, &json!({"envoyHpa": null}))?;
    lab.wait_until_gone(&autoscaler)?;
    Ok(())
}
