//! What the leader does to the objects of a fleet while it runs, and what it says about them.

use anyhow::{Result, ensure};
use e2e::{
    lab::{Kind, Object, Tenant, condition, is},
    stack::DataPlane,
};
use serde_json::{Value, json};
use std::cell::Cell;

/// A tenant with a Gateway `front` that is programmed.
fn serving(name: &str, check: impl Fn(&Tenant, &Object) -> Result<()>) -> Result<()> {
    let tenant = Tenant::install(name, &DataPlane::EdgeProxy)?;
    let result = (|| {
        let gateway = tenant.front()?;
        tenant.lab.wait_until_true(&gateway, "Programmed")?;
        check(&tenant, &gateway)
    })();
    tenant.explain(result)
}

fn set(tenant: &Tenant, cluster: &Value) -> Result<()> {
    tenant.set_proxies(&json!({"provider": {"cluster": cluster}}))
}

fn programmed(gateway: &Value) -> &Value {
    condition(&gateway["status"]["conditions"], "Programmed")
}

/// Who has applied how many pods there are.
fn managers_of_replicas(deployment: &Value) -> Vec<&str> {
    let managers = deployment["metadata"]["managedFields"].as_array();
    let of_replicas = managers
        .into_iter()
        .flatten()
        .filter(|entry| !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null());
    of_replicas.filter_map(|entry| entry["manager"].as_str()).collect()
}

#[test]
fn an_autoscaler_takes_over_without_a_pod_less() -> Result<()> {
    serving("takeover", |tenant, _| {
        let lab = tenant.lab;
        set(tenant, &json!({"envoyDeployment": {"replicas": 2}}))?;
        let deployment = tenant.fleet_object(&Kind::new("apps/v1", "Deployment"), "front")?;
        lab.wait_until(&deployment, "to have two ready pods", |deployment| {
            deployment["status"]["readyReplicas"] == 2
        })?;
        let autoscaler = Kind::new("autoscaling/v2", "HorizontalPodAutoscaler")
            .named(&deployment_namespace(tenant), &deployment.name);
        set(tenant, &json!({"envoyHpa": {"minReplicas": 1, "maxReplicas": 5}}))?;
        let least = Cell::new(u64::MAX);
        lab.wait_until(
            &deployment,
            "to have its number of pods from nobody's wish",
            |deployment| {
                least.set(least.get().min(deployment["spec"]["replicas"].as_u64().unwrap_or(0)));
                !managers_of_replicas(deployment).contains(&"edge-gateway")
            },
        )?;
        ensure!(least.get() == 2, "there were {} pods wanted on the way", least.get());
        lab.wait_until(&autoscaler, "to exist", |autoscaler| !autoscaler.is_null())?;
        // It leads from now on.
        set(tenant, &json!({"envoyHpa": {"minReplicas": 3, "maxReplicas": 5}}))?;
        lab.wait_until(
            &deployment,
            "to have the pods that its autoscaler wants",
            |deployment| deployment["spec"]["replicas"] == 3,
        )?;
        set(tenant, &json!({"envoyHpa": null}))?;
        lab.wait_until_gone(&autoscaler)?;
        lab.wait_until(&deployment, "to have what its EdgeProxy says", |deployment| {
            deployment["spec"]["replicas"] == 2 && managers_of_replicas(deployment) == ["edge-gateway"]
        })?;
        let applied = tenant.metric("resource_apply_total{kind=\"Deployment\",status=\"success\"}")?;
        ensure!(applied >= 3.0, "{applied} Deployments applied");
        let deleted = tenant.metric("resource_delete_total{kind=\"HorizontalPodAutoscaler\",status=\"success\"}")?;
        ensure!(deleted >= 1.0, "{deleted} autoscalers deleted");
        Ok(())
    })
}

fn deployment_namespace(tenant: &Tenant) -> String {
    tenant.system.name.clone()
}

