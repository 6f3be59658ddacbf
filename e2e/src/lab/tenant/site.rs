//! What most scenarios put into a tenant's namespaces, and find there again.

use super::Tenant;
use crate::lab::{Kind, Object};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// A backend that answers with what it was asked, as Service `echo`. `TENANT` stands for the namespace.
pub const ECHO: &str = "
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
";

impl Tenant {
    /// Makes the backend `echo`.
    pub fn echo(&self) -> Result<()> {
        self.apply(ECHO)
    }

    /// Makes a Gateway of the tenant's class that listens for HTTP on port 80, for one hostname or for all.
    pub fn gateway(&self, name: &str, hostname: Option<&str>) -> Result<Object> {
        let mut listener = json!({ "name": "http", "protocol": "HTTP", "port": 80 });
        if let Some(hostname) = hostname {
            listener["hostname"] = hostname.into();
        }
        let spec = json!({ "gatewayClassName": self.apps.name, "listeners": [listener] });
        self.make(&Kind::gateway_api("Gateway"), name, &spec)
    }

    /// Makes a Gateway with an EdgeProxy of its own, both of one name, and a route from `www.example.com` to the
    /// backend `echo`, which there must be.
    pub fn gateway_with(&self, name: &str, settings: &Value) -> Result<Object> {
        self.make(&Kind::edge("EdgeProxy"), name, settings)?;
        self.route(name, name, "www.example.com", "echo")?;
        let own = json!({ "group": "gateway.edge", "kind": "EdgeProxy", "name": name });
        let spec = json!({
            "gatewayClassName": self.apps.name,
            "infrastructure": { "parametersRef": own },
            "listeners": [{ "name": "http", "protocol": "HTTP", "port": 80 }],
        });
        self.make(&Kind::gateway_api("Gateway"), name, &spec)
    }

    /// The name of the one pod of a Gateway's fleet.
    pub fn pod(&self, gateway: &str) -> Result<String> {
        Ok(self.fleet_object(&Kind::core("Pod"), gateway)?.name)
    }

    /// Makes an HTTPRoute from a hostname of a Gateway to a Service's port 80.
    pub fn route(&self, name: &str, gateway: &str, hostname: &str, backend: &str) -> Result<Object> {
        let spec = json!({
            "parentRefs": [{ "name": gateway }],
            "hostnames": [hostname],
            "rules": [{ "backendRefs": [{ "name": backend, "port": 80 }] }],
        });
        self.make(&Kind::gateway_api("HTTPRoute"), name, &spec)
    }

    /// Makes a Gateway `front` that sends `www.example.com` to the backend `echo`, which is made too.
    pub fn front(&self) -> Result<Object> {
        self.echo()?;
        self.route("www", "front", "www.example.com", "echo")?;
        self.gateway("front", None)
    }

    /// Changes the EdgeProxy of the tenant's class.
    pub fn set_proxies(&self, spec: &Value) -> Result<()> {
        let proxies = Kind::edge("EdgeProxy").named(&self.system.name, "proxies");
        self.lab.change(&proxies, &json!({ "spec": spec }))
    }

    /// The one object of a kind in the fleet of a Gateway.
    pub fn fleet_object(&self, kind: &Kind, gateway: &str) -> Result<Object> {
        let objects = self.fleet(kind, gateway)?;
        ensure!(
            objects.len() == 1,
            "{} objects in the fleet of {gateway}",
            objects.len()
        );
        let name = objects[0]["metadata"]["name"]
            .as_str()
            .context("an object without a name")?;
        Ok(kind.named(&self.system.name, name))
    }

    /// Creates or changes an object in the applications' namespace.
    pub fn make(&self, kind: &Kind, name: &str, spec: &Value) -> Result<Object> {
        let object = self.object(kind, name);
        let made = json!({
            "apiVersion": kind.api_version, "kind": kind.kind,
            "metadata": { "name": name, "namespace": self.apps.name }, "spec": spec,
        });
        self.lab.apply(&made.to_string())?;
        Ok(object)
    }
}
