//! The steps of an installation, in the order in which they depend on each other.

use super::{Parts, objects::Release};
use crate::cluster::{
    inventory::{Entry, Inventory},
    objects::Objects,
    progress::Progress,
};
use anyhow::{Result, bail};
use serde_json::Value;

/// Secrets that the job of certificates makes, and the lease of the controller's leader: nobody lists them in advance.
const MADE_LATER: [(&str, &str, &str); 6] = [
    ("v1", "Secret", "edge-gateway"),
    ("v1", "Secret", "edge"),
    ("v1", "Secret", "edge-rate-limit"),
    ("v1", "Secret", "edge-gateway-ca"),
    ("v1", "Secret", "edge-oidc-hmac"),
    ("coordination.k8s.io/v1", "Lease", "edge-gateway-leader"),
];

/// Applies everything, waits for what others need, and takes away what an earlier installation had and this one hasn't.
pub(super) async fn install(objects: &Objects, parts: &Parts, progress: &mut Progress) -> Result<()> {
    progress.step("Looking at what is there");
    foreign(objects, &parts.workload).await?;
    for definition in &parts.definitions {
        progress.step(&format!("Defining {}", name_of(definition)));
        objects.apply(definition).await?;
    }
    for definition in &parts.definitions {
        progress.step(&format!("Waiting for {}", name_of(definition)));
        objects.wait_established(name_of(definition)).await?;
    }
    if parts.workload.is_empty() {
        progress.done("The kinds are defined.");
        return Ok(());
    }
    let release = &parts.release;
    objects.ensure_namespace(&release.namespace).await?;
    let before = Inventory::read(objects, &release.name, &release.namespace).await?;
    let now = inventory(release, &parts.workload);
    // Before the objects, so that an installation that is cut short can be taken away.
    objects.apply(&now.united(&before).to_object()).await?;
    for object in &parts.workload {
        let entry = Entry::of(object);
        progress.step(&format!("Applying {entry}"));
        if entry.kind == "Job" {
            // A job can't be changed, only made again.
            objects.delete(&entry).await?;
            objects.wait_gone(&entry).await?;
            objects.apply(object).await?;
            progress.step("Waiting for the certificates");
            objects.wait_job(&release.namespace, &entry.name).await?;
        } else {
            objects.apply(object).await?;
        }
    }
    for entry in before.entries().filter(|entry| !now.holds(entry)) {
        progress.step(&format!("Removing {entry}, which is no longer wanted"));
        objects.delete(entry).await?;
    }
    objects.apply(&now.to_object()).await?;
    progress.step("Waiting for the controller");
    objects.wait_deployment(&release.namespace, "edge-gateway").await?;
    if !objects
        .has_definition("gatewayclasses.gateway.networking.k8s.io")
        .await?
    {
        progress.warn(
            "Gateway API is not defined in this cluster, and nothing works without it: apply its standard-install.yaml, \
             or install again with --gateway-api FILE",
        );
    }
    progress.done(&format!("Edge Gateway runs in namespace {}.", release.namespace));
    Ok(())
}

fn inventory(release: &Release, workload: &[Value]) -> Inventory {
    let mut inventory = Inventory::new(&release.name, &release.namespace);
    inventory.add_all(workload);
    for (version, kind, name) in MADE_LATER {
        inventory.add(Entry::new(version, kind, Some(&release.namespace), name));
    }
    inventory
}

/// Objects of these names that somebody else keeps are left alone, all or none.
async fn foreign(objects: &Objects, workload: &[Value]) -> Result<()> {
    let mut theirs = Vec::new();
    for object in workload {
        let entry = Entry::of(object);
        if entry.kind != "Namespace"
            && let Some(manager) = objects.foreign_manager(&entry).await?
        {
            theirs.push(format!("{entry} (kept by {manager})"));
        }
    }
    if theirs.is_empty() {
        return Ok(());
    }
    bail!(
        "these objects are there already, and not from `edgectl x install`: {}. Use what made them, or another \
         --namespace",
        theirs.join(", ")
    )
}

/// Removes what an inventory lists, the last first.
pub(super) async fn uninstall(objects: &Objects, found: &Inventory, wait: bool, progress: &mut Progress) -> Result<()> {
    if found.is_empty() {
        progress.done("Nothing is installed here.");
        return Ok(());
    }
    let entries: Vec<&Entry> = found.entries().collect();
    // A namespace stays: others may have put something into it.
    for entry in entries.iter().rev().filter(|entry| entry.kind != "Namespace") {
        progress.step(&format!("Removing {entry}"));
        objects.delete(entry).await?;
    }
    if wait {
        for entry in entries.iter().filter(|entry| entry.kind != "Namespace") {
            progress.step(&format!("Waiting until {entry} is gone"));
            objects.wait_gone(entry).await?;
        }
    }
    objects.delete(&found.own_entry()).await?;
    progress.done("The controller is gone. Proxies run on, and go with their Gateways and GatewayClasses.");
    Ok(())
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