#[test]
fn a_field_that_there_is_not_is_refused_on_its_gateway_alone() -> Result<()> {
    serving("unknown-field", |tenant, gateway| {
        let lab = tenant.lab;
        let address = tenant.address("front", 80)?;
        tenant.wait_for_status(address, "www.example.com", "/", 200)?;
        let patch = |value: Value| {
            set(
                tenant,
                &json!({"envoyDeployment": {"patch": {"value": {"spec": {"colour": value}}}}}),
            )
        };
        patch("red".into())?;
        let refused = lab.wait_until(gateway, "to say which field there is not", |gateway| {
            programmed(gateway)["message"]
                .as_str()
                .is_some_and(|message| message.contains(".spec.colour"))
        })?;
        let told = programmed(&refused);
        let message = told["message"].as_str().unwrap_or_default();
        ensure!(
            told["status"] == "False"
                && told["reason"] == "Invalid"
                && message.contains("the API server doesn't take it"),
            "{told}"
        );
        tenant.wait_for_status(address, "www.example.com", "/", 200)?;
        // Others don't notice.
        tenant.apply(
            "{apiVersion: gateway.edge/v1alpha1, kind: EdgeProxy, metadata: {name: own, namespace: TENANT}, spec: \
             {provider: {type: Cluster, cluster: {envoyDeployment: {container: {image: 'edge-proxy:test'}}}}}}",
        )?;
        let other = tenant.object(&Kind::gateway_api("Gateway"), "other");
        tenant.apply(
            "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: other, namespace: TENANT}, spec: \
             {gatewayClassName: TENANT, infrastructure: {parametersRef: {group: gateway.edge, kind: EdgeProxy, name: own}}, \
             listeners: [{name: http, protocol: HTTP, port: 80}]}}",
        )?;
        lab.wait_until_true(&other, "Programmed")?;
        patch(Value::Null)?;
        lab.wait_until_true(gateway, "Programmed").map(drop)
    })
}

#[test]
fn an_object_of_a_fleet_that_is_too_large_is_told_and_costs_no_other() -> Result<()> {
    serving("oversize", |tenant, front| {
        let lab = tenant.lab;
        let filled = |bytes: usize| {
            let env = json!([{"name": "FILLER", "value": "x".repeat(bytes)}]);
            let container = json!({"image": "edge-proxy:test", "env": env});
            json!({"provider": {"type": "Cluster", "cluster": {"envoyDeployment": {"container": container}}}})
        };
        // Nobody's, by which it is found out how large an EdgeProxy can be.
        let (mut fits, mut is_too_large) = (1_200_000, 1_600_000);
        while is_too_large - fits > 100 {
            let middle = usize::midpoint(fits, is_too_large);
            match tenant.make(&Kind::edge("EdgeProxy"), "probe", &filled(middle)) {
                Ok(_) => fits = middle,
                Err(_) => is_too_large = middle,
            }
        }
        lab.delete(&tenant.object(&Kind::edge("EdgeProxy"), "probe"))?;
        let large = tenant.gateway_with("large", &filled(0))?;
        let address = tenant.address("large", 80)?;
        tenant.wait_for_status(address, "www.example.com", "/", 200)?;
        let pod = tenant.pod("large")?;
        // It has room for its status, and its Deployment, which holds the same and a bootstrap, has none.
        tenant.gateway_with("large", &filled(fits - 2_500))?;
        let told = lab.wait_until(&large, "to say that its Deployment is too large", |gateway| {
            let message = programmed(gateway)["message"].as_str().unwrap_or_default();
            message.contains("the object is too large for the API server")
        })?;
        ensure!(programmed(&told)["reason"] == "Invalid", "{}", programmed(&told));
        tenant.wait_for_status(address, "www.example.com", "/", 200)?;
        ensure!(tenant.pod("large")? == pod, "its pod was replaced");
        // Its other objects are looked after, and so are those of others.
        set(
            tenant,
            &json!({"envoyService": {"annotations": {"example.com/round": "2"}}}),
        )?;
        let service = tenant.fleet_object(&Kind::core("Service"), "front")?;
        lab.wait_until(&service, "to be changed", |service| {
            service["metadata"]["annotations"]["example.com/round"] == "2"
        })?;
        ensure!(is(&lab.get(front)?, "Programmed", "True"), "others notice");
        tenant.gateway_with("large", &filled(1))?;
        lab.wait_until_true(&large, "Programmed").map(drop)
    })
}

