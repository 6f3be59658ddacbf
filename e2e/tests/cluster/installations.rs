//! The product as everybody installs it: certificates by its job, rights by its roles, served, upgraded under load, and
//! gone again with nothing of others.

use anyhow::{Context, Result, ensure};
use e2e::{
    http::{self, Request},
    lab::{ECHO, Installation, Kind, Lab, Namespace, Object, PATIENCE, is, is_held, on_parent},
    process::wait_for,
    traffic::Traffic,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, env, net::SocketAddr, path::Path, process::Command};

#[test]
fn fleets_beside_the_controller_are_served_upgraded_and_left() -> Result<()> {
    let watch = json!({"type": "Namespaces", "namespaces": ["installed"]});
    Site::prepare("installed", &watch, "ControllerNamespace")?.live()
}

#[test]
fn fleets_beside_their_gateways_are_served_upgraded_and_left() -> Result<()> {
    // Which namespaces these are is not known in advance, so the roles are for all.
    let watch = json!({
        "type": "NamespaceSelector", "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "installed-apart"}},
    });
    Site::prepare("installed-apart", &watch, "GatewayNamespace")?.live()
}

/// Helm has no list of its hooks' objects: what stays is what docs/install.md says.
#[test]
fn helm_installs_the_same_and_leaves_what_is_documented() -> Result<()> {
    let watch = json!({"type": "Namespaces", "namespaces": ["helmed"]});
    let site = Site::prepare("helmed", &watch, "ControllerNamespace")?;
    site.explain((|| {
        // The lab has the definitions already.
        site.upgrade_by_helm(&["crds.enabled=false"])?;
        site.is_ready(1)?;
        site.serves()?;
        site.helm(&[
            "uninstall",
            "edge-gateway",
            "--cascade=foreground",
            "--wait",
            "--timeout=5m",
        ])?;
        let webhook = format!(
            "MutatingWebhookConfiguration edge-gateway-topology-injector.{}",
            site.system
        );
        let documented = [
            "Lease edge-gateway-leader",
            webhook.as_str(),
            "Secret edge",
            "Secret edge-gateway",
            "Secret edge-gateway-ca",
            "Secret edge-oidc-hmac",
            "Secret edge-rate-limit",
        ];
        let left = || -> Result<Vec<String>> {
            let left = site.left()?;
            Ok(left.iter().map(|(kind, name)| format!("{kind} {name}")).collect())
        };
        // Helm takes a replica's rights away before its end, and knows nothing of its Lease: the cluster collects that.
        let is_collected = || Ok((!left()?.iter().any(|name| name.starts_with(REPLICA))).then_some(()));
        wait_for("the end of the Leases of replicas", PATIENCE, is_collected)?;
        let left = left()?;
        ensure!(left == documented, "{left:?}");
        Ok(())
    })())
}

#[test]
fn an_autoscaler_takes_the_controller_over_without_a_pod_less() -> Result<()> {
    let watch = json!({"type": "Namespaces", "namespaces": ["autoscaled"]});
    let site = Site::prepare("autoscaled", &watch, "ControllerNamespace")?;
    site.explain(site.is_taken_over(&["createNamespace=true"], |values| {
        let mut args = vec!["--skip-crds"];
        args.extend(values.iter().flat_map(|value| ["--set", *value]));
        site.installation.install(&args).map(drop)
    }))
}

#[test]
fn an_autoscaler_takes_the_controller_over_without_a_pod_less_with_helm() -> Result<()> {
    let watch = json!({"type": "Namespaces", "namespaces": ["helm-scaled"]});
    let site = Site::prepare("helm-scaled", &watch, "ControllerNamespace")?;
    site.explain(site.is_taken_over(&["crds.enabled=false"], |values| site.upgrade_by_helm(values)))
}

/// A namespace with a Gateway, and one for a controller that isn't there yet.
struct Site {
    lab: &'static Lab,
    name: String,
    /// Kept as long as the site.
    _apps: Namespace,
    system: String,
    /// Where the fleet is to be.
    fleet: String,
    /// The controller's configuration, as the chart's values have it.
    config: Value,
    installation: Installation,
}

impl Drop for Site {
    fn drop(&mut self) {
        for object in [
            Kind::gateway_api("GatewayClass").for_all(&self.name),
            Kind::core("Namespace").for_all(&self.system),
        ] {
            // The lab ends soon in any case.
            let _ = self.lab.delete(&object);
        }
    }
}

