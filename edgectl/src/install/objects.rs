//! The objects of an installation, equal to what Helm renders from the chart: tests compare them.
//!
//! [`workload`] lists them in the order in which they are applied. The definitions of our kinds are the chart's files.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

use super::values::merge;

mod certificates;
mod controller;
mod roles;

/// Which installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Its name.
    pub name: String,
    /// Namespace of the controller.
    pub namespace: String,
}

/// What an installation is made from.
pub(super) struct Plan<'a> {
    values: &'a Value,
    release: &'a Release,
}

/// All objects but the definitions of kinds, in the order in which they are applied.
pub fn workload(values: &Value, release: &Release) -> Vec<Value> {
    let plan = Plan { values, release };
    let mut objects = Vec::new();
    if plan.is_on("/createNamespace") {
        objects.push(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": release.namespace, "labels": plan.labels()},
        }));
    }
    objects.push(plan.object("v1", "ServiceAccount", "edge-gateway", json!({})));
    objects.extend(roles::objects(&plan));
    objects.extend(certificates::accounts(&plan));
    objects.extend(plan.injects().then(|| controller::webhook(&plan)));
    objects.push(certificates::job(&plan));
    objects.extend(controller::objects(&plan));
    objects
}

/// The definitions of our kinds.
///
/// # Errors
/// When a checked-in file isn't YAML, which a test excludes.
pub fn definitions() -> anyhow::Result<Vec<Value>> {
    DEFINITIONS.iter().map(|text| Ok(serde_yaml::from_str(text)?)).collect()
}

/// The definitions of Gateway API's standard channel, and the policy that guards them.
///
/// # Errors
/// When a checked-in file isn't YAML, which a test excludes.
pub fn gateway_api() -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for text in GATEWAY_API {
        objects.extend(serde_yaml::from_multiple::<Value>(text)?);
    }
    objects.retain(|object| !object.is_null());
    Ok(objects)
}

macro_rules! definitions {
    ($($name:literal),+) => {
        &[$(include_str!(concat!("../../../charts/gateway-crds-helm/templates/", $name, ".yaml"))),+]
    };
}

macro_rules! gateway_api {
    ($($name:literal),+) => {
        &[$(include_str!(concat!("../../gateway-api/gateway.networking.k8s.io_", $name, ".yaml"))),+]
    };
}

const GATEWAY_API: &[&str] = gateway_api![
    "backendtlspolicies",
    "gatewayclasses",
    "gateways",
    "grpcroutes",
    "httproutes",
    "listenersets",
    "referencegrants",
    "tcproutes",
    "tlsroutes",
    "udproutes",
    "vap_safeupgrades"
];

const DEFINITIONS: &[&str] = definitions![
    "backends",
    "backendtrafficpolicies",
    "clienttrafficpolicies",
    "edgeextensionpolicies",
    "edgepatchpolicies",
    "edgeproxies",
    "httproutefilters",
    "securitypolicies"
];

