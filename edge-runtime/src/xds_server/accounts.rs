//! Which ServiceAccounts the proxies of a fleet have while nobody knows how it is to be made: the EdgeProxy that shapes it
//! can't be used, and couldn't when this controller began. What serves must go on being served then.
//!
//! By rule it is the account of the fleet's own name. An EdgeProxy may have named another one, which the cluster knows: it
//! stands in the workload that bears the fleet's marks. That is believed in the fleet's own namespace alone, where whoever
//! may make a workload may have pods with any account.

use super::tokens::Account;
use crate::cluster::{
    PROXY_LABELS,
    fault::{Trouble, describe},
};
use edge_infra::{CONTROLLER, FLEET};
use edge_ir::FleetKey;
use edge_translate::Home;
use futures_util::future::try_join;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::PodTemplateSpec,
};
use kube::{Api, Client, Error, ResourceExt as _, api::ListParams};
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

/// How long an answer holds: a fleet's proxies come back together.
const HOLDS: Duration = Duration::from_secs(10);
/// How long an answer may take, and those that are waited for before it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the API server about the workloads of fleets, one question at a time.
pub(super) struct Accounts {
    client: Client,
    controller_name: Arc<str>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    fleets: BTreeMap<FleetKey, Answer>,
    trouble: Trouble,
}

/// The accounts that the workloads of a fleet name.
struct Answer {
    at: Instant,
    names: BTreeSet<String>,
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
            known: Mutex::default(),
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
        let asked = self.named_by_workloads(fleet, home, &account.name);
        match time::timeout(PATIENCE, asked).await {
            Ok(Some(is_named)) => Ok(is_named),
            _ => Err(Status::unavailable(
                "it isn't known at the moment which ServiceAccount the fleet has; try again",
            )),
        }
    }

    /// Whether a workload of the fleet names an account; none if nobody can say.
    async fn named_by_workloads(&self, fleet: &FleetKey, home: &Home, account: &str) -> Option<bool> {
        let mut known = self.known.lock().await;
        let answer = known.fleets.get(fleet);
        if let Some(answer) = answer.filter(|answer| answer.at.elapsed() < HOLDS) {
            return Some(answer.names.contains(account));
        }
        match self.ask(fleet, &home.namespace).await {
            Ok(names) => {
                known.trouble.is_over();
                let is_named = names.contains(account);
                let at = Instant::now();
                known.fleets.insert(fleet.clone(), Answer { at, names });
                Some(is_named)
            }
            Err(error) => {
                let problem = describe(&error);
                if known.trouble.is_news(&problem) {
                    tracing::warn!(%fleet, "the API server can't be asked with which account proxies run: {problem}");
                }
                // Who was known goes on.
                let answer = known.fleets.get(fleet)?;
                answer.names.contains(account).then_some(true)
            }
        }
    }

    async fn ask(&self, fleet: &FleetKey, namespace: &str) -> Result<BTreeSet<String>, Error> {
        let labels: Vec<String> = PROXY_LABELS
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let ours = ListParams::default().labels(&labels.join(","));
        let deployments = Api::<Deployment>::namespaced(self.client.clone(), namespace);
        let daemons = Api::<DaemonSet>::namespaced(self.client.clone(), namespace);
        let (deployments, daemons) = try_join(deployments.list(&ours), daemons.list(&ours)).await?;
        let deployments = deployments.items.into_iter().map(|it| {
            let marks = it.annotations().clone();
            (marks, it.spec.map(|spec| spec.template))
        });
        let daemons = daemons.items.into_iter().map(|it| {
            let marks = it.annotations().clone();
            (marks, it.spec.map(|spec| spec.template))
        });
        let workloads = deployments.chain(daemons);
        Ok(workloads
            .filter_map(|(marks, template)| self.named_by(&marks, template?, fleet))
            .collect())
    }

    /// The account that a workload of the fleet names.
    fn named_by(
        &self,
        marks: &BTreeMap<String, String>,
        template: PodTemplateSpec,
        fleet: &FleetKey,
    ) -> Option<String> {
        let is = |mark: &str, value: &str| marks.get(mark).is_some_and(|known| known == value);
        let is_of_fleet = is(CONTROLLER, &self.controller_name) && is(FLEET, fleet.as_str());
        template.spec?.service_account_name.filter(|_| is_of_fleet)
    }
}
