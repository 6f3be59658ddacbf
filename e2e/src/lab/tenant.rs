//! A controller in the cluster with a class of its own, beside those of other tests: a tenant.

mod site;

use super::{Kind, Lab, Namespace, Object};
use crate::{
    http::{self, Request, Response},
    process::wait_for,
    stack::{DataPlane, program},
};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    net::{IpAddr, SocketAddr},
    process::Command,
};

/// A controller that watches its own namespace and one for applications.
pub struct Tenant {
    /// The cluster.
    pub lab: &'static Lab,
    /// Where the controller and its fleets live.
    pub system: Namespace,
    /// Where Gateways, routes and backends live.
    pub apps: Namespace,
}

/// What is particular about a controller.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// How many of it.
    pub replicas: usize,
    /// `provider.cluster.watch` as YAML on one line; the applications' namespace when absent.
    pub watch: Option<&'a str>,
    /// `provider.cluster.deploy` as YAML on one line; fleets live beside the controller when absent.
    pub deploy: Option<&'a str>,
}

impl Default for Terms<'_> {
    fn default() -> Self {
        Self {
            replicas: 1,
            watch: None,
            deploy: None,
        }
    }
}

impl Tenant {
    /// Installs a controller and its class, and waits until a replica is ready. Both have the tenant's name.
    pub fn install(name: &str, plane: &DataPlane) -> Result<Self> {
        Self::install_with(name, plane, Terms::default())
    }

    /// The same with particular terms.
    pub fn install_with(name: &str, plane: &DataPlane, terms: Terms<'_>) -> Result<Self> {
        let lab = Lab::join()?;
        let tenant = Self {
            lab,
            system: lab.namespace(&format!("{name}-system"))?,
            apps: lab.namespace(name)?,
        };
        tenant.certificates()?;
        let system = &tenant.system.name;
        let own = format!("{{ type: Namespaces, namespaces: [{name}] }}");
        let manifests = CONTROLLER
            .replace("SYSTEM", system)
            .replace("TENANT", name)
            .replace("WATCH", terms.watch.unwrap_or(&own))
            .replace("DEPLOY", terms.deploy.unwrap_or("{ type: ControllerNamespace }"))
            .replace("REPLICAS", &terms.replicas.to_string());
        tenant.allow()?;
        lab.apply(&manifests)?;
        lab.apply(&class(name, system, plane))?;
        let ready = lab.wait_until_true(&tenant.controller(), "Available").map(drop);
        tenant.explain(ready)?;
        Ok(tenant)
    }

    /// The Secrets of the controller and its proxies, made as the Job of an installation makes them.
    fn certificates(&self) -> Result<()> {
        let made = Command::new(program("edgegateway")?)
            .args(["certgen", "--disable-topology-injector"])
            .env("EDGE_GATEWAY_NAMESPACE", &self.system.name)
            .output()?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Ok(())
    }

    /// Allows the controller what it does.
    pub fn allow(&self) -> Result<()> {
        self.lab.apply(&BINDING.replace("SYSTEM", &self.system.name))
    }

    /// Takes that back.
    pub fn forbid(&self) -> Result<()> {
        self.lab.delete(&self.binding())
    }

    fn binding(&self) -> Object {
        Kind::new("rbac.authorization.k8s.io/v1", "ClusterRoleBinding").for_all(&self.system.name)
    }

    /// Waits until the controller's log contains a text.
    pub fn wait_for_log(&self, text: &str) -> Result<()> {
        wait_for(&format!("{text:?} in the controller's log"), super::PATIENCE, || {
            Ok(self.lab.logs(&self.system.name).contains(text).then_some(()))
        })
        .map(drop)
    }

    /// The sum of the controller's series that begin so, over its replicas.
    pub fn metric(&self, series: &str) -> Result<f64> {
        let pods = self
            .lab
            .list(&Kind::core("Pod"), &self.system.name, "control-plane=edge-gateway")?;
        let mut sum = 0.0;
        for pod in pods {
            let address = pod["status"]["podIP"].as_str().context("a pod without address")?;
            let address = SocketAddr::new(address.parse()?, 19001);
            let page = http::send(address, &Request::get("localhost", "/metrics"))?;
            for line in String::from_utf8(page.body)?
                .lines()
                .filter(|line| line.starts_with(series))
            {
                sum += line.rsplit(' ').next().unwrap_or_default().parse::<f64>()?;
            }
        }
        Ok(sum)
    }

    /// The controller's Deployment.
    pub fn controller(&self) -> Object {
        Kind::new("apps/v1", "Deployment").named(&self.system.name, "edge-gateway")
    }

    /// Names of the controller's pods that are not on their way out.
    pub fn replicas(&self) -> Result<Vec<String>> {
        let pods = self
            .lab
            .list(&Kind::core("Pod"), &self.system.name, "control-plane=edge-gateway")?;
        let alive = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        Ok(alive
            .filter_map(|pod| Some(pod["metadata"]["name"].as_str()?.to_owned()))
            .collect())
    }

    /// Creates or changes objects in the applications' namespace. `TENANT` stands for the name of it and of the class.
    pub fn apply(&self, yaml: &str) -> Result<()> {
        self.lab.apply(&yaml.replace("TENANT", &self.apps.name))
    }

