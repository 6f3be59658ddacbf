//! The controller: its configuration, Services, Deployment, and what scales and guards it.

use super::{Plan, chain, union};
use serde_json::{Value, json};

/// All but the webhook.
pub(super) fn objects(plan: &Plan<'_>) -> Vec<Value> {
    let text = serde_yaml::to_string(&plan.config()).unwrap_or_default();
    let config = json!({"data": {"edge-gateway.yaml": text}});
    let mut objects = vec![plan.object("v1", "ConfigMap", "edge-gateway-config", config)];
    objects.extend([service(plan), metrics(plan), deployment(plan)]);
    objects.extend(plan.is_on("/hpa/enabled").then(|| autoscaler(plan)));
    objects.extend(plan.is_on("/podDisruptionBudget/enabled").then(|| budget(plan)));
    objects
}

fn service(plan: &Plan<'_>) -> Value {
    let mut ports = plan.value("/deployment/ports").clone();
    if plan.injects() {
        let webhook = json!([{"name": "webhook", "port": 9443, "targetPort": 9443}]);
        ports = chain([&ports, &webhook]);
    }
    let mut spec = json!({"type": plan.value("/service/type"), "selector": plan.selector(), "ports": ports});
    plan.add_filled(&mut spec, "/service", &["trafficDistribution"]);
    let mut service = plan.object("v1", "Service", "edge-gateway", json!({"spec": spec}));
    if let Some(annotations) = plan.filled("/service/annotations") {
        service["metadata"]["annotations"] = annotations.clone();
    }
    service
}

fn metrics(plan: &Plan<'_>) -> Value {
    let ports = json!([{"name": "metrics", "port": 19001, "targetPort": 19001, "protocol": "TCP"}]);
    let spec = json!({"selector": plan.selector(), "ports": ports});
    plan.object("v1", "Service", "edge-gateway-metrics-service", json!({"spec": spec}))
}

fn deployment(plan: &Plan<'_>) -> Value {
    let hash = json!({"gateway.edge/config": plan.config_hash()});
    let annotations = union([&hash, plan.value("/deployment/pod/annotations")]);
    let labels = union([&plan.selector(), plan.value("/deployment/pod/labels")]);
    let template = json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": pod(plan)});
    let mut spec = json!({"selector": {"matchLabels": plan.selector()}, "template": template});
    if !plan.is_on("/hpa/enabled") {
        spec["replicas"] = plan.value("/deployment/replicas").clone();
    }
    plan.add_filled(&mut spec, "/deployment/edgeGateway", &["strategy"]);
    let mut deployment = plan.object("apps/v1", "Deployment", "edge-gateway", json!({"spec": spec}));
    if let Some(annotations) = plan.filled("/deployment/annotations") {
        deployment["metadata"]["annotations"] = annotations.clone();
    }
    deployment
}

fn pod(plan: &Plan<'_>) -> Value {
    let wasm = union([
        &json!({"name": "wasm-cache"}),
        plan.value("/deployment/edgeGateway/wasmCacheVolume"),
    ]);
    let volumes = json!([
        {"name": "config", "configMap": {"name": "edge-gateway-config"}},
        {"name": "certs", "secret": {"secretName": "edge-gateway"}},
        wasm,
    ]);
    let mut pod = json!({
        "serviceAccountName": "edge-gateway",
        "automountServiceAccountToken": true,
        "terminationGracePeriodSeconds": 10,
        "containers": [container(plan)],
        "volumes": chain([&volumes, plan.value("/deployment/pod/extraVolumes")]),
    });
    if let Some(secrets) = plan.pull_secrets() {
        pod["imagePullSecrets"] = secrets.clone();
    }
    plan.add_filled(&mut pod, "/deployment", &["priorityClassName"]);
    let settings = [
        "affinity",
        "topologySpreadConstraints",
        "tolerations",
        "nodeSelector",
        "securityContext",
    ];
    plan.add_filled(&mut pod, "/deployment/pod", &settings);
    pod
}