impl Site {
    fn prepare(name: &str, watch: &Value, deploy: &str) -> Result<Self> {
        let lab = Lab::join()?;
        let system = format!("{name}-system");
        let cluster = json!({"watch": watch, "deploy": {"type": deploy}});
        let config = json!({
            "gateway": {"controllerName": format!("gateway.edge/{name}")}, "provider": {"cluster": cluster},
        });
        Ok(Self {
            lab,
            name: name.to_owned(),
            _apps: lab.namespace(name)?,
            fleet: if deploy == "GatewayNamespace" {
                name.to_owned()
            } else {
                system.clone()
            },
            installation: Installation::new(&system, &json!({"config": {"edgeGateway": config}})),
            config,
            system,
        })
    }

    fn live(&self) -> Result<()> {
        self.explain((|| {
            self.is_installed()?;
            let address = self.serves()?;
            self.is_upgraded(address)?;
            self.goes(address)
        })())
    }

    fn explain(&self, result: Result<()>) -> Result<()> {
        result.map_err(|error| anyhow::anyhow!("{error:#}\n{}", self.lab.report(&[&self.system, &self.name])))
    }

    /// Installs the chart with values, or upgrades what is installed to them.
    fn upgrade_by_helm(&self, values: &[&str]) -> Result<()> {
        let config = format!("config.edgeGateway={}", self.config);
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/gateway-helm");
        let chart = chart.to_str().context("a path that is no text")?;
        let mut args = vec!["upgrade", "edge-gateway", chart, "--install", "--set-json", &config];
        args.extend(["--create-namespace", "--wait", "--timeout=5m"]);
        args.extend(values.iter().flat_map(|value| ["--set", *value]));
        self.helm(&args)
    }

