//! What a Gateway brings into the cluster, from its first request to its end.

use anyhow::{Result, ensure};
use e2e::{
    lab::{Kind, Tenant},
    stack::DataPlane,
    with_each_data_plane,
};
use serde_json::json;

with_each_data_plane! {
    a_gateway_serves_grows_and_goes,
}

const QUICKSTART: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: { name: echo, namespace: TENANT }
spec:
  selector: { matchLabels: { app: echo } }
  template:
    metadata: { labels: { app: echo } }
    spec:
      containers:
        - name: echo
          image: edge-echo:test
          readinessProbe: { httpGet: { path: /, port: 3000 }, periodSeconds: 1 }
---
apiVersion: v1
kind: Service
metadata: { name: echo, namespace: TENANT }
spec:
  selector: { app: echo }
  ports: [{ name: http, port: 80, targetPort: 3000 }]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: front, namespace: TENANT }
spec:
  gatewayClassName: TENANT
  listeners: [{ name: http, protocol: HTTP, port: 80 }]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: www, namespace: TENANT }
spec:
  parentRefs: [{ name: front }]
  hostnames: [www.example.com]
  rules: [{ backendRefs: [{ name: echo, port: 80 }] }]
";

fn a_gateway_serves_grows_and_goes(plane: &DataPlane) -> Result<()> {
    let name = match plane {
        DataPlane::EdgeProxy => "fleet-edge-proxy",
        DataPlane::Envoy(_) => "fleet-envoy",
    };
    let tenant = Tenant::install(name, plane)?;
    tenant.explain(serves_grows_and_goes(&tenant))
}

fn serves_grows_and_goes(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let (workloads, services) = (Kind::new("apps/v1", "Deployment"), Kind::core("Service"));
    tenant.apply(QUICKSTART)?;
    let address = tenant.address("front", 80)?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    let missing = tenant.wait_for_status(address, "nobody.example", "/", 404)?;
    ensure!(
        missing.body.is_empty() && missing.header("content-length") == Some("0"),
        "{missing:?}"
    );

    let proxies = Kind::edge("EdgeProxy").named(&tenant.system.name, "proxies");
    let replicas = |n: u64| {
        let settings = json!({"envoyDeployment": {"replicas": n}});
        lab.change(&proxies, &json!({"spec": {"provider": {"cluster": settings}}}))
    };
    let deployment = tenant.fleet(&workloads, "front")?;
    ensure!(deployment.len() == 1, "{} Deployments", deployment.len());
    let deployment = workloads.named(
        &tenant.system.name,
        deployment[0]["metadata"]["name"].as_str().unwrap_or_default(),
    );
    replicas(2)?;
    lab.wait_until(&deployment, "to have two ready pods", |workload| {
        workload["status"]["readyReplicas"] == 2
    })?;

    lab.delete(&tenant.object(&Kind::gateway_api("Gateway"), "front"))?;
    lab.wait_until_gone(&deployment)?;
    for kind in [&services, &Kind::core("ConfigMap"), &Kind::core("ServiceAccount")] {
        for object in tenant.fleet(kind, "front")? {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            lab.wait_until_gone(&kind.named(&tenant.system.name, name))?;
        }
    }
    // What isn't of that Gateway stays.
    for kept in [
        services.named(&tenant.system.name, "edge-gateway"),
        services.named(&tenant.apps.name, "echo"),
    ] {
        ensure!(!lab.get(&kept)?.is_null(), "{kept} is gone");
    }
    Ok(())
}
