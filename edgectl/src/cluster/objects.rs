//! Objects of a cluster as JSON: read, apply, delete, and wait for.

use super::{client::explain, inventory::Entry};
use crate::install::{CONTROLLER, INSTANCE, MANAGED_BY, MANAGER};
use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::{
    api::{apps::v1::Deployment, batch::v1::Job, core::v1::Pod},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Error, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions},
    core::{GroupVersion, GroupVersionKind, PartialObjectMeta},
    runtime::{
        conditions,
        wait::{Condition, await_condition},
    },
};
use serde_json::{Value, json};
use std::{future::Future, time::Duration};
use tokio::time::timeout;

/// The field manager that holds the number of pods for an autoscaler that hasn't spoken yet.
const REPLICAS_HOLDER: &str = "edgectl-replicas";

/// Who keeps an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// There is no such object.
    Nobody,
    /// The installation that is asked about, or its controller.
    Us,
    /// Somebody else.
    Other(String),
}

/// When what an object owns goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    /// Before the object, which stays that long.
    First,
    /// After it, sooner or later.
    Later,
}

/// Who keeps what was found, as the installation `release` sees it.
fn keeper(found: Option<&Value>, release: &str) -> Keeper {
    let Some(found) = found else { return Keeper::Nobody };
    let labels = &found["metadata"]["labels"];
    match (labels[MANAGED_BY].as_str(), labels[INSTANCE].as_str()) {
        (Some(MANAGER), Some(instance)) if instance == release => Keeper::Us,
        (Some(MANAGER), Some(instance)) => Keeper::Other(format!("installation {instance}")),
        // Made by the controller or its job: Secrets, the Lease.
        (Some(CONTROLLER), _) => Keeper::Us,
        (Some(other), _) => Keeper::Other(other.to_owned()),
        (None, _) => Keeper::Other("somebody else".to_owned()),
    }
}

/// Whether we have applied how many pods a Deployment has.
fn is_replicas_applied(deployment: &Value) -> bool {
    let managers = deployment["metadata"]["managedFields"].as_array();
    managers.into_iter().flatten().any(|entry| {
        entry["manager"] == MANAGER
            && entry["operation"] == "Apply"
            && !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null()
    })
}

/// Whether the controllers have seen what was applied last, and all pods are of that and serve.
fn is_rolled_out(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let Some(status) = &deployment.status else { return false };
    let is_seen = status.observed_generation >= deployment.metadata.generation;
    let all = [status.replicas, status.updated_replicas, status.available_replicas];
    is_seen && all.into_iter().all(|count| count.unwrap_or(0) == wanted)
}

/// A cluster, and how long it is waited for.
#[derive(Clone)]
pub struct Objects {
    client: Client,
    patience: Duration,
}

impl Objects {
    /// Over a client.
    pub fn new(client: Client, patience: Duration) -> Self {
        Self { client, patience }
    }

