//! The pods of a fleet: the proxy and, beside it, the shutdown manager that lets it finish what it has.

use crate::{
    Installation, StartFiles,
    container::{self, by_key},
    metadata::{labels, merged, name},
    object::ObjectKind,
};
use edge_ir::{Infra, Placement, pod_port};
use serde_json::{Map, Value, json};

/// How long a stopping proxy waits for its connections.
pub(crate) const DRAIN_SECONDS: u32 = 60;
/// What a pod gets on top of that until it is killed.
const GRACE_SECONDS: u32 = 300;
/// Mode of mounted files: readable by whatever user a pod runs as.
const FILE_MODE: u32 = 0o644;
/// Where the token is, in its volume.
const TOKEN_FILE: &str = "sa-token";
/// How long a token is good; the kubelet renews it long before.
const TOKEN_SECONDS: u32 = 3600;

/// The files of the ConfigMap that tell a proxy where its secrets lie.
pub(crate) const TRUSTED_CA_FILE: &str = "xds-trusted-ca.json";
pub(crate) const CERTIFICATE_FILE: &str = "xds-certificate.json";
pub(crate) const TOKEN_SECRET_FILE: &str = "xds_service_account_token.json";
/// The authorities themselves, where no Secret holds them.
pub(crate) const CA_FILE: &str = "ca.crt";

/// The template of a fleet's pods.
pub(crate) fn template(infra: &Infra, installation: &Installation, files: &StartFiles) -> Value {
    let settings = &infra.proxy.cluster.workload.pod;
    let mut metadata = json!({"labels": labels(infra, &settings.labels)});
    let mut annotations = Map::new();
    if infra.proxy.prometheus {
        let port = pod_port::METRICS.to_string();
        let scrape = [("scrape", "true"), ("path", "/stats/prometheus"), ("port", &*port)];
        let scrape = scrape.map(|(key, value)| (format!("prometheus.io/{key}"), Value::from(value)));
        annotations.extend(scrape);
    }
    annotations.extend(merged([&infra.annotations, &settings.annotations]));
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    json!({"metadata": metadata, "spec": spec(infra, installation, files)})
}

fn spec(infra: &Infra, installation: &Installation, files: &StartFiles) -> Value {
    let workload = &infra.proxy.cluster.workload;
    let drain = infra.proxy.drain_timeout_seconds.unwrap_or(DRAIN_SECONDS);
    let mut spec = json!({
        "serviceAccountName": name(infra, ObjectKind::ServiceAccount),
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": drain.saturating_add(GRACE_SECONDS),
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "containers": [
            container::proxy(infra, installation, files),
            container::shutdown_manager(infra, installation, files),
        ],
        "volumes": by_key("name", volumes(infra, installation), &workload.pod.volumes),
    });
    let pull_secrets: Vec<Value> = installation
        .image_pull_secrets
        .iter()
        .map(|name| json!({"name": name}))
        .collect();
    let pull_secrets = by_key("name", pull_secrets, &workload.pod.image_pull_secrets);
    if let Value::Object(fields) = &mut spec {
        fields.extend(workload.pod.fields.clone());
        let lists = [
            ("imagePullSecrets", pull_secrets),
            ("initContainers", workload.init_containers.clone()),
        ];
        for (field, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            fields.insert(field.to_owned(), list.into());
        }
    }
    spec
}

/// What a proxy proves itself with, and checks the controller against.
fn volumes(infra: &Infra, installation: &Installation) -> Vec<Value> {
    let config_map = name(infra, ObjectKind::ConfigMap);
    let items = |files: &[&str]| -> Value { files.iter().map(|file| json!({"key": file, "path": file})).collect() };
    let (certs, sds) = match infra.placement {
        Placement::Controller => (
            json!({"secret": {"secretName": "edge", "defaultMode": FILE_MODE}}),
            items(&[TRUSTED_CA_FILE, CERTIFICATE_FILE, TOKEN_SECRET_FILE]),
        ),
        Placement::Gateway => (
            json!({"configMap": {"name": config_map, "defaultMode": FILE_MODE, "items": items(&[CA_FILE])}}),
            items(&[TRUSTED_CA_FILE, TOKEN_SECRET_FILE]),
        ),
    };
    let token = json!({"serviceAccountToken": {
        "path": TOKEN_FILE,
        "audience": installation.token_audience(),
        "expirationSeconds": TOKEN_SECONDS,
    }});
    let named = |name: &str, mut volume: Value| {
        volume["name"] = name.into();
        volume
    };
    let mut volumes = vec![
        named("certs", certs),
        named(
            "sds",
            json!({"configMap": {"name": config_map, "defaultMode": FILE_MODE, "items": sds}}),
        ),
        named(
            "sa-token",
            json!({"projected": {"defaultMode": FILE_MODE, "sources": [token]}}),
        ),
    ];
    volumes.extend(container::scratch(infra));
    volumes
}
