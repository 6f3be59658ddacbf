//! The steps of an installation and of its end, in the order in which they depend on each other.

use super::{INSTANCE, Parts, classes, definitions, objects::Release, rivals};
use crate::cluster::{
    inventory::{Entry, Inventory},
    objects::{Dependents, Keeper, Objects},
    progress::Progress,
};
use anyhow::{Result, bail, ensure};
use edge_infra::names;
use serde_json::Value;
use std::{collections::BTreeSet, future::Future, time::Duration};
use tokio::time;

/// How often pods that are waited for are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Applies everything, waits for what others need, and takes away what an earlier installation had and this one hasn't.
pub(super) async fn install(objects: &Objects, parts: &Parts, progress: &mut Progress) -> Result<()> {
    let release = &parts.release;
    progress.step("Looking at what is there");
    namespaces(objects, &parts.workload, release).await?;
    foreign(objects, &parts.workload, release).await?;
    rivals::check(objects, &parts.workload, release, progress).await?;
    definitions::check(objects, &parts.definitions).await?;
    if !definitions::has_any(objects, &parts.gateway_api).await? {
        define(objects, &parts.gateway_api, progress).await?;
    }
    define(objects, &parts.definitions, progress).await?;
    if parts.workload.is_empty() {
        progress.done("The kinds are defined.");
        return Ok(());
    }
    objects.ensure_namespace(&release.namespace).await?;
    let before = Inventory::read(objects, &release.name, &release.namespace).await?;
    let now = inventory(release, &parts.workload);
    // Before the objects, so that an installation that is cut short can be taken away.
    objects.apply(&now.united(&before).to_object()).await?;
    for object in &parts.workload {
        apply(objects, object, release, progress).await?;
    }
    progress.step("Waiting for the controller");
    let pods = Pods {
        namespace: &release.namespace,
        labels: &format!("control-plane=edge-gateway,{INSTANCE}={}", release.name),
    };
    let rollout = objects.wait_deployment(&release.namespace, "edge-gateway");
    telling(objects, &pods, progress, rollout).await?;
    // Only now: the controller of before may have needed it until it ended.
    for entry in before.entries().filter(|entry| !now.holds(entry)) {
        progress.step(&format!("Removing {entry}, which is no longer wanted"));
        remove(objects, entry, release.name.as_str(), Dependents::Later, progress).await?;
    }
    objects.apply(&now.to_object()).await?;
    if !objects
        .has_definition("gatewayclasses.gateway.networking.k8s.io")
        .await?
    {
        progress.warn(
            "Gateway API is not defined in this cluster, and nothing works without it: apply its standard-install.yaml, \
             or install again without --skip-crds",
        );
    }
    progress.done(&format!("Edge Gateway runs in namespace {}.", release.namespace));
    Ok(())
}

/// Defines kinds, and waits until the cluster serves them.
async fn define(objects: &Objects, definitions: &[Value], progress: &mut Progress) -> Result<()> {
    for definition in definitions {
        progress.step(&format!("Defining {}", name_of(definition)));
        objects.apply(definition).await?;
    }
    for definition in definitions.iter().filter(|object| definitions::is_definition(object)) {
        progress.step(&format!("Waiting for {}", name_of(definition)));
        objects.wait_established(name_of(definition)).await?;
    }
    Ok(())
}

async fn apply(objects: &Objects, object: &Value, release: &Release, progress: &mut Progress) -> Result<()> {
    let entry = Entry::of(object);
    progress.step(&format!("Applying {entry}"));
    if entry.kind == "Deployment" && object["spec"]["replicas"].is_null() {
        objects.hand_over_replicas(&entry).await?;
    }
    if entry.kind != "Job" {
        return objects.apply(object).await;
    }
    // A job can't be changed, only made again.
    objects.delete_if_ours(&entry, &release.name, Dependents::Later).await?;
    objects.wait_gone(&entry).await?;
    objects.apply(object).await?;
    progress.step("Waiting for the certificates");
    let pods = Pods {
        namespace: &release.namespace,
        labels: &format!("batch.kubernetes.io/job-name={}", entry.name),
    };
    telling(
        objects,
        &pods,
        progress,
        objects.wait_job(&release.namespace, &entry.name),
    )
    .await
}

/// Pods of something that is waited for.
struct Pods<'a> {
    namespace: &'a str,
    labels: &'a str,
}

