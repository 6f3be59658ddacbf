//! What the controller may do, by its mode.

use super::Plan;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const READ: [&str; 3] = ["get", "list", "watch"];
/// Of what is read and has a finalizer of ours.
const READ_AND_HOLD: [&str; 5] = ["get", "list", "watch", "patch", "update"];
const WRITE_STATUS: [&str; 2] = ["patch", "update"];

/// Its roles, each with its binding.
pub(super) fn objects(plan: &Plan<'_>) -> Vec<Value> {
    let (release, prefix) = (&plan.release.name, plan.prefix());
    let own = plan.release.namespace.as_str();
    let (mut resources, infrastructure) = (resources(), infrastructure(plan));
    resources.extend(custom(plan));
    let mut objects = Vec::new();
    match plan.watched() {
        Some(namespaces) => {
            for namespace in &namespaces {
                objects.extend(role(plan, &format!("{release}-role"), Some(namespace), &resources));
            }
        }
        None => objects.extend(role(plan, &format!("{prefix}-role"), None, &resources)),
    }
    objects.extend(role(plan, &format!("{prefix}-cluster-role"), None, &cluster()));
    let named = |name: &str| format!("{release}-{name}");
    objects.extend(role(plan, &named("infra-manager"), Some(own), &infrastructure));
    objects.extend(role(plan, &named("leader-election-role"), Some(own), &[election()]));
    let name = format!("{prefix}-infra-manager-tokenreview");
    objects.extend(role(plan, &name, None, &[tokens()]));
    if plan.in_gateway_namespaces() {
        match plan.watched() {
            Some(namespaces) => {
                let name = named("namespaced-infra-manager");
                for namespace in &namespaces {
                    objects.extend(role(plan, &name, Some(namespace), &infrastructure));
                }
            }
            None => {
                let mut rules = infrastructure;
                rules.push(tokens());
                objects.extend(role(plan, &format!("{prefix}-cluster-infra-manager"), None, &rules));
            }
        }
    }
    objects
}

/// A role and the controller as who has it: in a namespace, or in all.
fn role(plan: &Plan<'_>, name: &str, namespace: Option<&str>, rules: &[Value]) -> [Value; 2] {
    bound(plan, name, namespace, "edge-gateway", rules)
}

/// A role in a namespace, or in all, and the account that has it.
pub(super) fn bound(
    plan: &Plan<'_>,
    name: &str,
    namespace: Option<&str>,
    account: &str,
    rules: &[Value],
) -> [Value; 2] {
    let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
    let mut metadata = json!({"name": name, "labels": plan.labels()});
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    [
        json!({"apiVersion": RBAC, "kind": kind, "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": RBAC, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": plan.release.namespace}],
        }),
    ]
}

/// The API group of roles.
const GROUP: &str = "rbac.authorization.k8s.io";
/// Its version.
const RBAC: &str = "rbac.authorization.k8s.io/v1";

pub(super) fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// What translation reads, and the statuses that it writes.
fn resources() -> Vec<Value> {
    let policies = [
        "backendtrafficpolicies",
        "clienttrafficpolicies",
        "edgeextensionpolicies",
        "edgepatchpolicies",
    ];
    let mut edge = vec!["backends"];
    edge.extend(policies);
    edge.extend(["edgeproxies", "httproutefilters", "securitypolicies"]);
    let standard = [
        "backendtlspolicies",
        "gateways",
        "grpcroutes",
        "httproutes",
        "listenersets",
        "referencegrants",
        "tcproutes",
        "tlsroutes",
        "udproutes",
    ];
    // These two have none.
    let statuses = |kinds: &[&str]| -> Vec<String> {
        let with_status = kinds
            .iter()
            .filter(|kind| !matches!(**kind, "httproutefilters" | "referencegrants"));
        with_status.map(|kind| format!("{kind}/status")).collect()
    };
    vec![
        rule("", &["configmaps", "secrets", "services"], &READ),
        rule("events.k8s.io", &["events"], &["create"]),
        rule("discovery.k8s.io", &["endpointslices"], &READ),
        rule("gateway.edge", &edge, &READ),
        json!({"apiGroups": ["gateway.edge"], "resources": statuses(&edge), "verbs": WRITE_STATUS}),
        rule("gateway.networking.k8s.io", &standard, &READ),
        json!({"apiGroups": ["gateway.networking.k8s.io"], "resources": statuses(&standard), "verbs": WRITE_STATUS}),
        rule("multicluster.x-k8s.io", &["serviceimports"], &READ),
    ]
}

/// Kinds that the configuration names for extension services. It knows no plurals, hence all of their groups.
fn custom(plan: &Plan<'_>) -> Vec<Value> {
    let config = plan.value("/config/edgeGateway");
    let groups = |field: &str| -> BTreeSet<&str> {
        let several = config["extensionManagers"].as_array().into_iter().flatten();
        let managers = several.chain([&config["extensionManager"]]);
        let kinds = managers.flat_map(|manager| manager[field].as_array().into_iter().flatten());
        kinds.filter_map(|kind| kind["group"].as_str()).collect()
    };
    let policies = groups("policyResources");
    let all = [groups("resources"), groups("backendResources"), policies.clone()];
    let all: BTreeSet<&str> = all.into_iter().flatten().collect();
    let read = all.into_iter().map(|group| rule(group, &["*"], &READ));
    let written = policies.iter().map(|group| rule(group, &["*/status"], &WRITE_STATUS));
    read.chain(written).collect()
}

/// What isn't in namespaces.
fn cluster() -> Vec<Value> {
    vec![
        rule("", &["nodes", "namespaces"], &READ),
        rule("gateway.networking.k8s.io", &["gatewayclasses"], &READ_AND_HOLD),
        rule("gateway.networking.k8s.io", &["gatewayclasses/status"], &WRITE_STATUS),
        rule("certificates.k8s.io", &["clustertrustbundles"], &READ),
    ]
}

/// The objects that fleets are made of, and the pods whose zone they are told.
fn infrastructure(plan: &Plan<'_>) -> Vec<Value> {
    let verbs = ["create", "get", "list", "watch", "delete", "deletecollection", "patch"];
    let scaling = ["horizontalpodautoscalers", "poddisruptionbudgets"];
    let mut rules = vec![
        rule("", &["serviceaccounts", "services", "configmaps"], &verbs),
        rule("apps", &["deployments", "daemonsets"], &verbs),
        json!({"apiGroups": ["autoscaling", "policy"], "resources": scaling, "verbs": verbs}),
    ];
    let tells_zones = plan.injects();
    rules.extend(tells_zones.then(|| rule("", &["pods"], &["get"])));
    rules
}

/// The Lease of the leader, and those in which replicas tell each other of their proxies.
fn election() -> Value {
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
    rule("coordination.k8s.io", &["leases"], &verbs)
}

/// By which the tokens of proxies are checked.
fn tokens() -> Value {
    rule("authentication.k8s.io", &["tokenreviews"], &["create"])
}
