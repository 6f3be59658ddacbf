//! Objects of a cluster as JSON: read, apply, delete, and wait for.

use super::{client::explain, inventory::Entry};
use crate::install::{MANAGED_BY, MANAGER};
use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::{
    api::{apps::v1::Deployment, batch::v1::Job},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Error,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
    core::{GroupVersion, GroupVersionKind},
    runtime::{
        conditions,
        wait::{Condition, await_condition},
    },
};
use serde_json::{Value, json};
use std::{future::Future, time::Duration};
use tokio::time::timeout;

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

    /// An object, if it is there.
    ///
    /// # Errors
    /// When the cluster can't be asked.
    pub async fn get(&self, entry: &Entry) -> Result<Option<Value>> {
        let found = self.api(entry)?.get_opt(&entry.name).await;
        let found = found.map_err(|error| explain(error, &format!("{entry} can't be read")))?;
        found.map(|object| Ok(serde_json::to_value(object)?)).transpose()
    }

    /// Who keeps an object that is there and not ours.
    ///
    /// # Errors
    /// When the cluster can't be asked.
    pub async fn foreign_manager(&self, entry: &Entry) -> Result<Option<String>> {
        let Some(found) = self.get(entry).await? else {
            return Ok(None);
        };
        Ok(match found["metadata"]["labels"][MANAGED_BY].as_str() {
            Some(MANAGER) => None,
            Some(other) => Some(other.to_owned()),
            None => Some("somebody else".to_owned()),
        })
    }

    /// Removes an object with what depends on it; one that isn't there is gone already.
    ///
    /// # Errors
    /// When the cluster doesn't allow it.
    pub async fn delete(&self, entry: &Entry) -> Result<()> {
        match self.api(entry)?.delete(&entry.name, &DeleteParams::background()).await {
            Ok(_) => Ok(()),
            Err(Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(explain(error, &format!("{entry} can't be removed"))),
        }
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
        let logs = format!("see `kubectl logs -n {namespace} job/{name}`");
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

    /// Waits until a Deployment is as it should be.
    ///
    /// # Errors
    /// When it isn't in time.
    pub async fn wait_deployment(&self, namespace: &str, name: &str) -> Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
        let waiting = Box::pin(await_condition(api, name, conditions::is_deployment_completed()));
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
            Err(_) => Err(anyhow!("{late} after {} s", self.patience.as_secs())),
        }
    }
}