#[test]
fn a_gateway_has_the_addresses_that_it_asks_for_or_says_that_it_has_not() -> Result<()> {
    serving("asked", |tenant, gateway| {
        let lab = tenant.lab;
        let ask = |addresses: Value| lab.change(gateway, &json!({"spec": {"addresses": addresses}}));
        let usable = json!({"type": "IPAddress", "value": "172.30.201.7"});
        ask(json!([usable]))?;
        let exactly =
            |gateway: &Value| gateway["status"]["addresses"] == json!([usable]) && is(gateway, "Programmed", "True");
        lab.wait_until(gateway, "to have exactly the address that it asks for", exactly)?;
        let address = tenant.address("front", 80)?;
        tenant.wait_for_status(address, "www.example.com", "/", 200)?;
        // Nobody can give a name to a Service.
        ask(json!([usable, {"type": "Hostname", "value": "www.example.com"}]))?;
        let unusable = lab.wait_until(gateway, "to say what it doesn't get", |gateway| {
            programmed(gateway)["reason"] == "AddressNotUsable"
        })?;
        let message = programmed(&unusable)["message"].as_str().unwrap_or_default();
        ensure!(message.ends_with("www.example.com"), "{message}");
        // An address of another kind isn't waited for either.
        ask(json!([usable, {"type": "example.com/odd", "value": "odd"}]))?;
        lab.wait_until(gateway, "to refuse a type of address", |gateway| {
            condition(&gateway["status"]["conditions"], "Accepted")["reason"] == "UnsupportedAddress"
        })?;
        ask(json!([usable]))?;
        lab.wait_until(gateway, "to have exactly the address that it asks for", exactly)?;

        // Inside of the cluster the API server gives addresses out, and not this one.
        tenant.apply(
            "{apiVersion: gateway.edge/v1alpha1, kind: EdgeProxy, metadata: {name: inside, namespace: TENANT}, spec: \
             {provider: {type: Cluster, cluster: {envoyDeployment: {container: {image: 'edge-proxy:test'}}, envoyService: \
             {type: ClusterIP}}}}}",
        )?;
        tenant.apply(
            "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: inside, namespace: TENANT}, spec: \
             {gatewayClassName: TENANT, addresses: [{value: 192.0.2.1}], infrastructure: {parametersRef: {group: \
             gateway.edge, kind: EdgeProxy, name: inside}}, listeners: [{name: http, protocol: HTTP, port: 80}]}}",
        )?;
        let inside = tenant.object(&Kind::gateway_api("Gateway"), "inside");
        lab.wait_until(&inside, "to say why it doesn't get its address", |gateway| {
            let told = programmed(gateway);
            let message = told["message"].as_str().unwrap_or_default();
            told["reason"] == "AddressNotUsable" && message.contains("192.0.2.1: Service") && message.contains("range")
        })?;
        lab.change(&inside, &json!({"spec": {"addresses": null}}))?;
        lab.wait_until_true(&inside, "Programmed").map(drop)
    })
}