    fn helm(&self, args: &[&str]) -> Result<()> {
        let program =
            env::var_os("EDGE_HELM").context("EDGE_HELM is to name Helm: `cargo xtask test --tier cluster`")?;
        let home = tempfile::tempdir()?;
        let output = Command::new(program)
            .args(args)
            .args(["--namespace", &self.system])
            .env("HOME", home.path())
            .output()?;
        ensure!(
            output.status.success(),
            "helm {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    fn controller(&self) -> Object {
        Kind::new("apps/v1", "Deployment").named(&self.system, "edge-gateway")
    }

    fn is_installed(&self) -> Result<()> {
        self.installation.install(&["--set", "createNamespace=true"])?;
        self.is_ready(1)?;
        let name = format!("edge-gateway-topology-injector.{}", self.system);
        let webhook = Kind::new("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration").for_all(&name);
        let trusted = &self.lab.get(&webhook)?["webhooks"][0]["clientConfig"]["caBundle"];
        ensure!(trusted.is_string(), "the job has not said whom to trust");
        Ok(())
    }

    /// Looks at the controller as it is at this moment: the installation has waited for it.
    fn is_ready(&self, replicas: u64) -> Result<()> {
        let controller = self.lab.get(&self.controller())?;
        let status = &controller["status"];
        let is_so = status["observedGeneration"] == controller["metadata"]["generation"]
            && ["replicas", "updatedReplicas", "availableReplicas"]
                .iter()
                .all(|count| status[count] == replicas);
        ensure!(is_so, "not {replicas} replicas of the last version: {status}");
        Ok(())
    }

    fn serves(&self) -> Result<SocketAddr> {
        let controller = format!("gateway.edge/{}", self.name);
        let objects = format!("{OBJECTS}---{ECHO}");
        self.lab.apply(&objects.replace("TENANT", &self.name))?;
        let gateway = Kind::gateway_api("Gateway").named(&self.name, "front");
        let gateway = self.lab.wait_until_true(&gateway, "Programmed")?;
        let address = gateway["status"]["addresses"][0]["value"]
            .as_str()
            .context("no address")?;
        let address = SocketAddr::new(address.parse()?, 80);
        wait_for("the first 200", PATIENCE, || {
            let answer = http::send(address, &Request::get("www.example.com", "/"))?;
            Ok((answer.status == 200).then_some(()))
        })?;
        let class = self.lab.get(&Kind::gateway_api("GatewayClass").for_all(&self.name))?;
        ensure!(is(&class, "Accepted", "True"), "{}", class["status"]);
        let route = Kind::gateway_api("HTTPRoute").named(&self.name, "www");
        for condition in ["Accepted", "ResolvedRefs"] {
            self.lab.wait_until(&route, &format!("to be {condition}"), |route| {
                on_parent(route, &controller, condition)["status"] == "True"
            })?;
        }
        let pods = self.lab.list(&Kind::core("Pod"), &self.fleet, PROXIES)?;
        ensure!(pods.len() == 1, "{} proxies in {}", pods.len(), self.fleet);
        let zone = &pods[0]["metadata"]["annotations"]["topology.kubernetes.io/zone"];
        let node = self.lab.get(&Kind::core("Node").for_all("kubelab"))?;
        let wanted = &node["metadata"]["labels"]["topology.kubernetes.io/zone"];
        ensure!(
            wanted.is_string() && zone == wanted,
            "the proxy was told {zone} for its zone, {wanted}"
        );
        let said = self.lab.logs(&self.system);
        ensure!(!said.contains("forbidden"), "a right is missing:\n{said}");
        Ok(address)
    }

    /// Whether the controller's pods stay the same when an autoscaler is to decide how many there are. `install`: with
    /// these values.
    fn is_taken_over(&self, values: &[&str], install: impl Fn(&[&str]) -> Result<()>) -> Result<()> {
        install(&[values, &["deployment.replicas=3"]].concat())?;
        self.is_ready(3)?;
        let names = || -> Result<BTreeSet<String>> {
            let pods = self
                .lab
                .list(&Kind::core("Pod"), &self.system, "control-plane=edge-gateway")?;
            let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            Ok(pods.iter().map(name).collect())
        };
        let before = names()?;
        let autoscaler = ["hpa.enabled=true", "hpa.minReplicas=3", "hpa.maxReplicas=4"];
        install(&[values, &autoscaler].concat())?;
        self.is_ready(3)?;
        let after = names()?;
        ensure!(before == after, "pods were replaced: {before:?}, then {after:?}");
        Ok(())
    }

    fn is_upgraded(&self, address: SocketAddr) -> Result<()> {
        let traffic = Traffic::start(address, "www.example.com", 4);
        traffic.wait_for_more(100, PATIENCE)?;
        let replicas = "deployment.replicas=2,config.edgeGateway.logging.level.default=debug";
        self.installation.install(&["--set", replicas])?;
        self.is_ready(2)?;
        traffic.wait_for_more(100, PATIENCE)?;
        traffic.stop_without_failure()?;
        let namespace = self.lab.get(&Kind::core("Namespace").for_all(&self.system))?;
        ensure!(
            namespace["metadata"]["deletionTimestamp"].is_null(),
            "the namespace goes"
        );
        Ok(())
    }

    fn goes(&self, address: SocketAddr) -> Result<()> {
        let secret = |name: &str| Kind::core("Secret").named(&self.system, name);
        let of_others = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "somebody"}}});
        self.lab.change(&secret("edge-rate-limit"), &of_others)?;
        let mine =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine", "namespace": self.system}});
        self.lab.apply(&mine.to_string())?;

        let class = Kind::gateway_api("GatewayClass").for_all(&self.name);
        self.lab.wait_until(&class, "to be held for its Gateway", is_held)?;
        let traffic = Traffic::start(address, "www.example.com", 4);
        traffic.wait_for_more(100, PATIENCE)?;
        let said = self.installation.uninstall(&["--wait"])?;
        let class = self.lab.get(&class)?;
        ensure!(!is_held(&class), "nobody lets go of it any more: {class}");
        let stays = format!("Secret {}/edge-rate-limit stays: it is kept by somebody", self.system);
        ensure!(said.contains(&stays), "{said}");
        let left = self.left()?;
        ensure!(left.is_empty(), "left behind: {left:?}");
        for name in ["edge-rate-limit", "mine"] {
            ensure!(!self.lab.get(&secret(name))?.is_null(), "Secret {name} is gone");
        }
        traffic.wait_for_more(100, PATIENCE)?;
        traffic.stop_without_failure()?;

        let error = self.installation.uninstall(&[]).err().context("removed twice")?;
        let error = format!("{error:#}");
        let none = format!("no installation edge-gateway is in namespace {}", self.system);
        ensure!(error.contains(&none), "{error}");
        Ok(())
    }

    /// Whether an object belongs to the installation. Those of fleets don't: they go with their Gateways.
    fn is_ours(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let (labels, name) = (&metadata["labels"], metadata["name"].as_str().unwrap_or_default());
        if metadata["namespace"].is_null() {
            return name.ends_with(&self.system) || name.contains(&format!("-{}-", self.system));
        }
        let manager = labels["app.kubernetes.io/managed-by"].as_str().unwrap_or_default();
        match manager {
            // Of a controller, or of somebody who makes pods.
            "" => labels["control-plane"] == "edge-gateway" || labels["app"] == "certgen",
            "edgectl" | "edge-gateway" | "Helm" => labels["app.kubernetes.io/component"] != "proxy",
            _ => false,
        }
    }

    /// What is there still of the installation: kinds and names.
    fn left(&self) -> Result<BTreeSet<(String, String)>> {
        let mut left = BTreeSet::new();
        for (version, name) in KINDS {
            let kind = Kind::new(version, name);
            for namespace in [&self.system, &self.name] {
                let found = self.lab.list(&kind, namespace, "")?;
                let ours = found.iter().filter(|object| self.is_ours(object));
                left.extend(ours.map(|object| {
                    let text = object["metadata"]["name"].as_str().unwrap_or_default();
                    (name.to_owned(), text.to_owned())
                }));
            }
        }
        Ok(left)
    }
}

