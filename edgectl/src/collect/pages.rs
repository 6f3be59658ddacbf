//! What pods say: their logs, and the pages of their programs.

use super::bundle::Bundle;
use crate::cluster::{
    client::explain,
    pods::{self, Running},
};
use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::{Api, Client, ResourceExt, api::LogParams};
use serde_json::Value;

/// The most of a log, from its end backwards as far as the cluster keeps it.
const LOG_LINES: i64 = 20_000;

/// What of a proxy's secrets is collected; never a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Secrets {
    /// Nothing.
    Nothing,
    /// Which there are, and certificates.
    Named,
}

/// A controller's log, metrics, the resources that it knows and what it says about them.
pub(super) async fn of_controller(client: &Client, pod: &Pod, bundle: &mut Bundle) {
    let folder = format!("controllers/{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    logs(client, pod, &folder, bundle).await;
    if !pods::is_running(pod) {
        return;
    }
    let pod = Running::of(pod);
    for (file, path) in [
        ("info.json", "/api/info"),
        ("metrics.prom", "/api/metrics"),
        ("status.yaml", "/status"),
        ("resources.json", "/api/config_dump?resource=all"),
        ("fleets.json", "/config_dump"),
    ] {
        bundle.add(&format!("{folder}/{file}"), pods::page(client, &pod, path).await);
    }
}

/// A proxy's log, metrics and configuration.
pub(super) async fn of_proxy(client: &Client, pod: &Pod, secrets: Secrets, bundle: &mut Bundle) {
    let folder = format!("proxies/{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    logs(client, pod, &folder, bundle).await;
    if !pods::is_running(pod) {
        return;
    }
    let pod = Running::of(pod);
    for (file, path) in [
        ("server_info.json", "/server_info"),
        ("stats.prom", "/stats/prometheus"),
        ("clusters.json", "/clusters?format=json"),
        ("listeners.json", "/listeners?format=json"),
    ] {
        bundle.add(&format!("{folder}/{file}"), pods::page(client, &pod, path).await);
    }
    let dump = dump(client, &pod, secrets).await;
    bundle.add(&format!("{folder}/config_dump.json"), dump);
}

/// The configuration; proxies leave keys out themselves.
async fn dump(client: &Client, pod: &Running, secrets: Secrets) -> Result<Vec<u8>> {
    let page = pods::page(client, pod, "/config_dump?include_eds").await?;
    let mut dump: Value = serde_json::from_slice(&page).context("its answer is not JSON")?;
    if secrets == Secrets::Nothing {
        leave_secrets_out(&mut dump);
    }
    Ok(serde_json::to_vec_pretty(&dump)?)
}

fn leave_secrets_out(dump: &mut Value) {
    let is_secrets = |config: &Value| {
        config["@type"]
            .as_str()
            .is_some_and(|name| name.ends_with(".SecretsConfigDump"))
    };
    if let Some(configs) = dump["configs"].as_array_mut() {
        configs.retain(|config| !is_secrets(config));
    }
}

/// Of each container, and of what it was before its last restart.
async fn logs(client: &Client, pod: &Pod, folder: &str, bundle: &mut Bundle) {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_deref());
    let first = status.and_then(|status| status.init_container_statuses.as_deref());
    for container in first.into_iter().flatten().chain(containers.into_iter().flatten()) {
        for previous in logs_of(container) {
            let params = LogParams {
                container: Some(container.name.clone()),
                previous,
                tail_lines: Some(LOG_LINES),
                timestamps: true,
                ..LogParams::default()
            };
            let log = api.logs(&pod.name_any(), &params).await;
            let log = log.map_err(|error| explain(error, "the log can't be read"));
            let suffix = if previous { ".previous" } else { "" };
            bundle.add(&format!("{folder}/{}{suffix}.log", container.name), log);
        }
    }
}

/// Which logs a container has: of its former run, of this one.
fn logs_of(container: &ContainerStatus) -> impl Iterator<Item = bool> + use<> {
    let has_begun = |state: &k8s_openapi::api::core::v1::ContainerState| state.waiting.is_none();
    let is_begun = container.state.as_ref().is_some_and(has_begun);
    let was_before = container.restart_count > 0;
    [(true, was_before), (false, is_begun)]
        .into_iter()
        .filter_map(|(previous, exists)| exists.then_some(previous))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_left_out_of_a_configuration() {
        let typed = |name: &str| json!({"@type": format!("type.googleapis.com/envoy.admin.v3.{name}")});
        let mut dump = json!({"configs": [typed("BootstrapConfigDump"), typed("SecretsConfigDump")]});
        leave_secrets_out(&mut dump);
        assert_eq!(dump, json!({"configs": [typed("BootstrapConfigDump")]}));
    }

    #[test]
    fn a_container_that_waits_has_the_log_of_its_last_run() {
        let logs = |restarts: i32, state: Value| {
            let status = json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": restarts, "state": state});
            logs_of(&serde_json::from_value(status).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(logs(2, json!({"waiting": {"reason": "CrashLoopBackOff"}})), [true]);
        assert_eq!(logs(1, json!({"running": {}})), [true, false]);
        assert_eq!(logs(0, json!({"running": {}})), [false]);
        assert!(logs(0, json!({"waiting": {"reason": "ErrImagePull"}})).is_empty());
    }
}