impl Plan<'_> {
    fn value(&self, path: &str) -> &Value {
        self.values.pointer(path).unwrap_or(&Value::Null)
    }

    fn text(&self, path: &str) -> &str {
        self.value(path).as_str().unwrap_or_default()
    }

    fn is_on(&self, path: &str) -> bool {
        self.value(path) == true
    }

    /// A value that says something.
    fn filled(&self, path: &str) -> Option<&Value> {
        Some(self.value(path)).filter(|value| !is_empty(value))
    }

    /// Adds the members of a map that say something, under their own names.
    fn add_filled(&self, object: &mut Value, folder: &str, names: &[&str]) {
        for name in names {
            if let Some(value) = self.filled(&format!("{folder}/{name}")) {
                object[*name] = value.clone();
            }
        }
    }

    /// Objects without a namespace are named for the one that they serve: there is one controller in each.
    fn prefix(&self) -> String {
        match self.release.namespace.as_str() {
            "edge-gateway-system" => "gateway-helm".to_owned(),
            namespace => format!("gateway-helm-{namespace}"),
        }
    }

    fn selector(&self) -> Value {
        json!({
            "app.kubernetes.io/name": "gateway-helm",
            "app.kubernetes.io/instance": self.release.name,
            "control-plane": "edge-gateway",
        })
    }

    fn labels(&self) -> Value {
        let own = json!({
            "app.kubernetes.io/version": concat!("v", env!("CARGO_PKG_VERSION")),
            super::MANAGED_BY: super::MANAGER,
        });
        union([&self.selector(), &own, self.value("/commonLabels")])
    }

    fn image(&self, path: &str) -> String {
        let image = self.text(path);
        match self.text("/global/imageRegistry") {
            "" => image.to_owned(),
            _ if image.is_empty() => String::new(),
            registry => format!("{registry}/{image}"),
        }
    }

    fn controller_image(&self) -> String {
        match self.text("/deployment/edgeGateway/image") {
            "" => self.image("/global/images/edgeGateway/image"),
            image => image.to_owned(),
        }
    }

    fn pull_policy(&self) -> &str {
        match self.text("/deployment/edgeGateway/imagePullPolicy") {
            "" => self.text("/global/images/edgeGateway/pullPolicy"),
            policy => policy,
        }
    }

    fn pull_secrets(&self) -> Option<&Value> {
        self.filled("/deployment/edgeGateway/imagePullSecrets")
            .or_else(|| self.filled("/global/images/edgeGateway/pullSecrets"))
            .or_else(|| self.filled("/global/imagePullSecrets"))
    }

    /// Whether proxies are told their zone: neither the values nor the configuration say no.
    fn injects(&self) -> bool {
        let disabled = "/config/edgeGateway/provider/cluster/proxyTopologyInjector/disabled";
        self.is_on("/topologyInjector/enabled") && !self.is_on(disabled)
    }

    /// What the controller reads: the images that the values know, and over them what the values say.
    fn config(&self) -> Value {
        let mut cluster = json!({"shutdownManager": {"image": self.controller_image()}});
        let rate_limit = self.image("/global/images/ratelimit/image");
        if !rate_limit.is_empty() {
            cluster["rateLimitDeployment"] = json!({"container": {"image": rate_limit}});
        }
        if !self.is_on("/topologyInjector/enabled") {
            cluster["proxyTopologyInjector"] = json!({"disabled": true});
        }
        let mut config = json!({
            "apiVersion": "gateway.edge/v1alpha1",
            "kind": "EdgeGateway",
            "provider": {"type": "Cluster", "cluster": cluster},
        });
        merge(&mut config, self.value("/config/edgeGateway").clone());
        config
    }

    /// Changes with the configuration.
    fn config_hash(&self) -> String {
        // As Helm's `toJson` writes it, so that both make the same.
        let text = self.config().to_string();
        let text = text
            .replace('&', "\\u0026")
            .replace('<', "\\u003c")
            .replace('>', "\\u003e");
        format!("{:.16x}", Sha256::digest(text))
    }

    /// Namespaces that the controller is bound to, its own included; nothing when it watches more.
    fn watched(&self) -> Option<Vec<String>> {
        let watch = self.value("/config/edgeGateway/provider/cluster/watch");
        if watch["type"] != "Namespaces" {
            return None;
        }
        let named = watch["namespaces"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let all: BTreeSet<&str> = named.chain([self.release.namespace.as_str()]).collect();
        Some(all.into_iter().map(str::to_owned).collect())
    }

    fn in_gateway_namespaces(&self) -> bool {
        self.text("/config/edgeGateway/provider/cluster/deploy/type") == "GatewayNamespace"
    }

    /// An object in the controller's namespace.
    fn object(&self, version: &str, kind: &str, name: &str, body: Value) -> Value {
        let metadata = json!({"name": name, "namespace": self.release.namespace, "labels": self.labels()});
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": metadata});
        merge(&mut object, body);
        object
    }
}

/// As templates take it: what is empty says nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
    }
}

/// Members of several maps; the last wins.
fn union<'a>(maps: impl IntoIterator<Item = &'a Value>) -> Value {
    let maps = maps.into_iter().filter_map(Value::as_object);
    let members = maps.flatten().map(|(name, value)| (name.clone(), value.clone()));
    Value::Object(members.collect::<Map<_, _>>())
}

/// Items of several lists.
fn chain<'a>(lists: impl IntoIterator<Item = &'a Value>) -> Value {
    Value::Array(
        lists
            .into_iter()
            .filter_map(Value::as_array)
            .flatten()
            .cloned()
            .collect(),
    )
}