/// How the Leases of replicas are named.
const REPLICA: &str = "Lease edge-gateway-replica-";

/// Kinds that an installation has objects of.
const KINDS: [(&str, &str); 14] = [
    ("v1", "ConfigMap"),
    ("v1", "Pod"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
    ("coordination.k8s.io/v1", "Lease"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
];

/// Pods of fleets.
const PROXIES: &str = "app.kubernetes.io/managed-by=edge-gateway,app.kubernetes.io/component=proxy";

const OBJECTS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: TENANT }
spec: { controllerName: gateway.edge/TENANT }
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

#[test]
fn an_object_of_somebody_else_stops_an_installation_before_its_first_step() -> Result<()> {
    let lab = Lab::join()?;
    let name = "taken-names";
    let _namespace = lab.namespace(name)?;
    let metadata = json!({
        "name": "edge-gateway", "namespace": name, "labels": {"app.kubernetes.io/managed-by": "Helm"},
    });
    lab.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}).to_string())?;
    let installed = Installation::new(name, &json!({})).install(&["--skip-crds"]);
    let error = format!("{:#}", installed.err().context("it was installed")?);
    let theirs = format!("ServiceAccount {name}/edge-gateway (kept by Helm)");
    ensure!(error.contains(&theirs), "{error}");
    let inventory = Kind::core("ConfigMap").named(name, "edge-gateway-inventory");
    ensure!(lab.get(&inventory)?.is_null(), "something was done");
    Ok(())
}

#[test]
fn an_image_that_cannot_be_pulled_is_named_while_it_is_waited_for() -> Result<()> {
    let lab = Lab::join()?;
    let name = "no-image";
    let _namespace = lab.namespace(name)?;
    // Nothing in the lab stands in for this image.
    let image = json!({
        "global": {"images": {"edgeGateway": {"image": "example.com/nothing:v1"}}},
        "config": {"edgeGateway": {"gateway": {"controllerName": "gateway.edge/no-image"}}},
    });
    let installed = Installation::new(name, &image).install(&["--skip-crds", "--timeout", "15s"]);
    let error = format!("{:#}", installed.err().context("it was installed")?);
    for words in [
        "image example.com/nothing:v1 can't be pulled; build and push it",
        "job edge-gateway-certgen has not ended",
    ] {
        ensure!(error.contains(words), "{words}: {error}");
    }
    Ok(())
}

#[test]
fn a_controller_of_the_same_name_stops_an_installation() -> Result<()> {
    let lab = Lab::join()?;
    let (name, second) = ("of-one-name", "of-one-name-too");
    let _namespaces = [lab.namespace(name)?, lab.namespace(second)?];
    lab.apply(&CONTROLLER.replace("NAME", name))?;
    let configuration = "apiVersion: gateway.edge/v1alpha1\nkind: EdgeGateway\nprovider: {type: Cluster}\n\
                         gateway: {controllerName: gateway.edge/of-one-name}\n";
    let metadata = json!({"name": "edge-gateway-config", "namespace": name});
    let data = json!({"edge-gateway.yaml": configuration});
    lab.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}).to_string())?;
    let values = json!({"config": {"edgeGateway": {"gateway": {"controllerName": "gateway.edge/of-one-name"}}}});
    let installed = Installation::new(second, &values).install(&["--skip-crds"]);
    let error = format!("{:#}", installed.err().context("it was installed")?);
    ensure!(error.contains(&format!("{name}/its-own")), "{error}");
    let inventory = Kind::core("ConfigMap").named(second, "edge-gateway-inventory");
    ensure!(lab.get(&inventory)?.is_null(), "something was done");
    Ok(())
}

#[test]
fn kinds_stay_while_another_controller_reads_them() -> Result<()> {
    let lab = Lab::join()?;
    let name = "another-controller";
    let _namespace = lab.namespace(name)?;
    lab.apply(&CONTROLLER.replace("NAME", name))?;
    // Were it not refused, all other tests would lose their objects.
    let removed = Installation::new("nobody-here", &json!({})).uninstall(&["--with-crds", "--dry-run"]);
    let error = format!("{:#}", removed.err().context("it would be done")?);
    ensure!(error.contains(&format!("{name}/its-own")), "{error}");
    Ok(())
}

const CONTROLLER: &str = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: edge-gateway
  namespace: NAME
  labels: { control-plane: edge-gateway, app.kubernetes.io/instance: its-own }
spec:
  replicas: 0
  selector: { matchLabels: { control-plane: edge-gateway } }
  template:
    metadata: { labels: { control-plane: edge-gateway } }
    spec: { containers: [{ name: edge-gateway, image: edgegateway:test }] }
";