    /// An object in the applications' namespace.
    pub fn object(&self, kind: &Kind, name: &str) -> Object {
        kind.named(&self.apps.name, name)
    }

    /// The objects of a kind that make up the fleet of a Gateway.
    pub fn fleet(&self, kind: &Kind, gateway: &str) -> Result<Vec<Value>> {
        let labels = format!(
            "gateway.edge/owning-gateway-namespace={},gateway.edge/owning-gateway-name={gateway}",
            self.apps.name
        );
        self.lab.list(kind, &self.system.name, &labels)
    }

    /// Waits until a Gateway is programmed, and gives its address with a port.
    pub fn address(&self, gateway: &str, port: u16) -> Result<SocketAddr> {
        let object = self.object(&Kind::gateway_api("Gateway"), gateway);
        let programmed = self.lab.wait_until_true(&object, "Programmed")?;
        let address = programmed["status"]["addresses"][0]["value"]
            .as_str()
            .context("a programmed Gateway without address")?;
        Ok(SocketAddr::new(address.parse::<IpAddr>()?, port))
    }

    /// Asks until the answer has a status.
    pub fn wait_for_status(&self, address: SocketAddr, host: &str, path: &str, status: u16) -> Result<Response> {
        let (answer, _) = wait_for(&format!("{status} from {host}{path}"), super::PATIENCE, || {
            let answer = http::send(address, &Request::get(host, path))?;
            Ok((answer.status == status).then_some(answer))
        })?;
        Ok(answer)
    }

    /// Puts all that the tenant's namespaces hold into the error, if there is one.
    pub fn explain<T>(&self, result: Result<T>) -> Result<T> {
        let namespaces = [self.apps.name.as_str(), &self.system.name];
        result.map_err(|error| anyhow::anyhow!("{error:#}\n{}", self.lab.report(&namespaces)))
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        // What belongs to no namespace; the lab ends soon in any case.
        let class = Kind::gateway_api("GatewayClass").for_all(&self.apps.name);
        for object in [class, self.binding()] {
            let _ = self.lab.delete(&object);
        }
    }
}

/// A class of the tenant's name, whose proxies are of a data plane.
fn class(name: &str, system: &str, plane: &DataPlane) -> String {
    let image = match plane {
        DataPlane::EdgeProxy => "edge-proxy:test",
        DataPlane::Envoy(_) => "envoy:test",
    };
    CLASS
        .replace("SYSTEM", system)
        .replace("TENANT", name)
        .replace("IMAGE", image)
}

const CLASS: &str = "
apiVersion: gateway.edge/v1alpha1
kind: EdgeProxy
metadata: { name: proxies, namespace: SYSTEM }
spec:
  provider:
    type: Cluster
    cluster:
      envoyDeployment:
        container: { image: IMAGE }
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: TENANT }
spec:
  controllerName: gateway.edge/TENANT
  parametersRef: { group: gateway.edge, kind: EdgeProxy, name: proxies, namespace: SYSTEM }
";

const BINDING: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: SYSTEM }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin }
subjects: [{ kind: ServiceAccount, name: edge-gateway, namespace: SYSTEM }]
";

const CONTROLLER: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: { name: edge-gateway, namespace: SYSTEM }
---
apiVersion: v1
kind: ConfigMap
metadata: { name: edge-gateway-config, namespace: SYSTEM }
data:
  edge-gateway.yaml: |
    apiVersion: gateway.edge/v1alpha1
    kind: EdgeGateway
    gateway: { controllerName: gateway.edge/TENANT }
    provider:
      type: Cluster
      cluster: { watch: WATCH, deploy: DEPLOY }
    logging: { level: { default: info } }
    extensionApis: { enableBackend: true }
---
apiVersion: v1
kind: Service
metadata: { name: edge-gateway, namespace: SYSTEM }
spec:
  selector: { control-plane: edge-gateway }
  ports: [{ name: grpc, port: 18000 }]
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: edge-gateway, namespace: SYSTEM }
spec:
  replicas: REPLICAS
  selector: { matchLabels: { control-plane: edge-gateway } }
  template:
    metadata: { labels: { control-plane: edge-gateway } }
    spec:
      serviceAccountName: edge-gateway
      terminationGracePeriodSeconds: 10
      containers:
        - name: edge-gateway
          image: edgegateway:test
          args: [server, --config-path=/config/edge-gateway.yaml]
          env:
            - { name: EDGE_GATEWAY_NAMESPACE, valueFrom: { fieldRef: { fieldPath: metadata.namespace } } }
            - { name: KUBERNETES_CLUSTER_DOMAIN, value: cluster.local }
          startupProbe: { httpGet: { path: /healthz, port: 8081 }, periodSeconds: 1, failureThreshold: 30 }
          readinessProbe: { httpGet: { path: /readyz, port: 8081 }, periodSeconds: 1 }
          volumeMounts:
            - { name: config, mountPath: /config, readOnly: true }
            - { name: certs, mountPath: /certs, readOnly: true }
      volumes:
        - { name: config, configMap: { name: edge-gateway-config } }
        - { name: certs, secret: { secretName: edge-gateway } }
"#;