fn container(plan: &Plan<'_>) -> Value {
    let mut ports: Vec<Value> = plan
        .value("/deployment/ports")
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| json!({"name": port["name"], "containerPort": port["targetPort"]}))
        .collect();
    if plan.injects() {
        ports.push(json!({"name": "webhook", "containerPort": 9443}));
    }
    let mounts = json!([
        {"name": "config", "mountPath": "/config", "readOnly": true},
        {"name": "certs", "mountPath": "/certs", "readOnly": true},
        {"name": "wasm-cache", "mountPath": "/var/lib/edge/wasm"},
    ]);
    // Of proxies whose EdgeProxy names none.
    let proxy = match plan.image("/global/images/edgeProxy/image") {
        image if image.is_empty() => json!([]),
        image => json!([{"name": "EDGE_PROXY_IMAGE", "value": image}]),
    };
    let extra = plan.value("/deployment/edgeGateway/extraEnv");
    let identity = json!([
        {"name": "EDGE_POD_UID", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}}},
    ]);
    let mut container = json!({
        "name": "edge-gateway",
        "image": plan.controller_image(),
        "imagePullPolicy": plan.pull_policy(),
        "args": ["server", "--config-path=/config/edge-gateway.yaml"],
        "env": chain([&plan.environment(), &identity, &proxy, extra]),
        "ports": ports,
        "volumeMounts": chain([&mounts, plan.value("/deployment/pod/extraVolumeMounts")]),
    });
    let settings = [
        "startupProbe",
        "livenessProbe",
        "readinessProbe",
        "resources",
        "securityContext",
    ];
    plan.add_filled(&mut container, "/deployment/edgeGateway", &settings);
    container
}

impl Plan<'_> {
    /// What every process of the controller learns of where it runs.
    pub(super) fn environment(&self) -> Value {
        let namespace = json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}});
        json!([
            {"name": "EDGE_GATEWAY_NAMESPACE", "valueFrom": namespace},
            {"name": "KUBERNETES_CLUSTER_DOMAIN", "value": self.value("/kubernetesClusterDomain")},
        ])
    }
}

fn autoscaler(plan: &Plan<'_>) -> Value {
    let mut spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "edge-gateway"},
        "minReplicas": plan.value("/hpa/minReplicas"),
        "maxReplicas": plan.value("/hpa/maxReplicas"),
    });
    plan.add_filled(&mut spec, "/hpa", &["metrics", "behavior"]);
    plan.object(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "edge-gateway",
        json!({"spec": spec}),
    )
}

fn budget(plan: &Plan<'_>) -> Value {
    let most = plan.value("/podDisruptionBudget/maxUnavailable");
    let (bound, value) = match most {
        Value::Null => ("minAvailable", plan.value("/podDisruptionBudget/minAvailable")),
        most => ("maxUnavailable", most),
    };
    let spec = json!({bound: value, "selector": {"matchLabels": plan.selector()}});
    plan.object(
        "policy/v1",
        "PodDisruptionBudget",
        "edge-gateway",
        json!({"spec": spec}),
    )
}

/// Asks the controller where each of its proxies was bound to a node.
pub(super) fn webhook(plan: &Plan<'_>) -> Value {
    let namespace = plan.release.namespace.as_str();
    let mut webhook = json!({
        "name": "topology.webhook.gateway.edge",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        // A pod without its zone is better than no pod.
        "failurePolicy": "Ignore",
        "clientConfig": {"service": {
            "name": "edge-gateway", "namespace": namespace, "path": "/inject-pod-topology", "port": 9443,
        }},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"]}],
    });
    let namespaces = match plan.in_gateway_namespaces() {
        true => plan.watched(),
        false => Some(vec![namespace.to_owned()]),
    };
    if let Some(namespaces) = namespaces {
        let names = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces});
        webhook["namespaceSelector"] = json!({"matchExpressions": [names]});
    }
    let mut object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": format!("edge-gateway-topology-injector.{namespace}"), "labels": plan.labels()},
        "webhooks": [webhook],
    });
    if let Some(annotations) = plan.filled("/topologyInjector/annotations") {
        object["metadata"]["annotations"] = annotations.clone();
    }
    object
}
