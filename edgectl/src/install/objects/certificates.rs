//! The job that makes certificates, and what it may do.

use super::{
    Plan,
    roles::{GROUP, RBAC, rule},
    union,
};
use serde_json::{Value, json};

/// Name of the job and of its account.
pub(in crate::install) const NAME: &str = "edge-gateway-certgen";

/// The account of the job and its roles.
pub(super) fn accounts(plan: &Plan<'_>) -> Vec<Value> {
    let namespace = plan.release.namespace.as_str();
    let secrets = [rule("", &["secrets"], &["get", "create", "update"])];
    let mut objects = vec![plain(plan, "v1", "ServiceAccount", NAME, Some(namespace), json!({}))];
    objects.extend(role(plan, NAME, Some(namespace), json!(secrets)));
    if plan.is_on("/topologyInjector/enabled") {
        let (group, webhooks) = ("admissionregistration.k8s.io", ["mutatingwebhookconfigurations"]);
        let mut own = rule(group, &webhooks, &["update", "patch"]);
        own["resourceNames"] = json!([format!("edge-gateway-topology-injector.{namespace}")]);
        let rules = json!([rule(group, &webhooks, &["get", "list", "watch"]), own]);
        objects.extend(role(plan, &format!("{}-certgen", plan.prefix()), None, rules));
    }
    objects
}

fn role(plan: &Plan<'_>, name: &str, namespace: Option<&str>, rules: Value) -> [Value; 2] {
    let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
    let binding = json!({
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": plan.release.namespace}],
    });
    [
        plain(plan, RBAC, kind, name, namespace, json!({"rules": rules})),
        plain(plan, RBAC, &format!("{kind}Binding"), name, namespace, binding),
    ]
}

fn plain(plan: &Plan<'_>, version: &str, kind: &str, name: &str, namespace: Option<&str>, body: Value) -> Value {
    let labels = union([&plan.labels(), plan.value("/certgen/rbac/labels")]);
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": labels}});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    if let Some(annotations) = plan.filled("/certgen/rbac/annotations") {
        object["metadata"]["annotations"] = annotations.clone();
    }
    super::merge(&mut object, body);
    object
}

/// The job.
pub(super) fn job(plan: &Plan<'_>) -> Value {
    let mut args = vec![Value::from("certgen")];
    if !plan.is_on("/topologyInjector/enabled") {
        args.push("--disable-topology-injector".into());
    }
    args.extend(
        plan.value("/certgen/job/args")
            .as_array()
            .into_iter()
            .flatten()
            .cloned(),
    );
    let mut container = json!({
        "name": NAME,
        "image": plan.controller_image(),
        "imagePullPolicy": plan.pull_policy(),
        "args": args,
        "env": plan.environment(),
    });
    plan.add_filled(&mut container, "/certgen/job", &["resources", "securityContext"]);
    let mut pod = json!({"serviceAccountName": NAME, "restartPolicy": "Never", "containers": [container]});
    if let Some(secrets) = plan.pull_secrets() {
        pod["imagePullSecrets"] = secrets.clone();
    }
    plan.add_filled(&mut pod, "/certgen/job", &["affinity", "tolerations", "nodeSelector"]);
    let labels = union([&json!({"app": "certgen"}), plan.value("/certgen/job/pod/labels")]);
    let mut template = json!({"metadata": {"labels": labels}, "spec": pod});
    if let Some(annotations) = plan.filled("/certgen/job/pod/annotations") {
        template["metadata"]["annotations"] = annotations.clone();
    }
    let spec = json!({
        "backoffLimit": 1,
        "completions": 1,
        "parallelism": 1,
        "ttlSecondsAfterFinished": plan.value("/certgen/job/ttlSecondsAfterFinished"),
        "template": template,
    });
    let mut job = plan.object("batch/v1", "Job", NAME, json!({"spec": spec}));
    if let Some(annotations) = plan.filled("/certgen/job/annotations") {
        job["metadata"]["annotations"] = annotations.clone();
    }
    job
}
