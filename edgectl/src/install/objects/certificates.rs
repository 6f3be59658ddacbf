//! The job that makes certificates, and what it may do.

use super::{
    Plan,
    roles::{bound, rule},
    union,
};
use serde_json::{Value, json};

/// Name of the job and of its account.
pub(in crate::install) const NAME: &str = "edge-gateway-certgen";

/// The account of the job and its roles.
pub(super) fn accounts(plan: &Plan<'_>) -> Vec<Value> {
    let namespace = plan.release.namespace.as_str();
    let secrets = [rule("", &["secrets"], &["get", "create", "update"])];
    let mut objects = vec![plan.object("v1", "ServiceAccount", NAME, json!({}))];
    objects.extend(bound(plan, NAME, Some(namespace), NAME, &secrets));
    if plan.injects() {
        let (group, webhooks) = ("admissionregistration.k8s.io", ["mutatingwebhookconfigurations"]);
        let mut own = rule(group, &webhooks, &["get", "update"]);
        own["resourceNames"] = json!([format!("edge-gateway-topology-injector.{namespace}")]);
        let name = format!("{}-certgen", plan.prefix());
        objects.extend(bound(plan, &name, None, NAME, &[own]));
    }
    let labels = plan.value("/certgen/rbac/labels");
    for object in &mut objects {
        object["metadata"]["labels"] = union([&object["metadata"]["labels"], labels]);
        if let Some(annotations) = plan.filled("/certgen/rbac/annotations") {
            object["metadata"]["annotations"] = annotations.clone();
        }
    }
    objects
}

/// The job.
pub(super) fn job(plan: &Plan<'_>) -> Value {
    let mut args = vec![Value::from("certgen")];
    if !plan.injects() {
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