    fn api(&self, entry: &Entry) -> Result<Api<DynamicObject>> {
        let version: GroupVersion = entry
            .api_version
            .parse()
            .with_context(|| format!("{entry}: {:?} is no API version", entry.api_version))?;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&version.group, &version.version, &entry.kind));
        Ok(match &entry.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        })
    }

    /// The pods of a namespace.
    pub(super) fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Applies an object, server-side, whoever wrote its fields before.
    ///
    /// # Errors
    /// When the cluster doesn't take it.
    pub async fn apply(&self, object: &Value) -> Result<()> {
        let entry = Entry::of(object);
        let params = PatchParams::apply(MANAGER).force();
        let applied = self
            .api(&entry)?
            .patch(&entry.name, &params, &Patch::Apply(object))
            .await;
        applied
            .map(drop)
            .map_err(|error| explain(error, &format!("{entry} can't be applied")))
    }

    /// Leaves the number of pods of a Deployment as it is to its autoscaler. A field that we apply no more falls back
    /// to its default, which is one pod; so another manager of ours takes it first (server-side apply, "Transferring
    /// ownership"), and keeps it until the autoscaler sets it.
    ///
    /// # Errors
    /// When the cluster doesn't take it.
    pub async fn hand_over_replicas(&self, entry: &Entry) -> Result<()> {
        let Some(found) = self.get(entry).await? else {
            return Ok(());
        };
        let replicas = &found["spec"]["replicas"];
        if !is_replicas_applied(&found) || replicas.is_null() {
            return Ok(());
        }
        let held = json!({
            "apiVersion": entry.api_version, "kind": entry.kind,
            "metadata": {"name": entry.name, "namespace": entry.namespace}, "spec": {"replicas": replicas},
        });
        let params = PatchParams::apply(REPLICAS_HOLDER);
        let taken = self.api(entry)?.patch(&entry.name, &params, &Patch::Apply(&held)).await;
        match taken {
            Ok(_) => Ok(()),
            // Somebody else has set it meanwhile, and it is theirs.
            Err(Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(explain(error, &format!("the number of pods of {entry} can't be kept"))),
        }
    }

    /// An object, if it is there.
    ///
    /// # Errors
    /// When the cluster can't be asked.
    pub async fn get(&self, entry: &Entry) -> Result<Option<Value>> {
        let found = self.api(entry)?.get_opt(&entry.name).await;
        let found = found.map_err(|error| explain(error, &format!("{entry} can't be read")))?;
        found.map(|object| Ok(serde_json::to_value(object)?)).transpose()
    }

    /// The objects of a kind that isn't in namespaces; none while the kind isn't defined.
    ///
    /// # Errors
    /// When the cluster can't be asked.
    pub async fn list(&self, api_version: &str, kind: &str) -> Result<Vec<Value>> {
        let api = self.api(&Entry::new(api_version, kind, None, ""))?;
        match api.list(&ListParams::default()).await {
            Ok(list) => Ok(list.items.iter().map(serde_json::to_value).collect::<Result<_, _>>()?),
            Err(Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(explain(error, &format!("objects of kind {kind} can't be listed"))),
        }
    }

    /// Changes an object by a merge patch. One that isn't there needs no change.
    ///
    /// # Errors
    /// When the cluster doesn't take it.
    pub async fn change(&self, entry: &Entry, patch: &Value) -> Result<()> {
        let parameters = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let changed = self
            .api(entry)?
            .patch(&entry.name, &parameters, &Patch::Merge(patch))
            .await;
        match changed {
            Ok(_) => Ok(()),
            Err(Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(explain(error, &format!("{entry} can't be changed"))),
        }
    }

    /// Who keeps an object, as an installation sees it.
    ///
    /// # Errors
    /// When the cluster can't be asked.
    pub async fn keeper(&self, entry: &Entry, release: &str) -> Result<Keeper> {
        Ok(keeper(self.get(entry).await?.as_ref(), release))
    }

    /// Removes an object, unless somebody else keeps it. One that isn't there is gone already.
    ///
    /// # Errors
    /// When the cluster doesn't allow it.
    pub async fn delete_if_ours(&self, entry: &Entry, release: &str, dependents: Dependents) -> Result<Keeper> {
        let found = self.get(entry).await?;
        let keeper = keeper(found.as_ref(), release);
        if keeper == Keeper::Us {
            let uid = found.and_then(|found| found["metadata"]["uid"].as_str().map(str::to_owned));
            self.delete(entry, dependents, uid).await?;
        }
        Ok(keeper)
    }

    /// Removes the definition of a kind, and with it all objects of the kind.
    ///
    /// # Errors
    /// When the cluster doesn't allow it.
    pub async fn delete_definition(&self, entry: &Entry) -> Result<()> {
        self.delete(entry, Dependents::Later, None).await
    }

    /// With a uid only the very object that was looked at is removed, no later one of its name.
    async fn delete(&self, entry: &Entry, dependents: Dependents, uid: Option<String>) -> Result<()> {
        let how = match dependents {
            Dependents::First => DeleteParams::foreground(),
            Dependents::Later => DeleteParams::background(),
        };
        let how = how.preconditions(Preconditions {
            uid,
            resource_version: None,
        });
        match self.api(entry)?.delete(&entry.name, &how).await {
            Ok(_) => Ok(()),
            Err(Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(explain(error, &format!("{entry} can't be removed"))),
        }
    }

    /// Controllers of this product, whoever installed them: namespaces, and the names of the installations.
    ///
    /// # Errors
    /// When the cluster can't be asked.
    pub async fn controllers(&self) -> Result<Vec<(String, String)>> {
        let api: Api<PartialObjectMeta<Deployment>> = Api::all(self.client.clone());
        let params = ListParams::default().labels("control-plane=edge-gateway");
        let found = api.list_metadata(&params).await;
        let found = found.map_err(|error| explain(error, "controllers in other namespaces can't be looked for"))?;
        let named = found.items.into_iter().map(|controller| {
            let instance = controller.labels().get(INSTANCE).cloned();
            let instance = instance.unwrap_or_else(|| controller.name_any());
            (controller.namespace().unwrap_or_default(), instance)
        });
        Ok(named.collect())
    }

    /// Makes a namespace, unless it is there.
    ///
    /// # Errors
    /// When the cluster doesn't allow it.
    pub async fn ensure_namespace(&self, name: &str) -> Result<()> {
        let entry = Entry::new("v1", "Namespace", None, name);
        if self.get(&entry).await?.is_some() {
            return Ok(());
        }
        let metadata = json!({"name": name, "labels": {MANAGED_BY: MANAGER}});
        self.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
            .await
    }

    /// Whether a kind is defined.
    ///
    /// # Errors
    /// When the cluster can't be asked.
    pub async fn has_definition(&self, name: &str) -> Result<bool> {
        let entry = Entry::new("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, name);
        Ok(self.get(&entry).await?.is_some())
    }

    /// Waits until a kind is served.
    ///
    /// # Errors
    /// When it isn't in time.
    pub async fn wait_established(&self, name: &str) -> Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let waiting = Box::pin(await_condition(api, name, conditions::is_crd_established()));
        self.in_time(waiting, &format!("{name} is not served")).await
    }

    /// Waits until a job has ended.
    ///
    /// # Errors
    /// When it fails, or doesn't end in time.
    pub async fn wait_job(&self, namespace: &str, name: &str) -> Result<()> {
        let api: Api<Job> = Api::namespaced(self.client.clone(), namespace);
        let failed = |job: Option<&Job>| {
            let conditions = job.and_then(|job| job.status.as_ref()?.conditions.as_deref());
            conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Failed" && one.status == "True"))
        };
        let ended = conditions::is_job_completed().or(failed);
        let logs =
            format!("see `kubectl describe -n {namespace} job/{name}` and `kubectl logs -n {namespace} job/{name}`");
        let waiting = Box::pin(await_condition(api.clone(), name, ended));
        self.in_time(waiting, &format!("job {name} has not ended; {logs}"))
            .await?;
        let job = api
            .get_opt(name)
            .await
            .map_err(|error| explain(error, &format!("job {name}")))?;
        if failed(job.as_ref()) {
            bail!("job {name} failed; {logs}");
        }
        Ok(())
    }

    /// Waits until a Deployment runs as it was applied last, and nothing of before.
    ///
    /// # Errors
    /// When it isn't in time.
    pub async fn wait_deployment(&self, namespace: &str, name: &str) -> Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
        let rolled_out = |deployment: Option<&Deployment>| deployment.is_some_and(is_rolled_out);
        let waiting = Box::pin(await_condition(api, name, rolled_out));
        let late = format!("deployment {name} is not ready; see `kubectl describe pods -n {namespace}`");
        self.in_time(waiting, &late).await
    }

    /// Waits until an object is gone.
    ///
    /// # Errors
    /// When it isn't in time.
    pub async fn wait_gone(&self, entry: &Entry) -> Result<()> {
        let gone = |object: Option<&DynamicObject>| object.is_none();
        let waiting = Box::pin(await_condition(self.api(entry)?, &entry.name, gone));
        self.in_time(waiting, &format!("{entry} is still there")).await
    }

    async fn in_time<T>(
        &self,
        waiting: impl Future<Output = Result<T, kube::runtime::wait::Error>>,
        late: &str,
    ) -> Result<()> {
        match timeout(self.patience, waiting).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(anyhow::Error::new(error).context(late.to_owned())),
            Err(_) => Err(anyhow!("{late} (waited {} s)", self.patience.as_secs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(labels: &Value) -> Value {
        json!({"metadata": {"labels": labels}})
    }

    #[test]
    fn an_object_is_ours_by_its_labels() {
        let other = |who: &str| Keeper::Other(who.to_owned());
        for (labels, keeper) in [
            (json!({MANAGED_BY: MANAGER, INSTANCE: "mine"}), Keeper::Us),
            (
                json!({MANAGED_BY: MANAGER, INSTANCE: "yours"}),
                other("installation yours"),
            ),
            (json!({MANAGED_BY: CONTROLLER}), Keeper::Us),
            (json!({MANAGED_BY: "Helm", INSTANCE: "mine"}), other("Helm")),
            (json!({INSTANCE: "mine"}), other("somebody else")),
            (Value::Null, other("somebody else")),
        ] {
            assert_eq!(super::keeper(Some(&labelled(&labels)), "mine"), keeper, "{labels}");
        }
        assert_eq!(super::keeper(None, "mine"), Keeper::Nobody);
    }

    #[test]
    fn the_number_of_pods_is_ours_to_hand_over_where_we_have_applied_it() {
        let with = |manager: &str, operation: &str, fields: &Value| {
            let entry = json!({"manager": manager, "operation": operation, "fieldsV1": {"f:spec": fields}});
            is_replicas_applied(&json!({"metadata": {"managedFields": [entry]}}))
        };
        let replicas = json!({"f:replicas": {}});
        assert!(with(MANAGER, "Apply", &replicas));
        assert!(!with(MANAGER, "Apply", &json!({"f:template": {}})));
        assert!(!with("kube-controller-manager", "Update", &replicas));
        assert!(!is_replicas_applied(&json!({"metadata": {}})));
    }

    #[test]
    fn a_deployment_is_rolled_out_when_all_of_its_pods_are_of_its_last_version() {
        let with = |generation: i64, status: &Value| {
            let text = json!({
                "metadata": {"generation": generation}, "status": status,
                "spec": {"replicas": 2, "selector": {}, "template": {}},
            });
            is_rolled_out(&serde_json::from_value(text).unwrap())
        };
        let status = |replicas: i64, updated: i64, available: i64| {
            json!({
                "observedGeneration": 3, "replicas": replicas, "updatedReplicas": updated, "availableReplicas": available,
                // True of what was there before.
                "conditions": [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}],
            })
        };
        assert!(with(3, &status(2, 2, 2)));
        assert!(!with(4, &status(2, 2, 2)), "the controller hasn't looked yet");
        assert!(!with(3, &status(3, 2, 2)), "one of before is still there");
        assert!(!with(3, &status(2, 1, 2)), "one is of before");
        assert!(!with(3, &status(2, 2, 1)), "one doesn't serve");
        assert!(!with(3, &Value::Null));
    }
}