/// Waits, and tells meanwhile what keeps the pods from starting.
async fn telling(
    objects: &Objects,
    pods: &Pods<'_>,
    progress: &mut Progress,
    waiting: impl Future<Output = Result<()>>,
) -> Result<()> {
    let mut told = None;
    let mut looks = time::interval(LOOK);
    tokio::pin!(waiting);
    loop {
        tokio::select! {
            done = &mut waiting => return done,
            _ = looks.tick() => {}
        }
        // Who may not look at pods waits all the same.
        let stuck = objects.stuck(pods.namespace, pods.labels).await.unwrap_or_default();
        if let Some(reason) = stuck
            && told.as_ref() != Some(&reason)
        {
            progress.warn(&reason);
            told = Some(reason);
        }
    }
}

/// Removes an object of an installation, unless it turns out to be somebody else's, which is told.
async fn remove(
    objects: &Objects,
    entry: &Entry,
    release: &str,
    dependents: Dependents,
    progress: &mut Progress,
) -> Result<Keeper> {
    let keeper = objects.delete_if_ours(entry, release, dependents).await?;
    if let Keeper::Other(who) = &keeper {
        progress.warn(&format!("{entry} stays: it is kept by {who}"));
    }
    Ok(keeper)
}

fn inventory(release: &Release, workload: &[Value]) -> Inventory {
    let mut inventory = Inventory::new(&release.name, &release.namespace);
    inventory.add_all(workload);
    // Nobody lists in advance what the job of certificates and the controller make.
    for (version, kind, name) in names::ALL {
        inventory.add(Entry::new(version, kind, Some(&release.namespace), name));
    }
    inventory
}

/// Roles are made in each namespace that is to be watched, so these must be there.
async fn namespaces(objects: &Objects, workload: &[Value], release: &Release) -> Result<()> {
    let mut missing = Vec::new();
    for name in other_namespaces(workload, &release.namespace) {
        if objects.get(&Entry::new("v1", "Namespace", None, name)).await?.is_none() {
            missing.push(name);
        }
    }
    ensure!(
        missing.is_empty(),
        "namespaces that are to be watched don't exist: {}. Make them first, or take them out of \
         config.edgeGateway.provider.cluster.watch.namespaces",
        missing.join(", ")
    );
    Ok(())
}

/// Namespaces with objects of an installation, but for its own and for those that it makes.
fn other_namespaces<'a>(workload: &'a [Value], own: &str) -> BTreeSet<&'a str> {
    let of = |object: &'a Value| object["metadata"]["namespace"].as_str();
    let is_made = |name: &str| {
        let mut made = workload.iter().filter(|object| object["kind"] == "Namespace");
        made.any(|object| object["metadata"]["name"] == name)
    };
    let mut names: BTreeSet<&str> = workload.iter().filter_map(of).collect();
    names.retain(|name| *name != own && !is_made(name));
    names
}

/// Objects of these names that somebody else keeps are left alone, all or none.
async fn foreign(objects: &Objects, workload: &[Value], release: &Release) -> Result<()> {
    let mut theirs = Vec::new();
    for object in workload {
        let entry = Entry::of(object);
        if entry.kind != "Namespace"
            && let Keeper::Other(who) = objects.keeper(&entry, &release.name).await?
        {
            theirs.push(format!("{entry} (kept by {who})"));
        }
    }
    ensure!(
        theirs.is_empty(),
        "these objects are there already, and not from `edgectl x install --name {}`: {}. Use what made them, or another \
         --namespace",
        release.name,
        theirs.join(", ")
    );
    Ok(())
}

/// What is to be removed.
pub(super) struct Removal {
    /// What was installed.
    pub(super) installed: Inventory,
    /// Definitions of kinds that go as well.
    pub(super) definitions: Vec<Entry>,
    /// Whether it is over only when everything is gone.
    pub(super) waits: bool,
}

impl Removal {
    /// Refuses where there is nothing to remove, or where others need it.
    pub(super) async fn check(&self, objects: &Objects) -> Result<()> {
        let (release, namespace) = (self.installed.release(), self.installed.namespace());
        ensure!(
            !(self.installed.is_empty() && self.definitions.is_empty()),
            "no installation {release} is in namespace {namespace}: name another one with --name and --namespace, or use \
             what installed it (`helm uninstall`)"
        );
        if self.definitions.is_empty() {
            return Ok(());
        }
        let mut others = objects.controllers().await?;
        others.retain(|(place, instance)| {
            let is_ours = place == namespace && instance == release && !self.installed.is_empty();
            !is_ours
        });
        if !others.is_empty() {
            let list: Vec<String> = others.iter().map(|(place, name)| format!("{place}/{name}")).collect();
            bail!(
                "--with-crds would take the kinds, and every object of them, from other controllers: {}. Uninstall these \
                 first, or leave out --with-crds",
                list.join(", ")
            );
        }
        Ok(())
    }

