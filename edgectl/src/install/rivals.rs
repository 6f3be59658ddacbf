//! Controllers of one name: both would serve the same classes, and each would undo what the other has made.

use super::{classes::controller_name, objects::Release};
use crate::cluster::{inventory::Entry, objects::Objects, progress::Progress};
use anyhow::{Result, ensure};
use serde_json::Value;

/// Name of the ConfigMap with a controller's configuration.
pub(super) const CONFIGURATION: &str = "edge-gateway-config";

/// Refuses where another installation goes by the name that this one is to have. Who may not look at other namespaces
/// isn't kept from installing into one, and is told that nobody has looked.
pub(super) async fn check(
    objects: &Objects,
    workload: &[Value],
    release: &Release,
    progress: &mut Progress,
) -> Result<()> {
    let is_configuration =
        |object: &&Value| object["kind"] == "ConfigMap" && object["metadata"]["name"] == CONFIGURATION;
    let Some(name) = workload.iter().find(is_configuration).and_then(controller_name) else {
        return Ok(());
    };
    match of_name(objects, &name, release).await {
        Ok(rivals) => ensure!(
            rivals.is_empty(),
            "a controller goes by the name {name} already: {}. Both would serve the same classes and undo each other's \
             work: give this one another, e.g. --set config.edgeGateway.gateway.controllerName=gateway.edge/{}",
            rivals.join(", "),
            release.namespace
        ),
        Err(error) => progress.warn(&format!(
            "nobody knows whether another controller goes by the name {name}, too: {error:#}"
        )),
    }
    Ok(())
}

/// Other installations whose controllers have this name.
async fn of_name(objects: &Objects, name: &str, release: &Release) -> Result<Vec<String>> {
    let mut rivals = Vec::new();
    for (namespace, instance) in objects.controllers().await? {
        if namespace == release.namespace && instance == release.name {
            continue;
        }
        let configuration = Entry::new("v1", "ConfigMap", Some(&namespace), CONFIGURATION);
        let configuration = objects.get(&configuration).await?;
        if configuration.as_ref().and_then(controller_name).as_deref() == Some(name) {
            rivals.push(format!("{namespace}/{instance}"));
        }
    }
    Ok(rivals)
}
