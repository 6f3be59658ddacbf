//! What only a cluster has: a client of its API server, a leader among replicas, resources and statuses in it.

use super::{STOP_GRACE, hub::Hub};
use crate::{
    Error,
    certs::TlsFiles,
    cluster::{Api, election},
    config::Cluster,
    state::{Leadership, ProviderName},
    task::Task,
    world::Pace,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::sync::watch;

/// How long a change waits for others that belong to it: an object and what it names come by different watches.
const PACE: Pace = Pace {
    quiet: Duration::from_millis(3),
    longest: Duration::from_millis(100),
};

/// What can fail and was tried before anything runs.
pub(super) struct Prepared {
    cluster: Cluster,
    api: Api,
}

impl Prepared {
    /// Finds the API server. That it answers is not asked for: a controller that starts before it waits for it.
    pub(super) async fn new(cluster: Cluster) -> Result<Self, Error> {
        let api = Api::connect(&cluster).await?;
        Ok(Self { cluster, api })
    }

    /// The certificate of the xDS server.
    pub(super) fn certificate(&self) -> TlsFiles {
        TlsFiles::within(&self.cluster.certificates)
    }

    /// Says where things are.
    pub(super) fn greet(&self) {
        let Cluster { namespace, scope, .. } = &self.cluster;
        tracing::info!(api = %self.api.address(), %namespace, watched = %scope, "resources are read from the cluster");
    }

    /// What the pages say about this mode.
    pub(super) fn info(&self, info: &mut Value) {
        info["mode"] = "cluster".into();
        info["namespace"] = json!(&*self.cluster.namespace);
        info["watched"] = json!(self.cluster.scope.to_string());
    }
}

/// Whom the world waits for, and how long a change waits for others.
pub(super) fn inputs() -> (BTreeSet<ProviderName>, Pace) {
    (BTreeSet::new(), PACE)
}

/// The tasks of this mode.
pub(super) struct Running {
    election: Task,
}

impl Running {
    /// Starts the tasks.
    pub(super) fn start(prepared: Prepared, hub: &Hub) -> Self {
        let Prepared { cluster, api } = prepared;
        let leadership = Arc::new(watch::Sender::new(Leadership::Following));
        let terms = cluster.election.clone();
        Self {
            election: Task::lasting("leader election", &hub.supervision, move |stop| {
                election::run(api.clone(), terms.clone(), Arc::clone(&leadership), stop)
            }),
        }
    }
}

impl Running {
    /// Brings what is running in line with changed settings.
    pub(super) fn follow(&self, old: &Cluster, new: &Cluster) {
        if new != old {
            tracing::warn!("provider.cluster takes effect at the next start");
        }
    }

    /// No new input, and the leadership is given up, so that another replica goes on. What is left tells how it ended.
    pub(super) async fn stop_first(self) -> Task {
        self.election.stop(STOP_GRACE).await;
        Task::spawn("status", |_| async {})
    }
}
