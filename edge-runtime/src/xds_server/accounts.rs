//! Which ServiceAccounts the proxies of a fleet have while nobody knows how it is to be made: the EdgeProxy that shapes
//! it can't be used, and couldn't when this controller began. What serves must go on being served then.
//!
//! By rule it is the account of the fleet's own name. An EdgeProxy may have named another one, which the cluster knows:
//! it stands in the workload that bears the fleet's marks. That is believed in the fleet's own namespace alone, where
//! whoever may make a workload may have pods with any account.

use super::tokens::Account;
use crate::{
    cluster::{
        PROXY_LABELS,
        fault::describe,
        objects::{WORKLOADS, account as account_of, marks, resource},
    },
    trouble::Trouble,
};
use edge_ir::FleetKey;
use edge_translate::Home;
use futures_util::future::try_join_all;
use kube::{Api, Client, Error, api::ListParams, core::DynamicObject};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::Mutex,
    time::{self, Instant},
};
use tonic::Status;

/// How long an answer holds: proxies come back together.
const HOLDS: Duration = Duration::from_secs(10);
/// How long an answer may take, and how long one may wait for one's turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the API server about the workloads of a namespace, one question at a time.
pub(super) struct Accounts {
    client: Client,
    controller_name: Arc<str>,
    holds: Duration,
    patience: Duration,
    /// What it said last, by namespace.
    answers: Mutex<BTreeMap<Arc<str>, Arc<Answer>>>,
    /// Held by who asks; what went wrong when somebody last did.
    turn: Mutex<Trouble>,
}

/// The accounts that the workloads of a namespace name, by fleet.
struct Answer {
    at: Instant,
    names: BTreeMap<FleetKey, BTreeSet<String>>,
}

impl Answer {
    fn has(&self, fleet: &FleetKey, account: &Account) -> bool {
        let names = self.names.get(fleet);
        names.is_some_and(|names| names.contains(&*account.name))
    }
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts")
            .field("controller_name", &self.controller_name)
            .finish_non_exhaustive()
    }
}

impl Accounts {
    pub(super) fn new(client: Client, controller_name: Arc<str>) -> Self {
        Self {
            client,
            controller_name,
            holds: HOLDS,
            patience: PATIENCE,
            answers: Mutex::default(),
            turn: Mutex::default(),
        }
    }

    /// Whether the proxies of a fleet have an account.
    pub(super) async fn are_of(&self, fleet: &FleetKey, home: &Home, account: &Account) -> Result<bool, Status> {
        if account.namespace != home.namespace {
            return Ok(false);
        }
        if account.name == home.name {
            return Ok(true);
        }
        if let Some(answer) = self.answer(&home.namespace).await {
            return Ok(answer.has(fleet, account));
        }
        // Who was known goes on.
        match self.last(&home.namespace).await {
            Some(last) if last.has(fleet, account) => Ok(true),
            _ => Err(Status::unavailable(
                "it isn't known at the moment which ServiceAccount the fleet has; try again",
            )),
        }
    }

    /// What the API server says of a namespace, or said a moment ago; nothing if it says nothing.
    async fn answer(&self, namespace: &Arc<str>) -> Option<Arc<Answer>> {
        if let Some(answer) = self.recent(namespace).await {
            return Some(answer);
        }
        let said = async {
            let mut turn = self.turn.lock().await;
            // Somebody else may have asked meanwhile.
            match self.recent(namespace).await {
                Some(answer) => Some(answer),
                None => self.ask(namespace, &mut turn).await,
            }
        };
        time::timeout(2 * self.patience, said).await.ok().flatten()
    }

    async fn recent(&self, namespace: &str) -> Option<Arc<Answer>> {
        let last = self.last(namespace).await;
        last.filter(|answer| answer.at.elapsed() < self.holds)
    }

    async fn last(&self, namespace: &str) -> Option<Arc<Answer>> {
        self.answers.lock().await.get(namespace).cloned()
    }

    async fn ask(&self, namespace: &Arc<str>, trouble: &mut Trouble) -> Option<Arc<Answer>> {
        let problem = match time::timeout(self.patience, self.list(namespace)).await {
            Ok(Ok(names)) => {
                trouble.ends();
                let at = Instant::now();
                let answer = Arc::new(Answer { at, names });
                let mut answers = self.answers.lock().await;
                answers.insert(Arc::clone(namespace), Arc::clone(&answer));
                return Some(answer);
            }
            Ok(Err(error)) => describe(&error),
            Err(_) => "the API server doesn't answer".to_owned(),
        };
        if trouble.begins(&problem) {
            tracing::warn!(%namespace, "the API server can't be asked with which accounts proxies run: {problem}");
        }
        None
    }

    /// The accounts that the workloads of our fleets name.
    async fn list(&self, namespace: &str) -> Result<BTreeMap<FleetKey, BTreeSet<String>>, Error> {
        let labels = PROXY_LABELS.map(|(name, value)| format!("{name}={value}"));
        let ours = ListParams::default().labels(&labels.join(","));
        let lists = WORKLOADS.map(|kind| {
            let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &resource(kind));
            let ours = &ours;
            async move { api.list(ours).await }
        });
        let mut names = BTreeMap::<_, BTreeSet<_>>::new();
        for workload in try_join_all(lists).await?.into_iter().flatten() {
            let marks = marks(&workload);
            let is_ours = marks.controller.as_deref() == Some(&*self.controller_name);
            if let (Some(fleet), Some(account)) = (marks.fleet.filter(|_| is_ours), account_of(&workload.data)) {
                names.entry(fleet).or_default().insert(account.to_owned());
            }
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests;
