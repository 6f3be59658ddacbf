//! The controller's own Deployment: with it that goes which is made once for the controller, and fleets have it for an
//! owner beside their class.

use crate::cluster::{Api, fault::describe};
use edge_ir::Owner;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api as Objects, Error};
use std::time::Duration;
use tokio::{sync::watch, task::JoinSet, time};

/// The name of the controller's Deployment, in every installation.
const DEPLOYMENT: &str = "edge-gateway";
/// How often it is looked at. Pods may be handed over to a Deployment that is made anew (`--cascade=orphan`), and who
/// went on naming the one before would have that taken off by the cluster's garbage collector each time.
const LOOK: Duration = Duration::from_secs(30);

/// The Deployment, followed for as long as this lives; none where the controller runs otherwise.
pub(super) struct Controller {
    told: watch::Receiver<Option<Owner>>,
    _tasks: JoinSet<()>,
}

impl Controller {
    /// Finds it. Without an owner objects outlive an uninstallation, and nothing else is the matter, so what can't be
    /// found out is only told.
    pub(super) async fn find(api: &Api, namespace: &str) -> Self {
        let deployments: Objects<Deployment> = Objects::namespaced(api.client(), namespace);
        let found = look(&deployments).await.unwrap_or_else(|error| {
            tracing::warn!(
                "the controller's Deployment can't be read, so nothing is owned by it: {}",
                describe(&error)
            );
            None
        });
        let (sender, told) = watch::channel(found);
        let mut tasks = JoinSet::new();
        tasks.spawn(follow(deployments, sender));
        Self { told, _tasks: tasks }
    }

    /// Resolves when it is another than at the last call.
    pub(super) async fn changed(&mut self) {
        if self.told.changed().await.is_err() {
            // A bug has ended the task: what it said last holds.
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn owner(&self) -> Option<Owner> {
        self.told.borrow().clone()
    }
}

async fn follow(deployments: Objects<Deployment>, sender: watch::Sender<Option<Owner>>) {
    let mut clock = time::interval(LOOK);
    clock.tick().await;
    loop {
        clock.tick().await;
        // What can't be read is as it was.
        let Ok(found) = look(&deployments).await else { continue };
        sender.send_if_modified(|known| {
            let is_other = *known != found;
            *known = found;
            is_other
        });
    }
}

async fn look(deployments: &Objects<Deployment>) -> Result<Option<Owner>, Error> {
    let found = deployments.get_metadata_opt(DEPLOYMENT).await?;
    Ok(found.and_then(|found| {
        Some(Owner {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: DEPLOYMENT.into(),
            uid: found.metadata.uid?.into(),
        })
    }))
}