#[test]
fn addresses_of_a_node_port_follow_the_nodes() -> Result<()> {
    serving("nodes", |tenant, gateway| {
        let lab = tenant.lab;
        set(tenant, &json!({"envoyService": {"type": "NodePort"}}))?;
        let has = |wanted: &'static [&'static str]| {
            move |gateway: &Value| {
                let addresses = gateway["status"]["addresses"].as_array();
                let told: Vec<&str> = addresses
                    .into_iter()
                    .flatten()
                    .filter_map(|a| a["value"].as_str())
                    .collect();
                told == wanted && is(gateway, "Programmed", "True")
            }
        };
        lab.wait_until(gateway, "to be at its node", has(&["172.31.0.1"]))?;
        // A node that takes no pods.
        let node = Kind::core("Node").for_all("upkeep-second");
        lab.apply(
            "{apiVersion: v1, kind: Node, metadata: {name: upkeep-second}, spec: {taints: [{key: example.com/none, \
             effect: NoSchedule}]}}",
        )?;
        let second = json!({"status": {"addresses": [{"type": "InternalIP", "address": "172.31.0.9"}]}});
        lab.change_status(&node, &second)?;
        let both = lab.wait_until(gateway, "to be at both nodes", has(&["172.31.0.1", "172.31.0.9"]));
        lab.delete(&node)?;
        both?;
        lab.wait_until(gateway, "to be at the first node alone", has(&["172.31.0.1"]))?;
        Ok(())
    })
}

#[test]
fn a_stranger_s_service_gives_a_gateway_no_address() -> Result<()> {
    serving("stranger", |tenant, gateway| {
        let lab = tenant.lab;
        let own = tenant.fleet_object(&Kind::core("Service"), "front")?;
        let mut stranger = lab.get(&own)?;
        // As like it as can be, but for the name.
        let metadata = json!({
            "name": "a-stranger", "namespace": own.namespace,
            "labels": stranger["metadata"]["labels"], "annotations": stranger["metadata"]["annotations"],
        });
        stranger = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        });
        let before = lab.get(gateway)?["status"]["addresses"].clone();
        lab.apply(&stranger.to_string())?;
        // It says that it is of this fleet, which has no such Service.
        lab.wait_until_gone(&Kind::core("Service").named(&tenant.system.name, "a-stranger"))?;
        let route = tenant.route("later", "front", "later.example.com", "echo")?;
        lab.wait_until(gateway, "to count its route", |gateway| {
            ensure_same(gateway, &before);
            gateway["status"]["listeners"][0]["attachedRoutes"] == 2
        })?;
        lab.delete(&route)
    })
}

fn ensure_same(gateway: &Value, addresses: &Value) {
    assert_eq!(&gateway["status"]["addresses"], addresses, "other addresses");
}

#[test]
fn a_controller_that_begins_again_takes_nothing_back() -> Result<()> {
    serving("again", |tenant, gateway| {
        let lab = tenant.lab;
        let replicas = |n: u64| lab.change(&tenant.controller(), &json!({"spec": {"replicas": n}}));
        replicas(0)?;
        lab.wait_until(&tenant.controller(), "to be gone", |controller| {
            controller["status"]["replicas"].as_u64().unwrap_or(0) == 0
        })?;
        tenant.route("later", "front", "later.example.com", "echo")?;
        let before = lab.get(gateway)?;
        replicas(1)?;
        let is_taken_back = Cell::new(false);
        lab.wait_until(gateway, "to count its new route", |gateway| {
            let is_as_before = programmed(gateway)["status"] == "True"
                && gateway["status"]["addresses"] == before["status"]["addresses"];
            is_taken_back.set(is_taken_back.get() || !is_as_before);
            gateway["status"]["listeners"][0]["attachedRoutes"] == 2
        })?;
        // What the new one has seen of the fleet by now is what the old one has said of it.
        tenant.wait_for_status(tenant.address("front", 80)?, "later.example.com", "/", 200)?;
        let after = lab.get(gateway)?;
        ensure!(!is_taken_back.get(), "it wasn't programmed for a while");
        ensure!(
            programmed(&after) == programmed(&before),
            "{} is now {}",
            programmed(&before),
            programmed(&after)
        );
        Ok(())
    })
}