    /// What goes, in the order in which it does.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.workloads().chain(self.rest()).chain(&self.definitions)
    }

    /// What runs. It goes first and is waited for: whoever still ran without its roles, its Secrets or the definitions
    /// of its kinds would take that for a change of the configuration, and pass it on.
    fn workloads(&self) -> impl Iterator<Item = &Entry> {
        self.installed.entries().filter(|entry| runs(entry))
    }

    /// The last first.
    fn rest(&self) -> impl Iterator<Item = &Entry> {
        let entries: Vec<&Entry> = self.installed.entries().filter(|entry| !runs(entry)).collect();
        entries.into_iter().rev()
    }
}

fn runs(entry: &Entry) -> bool {
    ["Deployment", "Job"].contains(&entry.kind.as_str())
}

/// Removes what was installed, and what comes with it.
pub(super) async fn uninstall(objects: &Objects, removal: &Removal, progress: &mut Progress) -> Result<()> {
    let release = removal.installed.release();
    let mut going = Vec::new();
    for entry in removal.workloads() {
        progress.step(&format!("Removing {entry}"));
        let keeper = remove(objects, entry, release, Dependents::First, progress).await?;
        if keeper == Keeper::Us {
            progress.step(&format!("Waiting until {entry} has ended"));
            objects.wait_gone(entry).await?;
        }
    }
    progress.step("Letting go of GatewayClasses");
    classes::release(objects, removal.installed.namespace()).await?;
    for entry in removal.rest() {
        progress.step(&format!("Removing {entry}"));
        let keeper = remove(objects, entry, release, Dependents::Later, progress).await?;
        going.extend((keeper == Keeper::Us).then_some(entry));
    }
    for entry in &removal.definitions {
        progress.step(&format!("Removing {entry}"));
        objects.delete_definition(entry).await?;
        going.push(entry);
    }
    if removal.waits {
        for entry in going {
            progress.step(&format!("Waiting until {entry} is gone"));
            objects.wait_gone(entry).await?;
        }
    }
    // Last, so that an end that is cut short can be taken up again.
    remove(
        objects,
        &removal.installed.own_entry(),
        release,
        Dependents::Later,
        progress,
    )
    .await?;
    progress.done(match removal.installed.is_empty() {
        true => "The kinds are gone.",
        false => "The controller is gone. Proxies run on, and go with their Gateways and GatewayClasses.",
    });
    Ok(())
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::{
        objects::{self, workload},
        values,
    };

    #[test]
    fn namespaces_that_are_watched_must_be_there_and_the_own_one_is_made() {
        let release = Release {
            name: "r".to_owned(),
            namespace: "n".to_owned(),
        };
        let watch = "config.edgeGateway.provider.cluster.watch";
        let settings = [
            format!("{watch}.type=Namespaces"),
            format!("{watch}.namespaces={{a1,a2}}"),
        ];
        let values = values::read(&[] as &[&str], &settings).unwrap();
        let workload = workload(&values, &release);
        assert_eq!(other_namespaces(&workload, &release.namespace), ["a1", "a2"].into());
    }

    #[test]
    fn the_controller_ends_before_anything_that_it_stands_on() {
        let release = Release {
            name: "r".to_owned(),
            namespace: "n".to_owned(),
        };
        let values = values::read(&[] as &[&str], &["createNamespace=true".to_owned()]).unwrap();
        let removal = Removal {
            installed: inventory(&release, &workload(&values, &release)),
            definitions: definitions::entries(&objects::definitions().unwrap()),
            waits: false,
        };
        let kinds: Vec<&str> = removal.entries().map(|entry| entry.kind.as_str()).collect();
        assert_eq!(
            kinds.iter().position(|kind| *kind == "Deployment"),
            Some(1),
            "{kinds:?}"
        );
        let first_definition = kinds.iter().position(|kind| *kind == definitions::KIND).unwrap();
        let (before, after) = kinds.split_at(first_definition);
        assert!(before.contains(&"Secret") && before.contains(&"ClusterRole"));
        assert!(after.iter().all(|kind| *kind == definitions::KIND), "{after:?}");
        assert!(!kinds.contains(&"Namespace"), "others may have put something into it");
    }
}
