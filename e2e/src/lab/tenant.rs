//! A controller in the cluster with a class of its own, beside those of other tests: a tenant. It is installed as
//! everybody's is, so whatever a test does is done with the rights, certificates and settings of an installation.

mod installation;
mod site;

pub use installation::Installation;
pub use site::ECHO;

use super::{Kind, Lab, Namespace, Object, is_rolled_out, wait_for};
use crate::{
    http::{self, Request, Response},
    stack::DataPlane,
};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

/// A controller that watches its own namespace and one for applications.
pub struct Tenant {
    /// The cluster.
    pub lab: &'static Lab,
    /// Where the controller and its fleets live.
    pub system: Namespace,
    /// Where Gateways, routes and backends live.
    pub apps: Namespace,
    /// How it was installed.
    pub installation: Installation,
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
    /// `rateLimit` as YAML on one line; nothing is counted for all proxies together when absent.
    pub rate_limit: Option<&'a str>,
    /// `extensionManager` as YAML on one line; nobody changes what proxies are sent when absent.
    pub extension_manager: Option<&'a str>,
}

impl Default for Terms<'_> {
    fn default() -> Self {
        Self {
            replicas: 1,
            watch: None,
            deploy: None,
            rate_limit: None,
            extension_manager: None,
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
        let system = format!("{name}-system");
        let tenant = Self {
            lab,
            apps: lab.namespace(name)?,
            installation: Installation::new(&system, &values(name, terms)?),
            system: lab.namespace(&system)?,
        };
        let installed = tenant.installation.install(&["--skip-crds"]).map(drop);
        tenant.explain(installed)?;
        lab.apply(&class(name, &system, plane))?;
        Ok(tenant)
    }

    /// Allows the controller again what it does for the applications' namespace.
    pub fn allow(&self) -> Result<()> {
        self.installation.install(&["--skip-crds"]).map(drop)
    }

    /// Takes that away.
    pub fn forbid(&self) -> Result<()> {
        let binding = Kind::new("rbac.authorization.k8s.io/v1", "RoleBinding");
        self.lab.delete(&binding.named(&self.apps.name, "edge-gateway-role"))
    }

    /// Waits until the controller's log contains a text.
    pub fn wait_for_log(&self, text: &str) -> Result<()> {
        wait_for(&format!("{text:?} in the controller's log"), || {
            let lines = self.lab.lines_with(&self.system.name, text);
            Ok((!lines.is_empty()).then_some(()))
        })
    }

    /// The sum of the controller's series that begin so, over its replicas.
    pub fn metric(&self, series: &str) -> Result<f64> {
        Ok(self.metric_by_replica(series)?.into_values().sum())
    }

    /// The sum of the series that begin so, of each replica of the controller.
    pub fn metric_by_replica(&self, series: &str) -> Result<BTreeMap<String, f64>> {
        let pods = self
            .lab
            .list(&Kind::core("Pod"), &self.system.name, "control-plane=edge-gateway")?;
        let mut sums = BTreeMap::new();
        for pod in pods {
            let address = pod["status"]["podIP"].as_str().context("a pod without address")?;
            let address = SocketAddr::new(address.parse()?, 19001);
            let page = http::send(address, &Request::get("localhost", "/metrics"))?;
            for line in String::from_utf8(page.body)?
                .lines()
                .filter(|line| line.starts_with(series))
            {
                let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                *sums.entry(name).or_default() += line.rsplit(' ').next().unwrap_or_default().parse::<f64>()?;
            }
        }
        Ok(sums)
    }

    /// The controller's Deployment.
    pub fn controller(&self) -> Object {
        Kind::new("apps/v1", "Deployment").named(&self.system.name, "edge-gateway")
    }

    /// Has so many replicas of the controller, and waits until all others have ended.
    pub fn scale(&self, replicas: usize) -> Result<()> {
        self.lab
            .change(&self.controller(), &json!({ "spec": { "replicas": replicas } }))?;
        let wish = format!("to have {replicas} ready pods");
        self.lab.wait_until(&self.controller(), &wish, |controller| {
            is_rolled_out(controller, replicas)
        })?;
        wait_for("the end of other replicas", || {
            let pods = self
                .lab
                .list(&Kind::core("Pod"), &self.system.name, "control-plane=edge-gateway")?;
            Ok((pods.len() == replicas).then_some(()))
        })
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

    /// The objects in the cluster that exist for a Gateway alone, its pods aside.
    pub fn made_for(&self, gateway: &str) -> Result<Vec<Object>> {
        let mut objects = Vec::new();
        for kind in FLEET.map(|(api_version, kind)| Kind::new(api_version, kind)) {
            for object in self.fleet(&kind, gateway)? {
                let name = object["metadata"]["name"]
                    .as_str()
                    .context("an object without a name")?;
                objects.push(kind.named(&self.system.name, name));
            }
        }
        Ok(objects)
    }

    /// The pods that serve a Gateway, and how often the containers of each were started again.
    pub fn proxies(&self, gateway: &str) -> Result<Vec<(String, Value)>> {
        let pods = self.fleet(&Kind::core("Pod"), gateway)?;
        let starts = |pod: &Value| {
            let containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
            containers.map(|container| container["restartCount"].clone()).collect()
        };
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(pods.iter().map(|pod| (name(pod), starts(pod))).collect())
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
        wait_for(&format!("{status} from {host}{path}"), || {
            let answer = http::send(address, &Request::get(host, path))?;
            Ok((answer.status == status).then_some(answer))
        })
    }

    /// Puts all that the tenant's namespaces hold into the error, if there is one.
    pub fn explain<T>(&self, result: Result<T>) -> Result<T> {
        let namespaces = [self.apps.name.as_str(), &self.system.name];
        result.map_err(|error| anyhow::anyhow!("{error:#}\n{}", self.lab.report(&namespaces)))
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        // What belongs to no namespace and would be looked at by others; the lab ends soon in any case.
        let class = Kind::gateway_api("GatewayClass").for_all(&self.apps.name);
        let _ = self.lab.delete(&class);
    }
}

/// Kinds that every fleet has an object of.
const FLEET: [(&str, &str); 4] = [
    ("apps/v1", "Deployment"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "ServiceAccount"),
];

/// A class of the tenant's name, whose proxies are of a data plane.
fn class(name: &str, system: &str, plane: &DataPlane) -> String {
    CLASS
        .replace("SYSTEM", system)
        .replace("TENANT", name)
        .replace("IMAGE", plane.image())
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

/// Values over those of the chart.
fn values(name: &str, terms: Terms<'_>) -> Result<Value> {
    let own = json!({"type": "Namespaces", "namespaces": [name]});
    let yaml = |text: Option<&str>| text.map(serde_yaml::from_str::<Value>).transpose();
    let watch = yaml(terms.watch)?.unwrap_or(own);
    let deploy = yaml(terms.deploy)?.unwrap_or(json!({"type": "ControllerNamespace"}));
    let mut config = json!({
        "gateway": {"controllerName": format!("gateway.edge/{name}")},
        "provider": {"cluster": {"watch": watch, "deploy": deploy}},
        "extensionApis": {"enableBackend": true},
    });
    if let Some(rate_limit) = yaml(terms.rate_limit)? {
        config["rateLimit"] = rate_limit;
    }
    if let Some(manager) = yaml(terms.extension_manager)? {
        config["extensionManager"] = manager;
    }
    Ok(json!({
        "config": {"edgeGateway": config},
        "deployment": {
            "replicas": terms.replicas,
            "edgeGateway": {"readinessProbe": {"periodSeconds": 1}},
        },
    }))
}
