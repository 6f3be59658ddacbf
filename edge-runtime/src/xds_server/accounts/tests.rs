//! Questions to an API server that the test plays.

use super::*;
use crate::xds_server::tokens::tests::Reviewer;
use edge_ir::Placement;
use serde_json::json;
use std::sync::atomic::Ordering;
use tonic::Code;

async fn is_of(accounts: &Accounts, fleet: &str, name: &str) -> Result<bool, Code> {
    let home = Home {
        namespace: "ns".into(),
        name: fleet.replace('/', "-").into(),
        placement: Placement::Gateway,
    };
    let (namespace, name) = ("ns".into(), name.into());
    let said = accounts
        .are_of(&fleet.into(), &home, &Account { namespace, name })
        .await;
    said.map_err(|status| status.code())
}

/// An API server that knows with which account the proxies of two fleets run.
async fn reviewer() -> Arc<Reviewer> {
    let reviewer = Arc::new(Reviewer::default());
    let workload = |fleet: &str, account: &str| {
        let marks = json!({edge_infra::CONTROLLER: "us", edge_infra::FLEET: fleet});
        let template = json!({"spec": {"serviceAccountName": account}});
        json!({"metadata": {"name": account, "annotations": marks}, "spec": {"template": template}})
    };
    let mut workloads = reviewer.workloads.lock().await;
    workloads.insert("deployments".to_owned(), vec![workload("ns/a", "one")]);
    workloads.insert("daemonsets".to_owned(), vec![workload("ns/b", "two")]);
    drop(workloads);
    reviewer
}

#[tokio::test]
async fn one_answer_is_for_all_fleets_of_a_namespace() {
    let reviewer = reviewer().await;
    let accounts = Accounts::new(reviewer.client(), "us".into());
    for (fleet, account, is_own) in [
        ("ns/a", "one", true),
        ("ns/b", "two", true),
        ("ns/a", "two", false),
        ("ns/c", "one", false),
    ] {
        assert_eq!(is_of(&accounts, fleet, account).await, Ok(is_own), "{fleet} {account}");
    }
    assert_eq!(reviewer.listed.load(Ordering::Relaxed), 2, "one list of each kind");
}

#[tokio::test]
async fn while_the_api_server_says_nothing_who_was_known_goes_on() {
    let reviewer = reviewer().await;
    let mut accounts = Accounts::new(reviewer.client(), "us".into());
    accounts.holds = Duration::ZERO;
    for (silent, patience) in [
        (&reviewer.is_away, PATIENCE),
        (&reviewer.hangs, Duration::from_millis(20)),
    ] {
        assert_eq!(is_of(&accounts, "ns/a", "one").await, Ok(true));
        silent.store(true, Ordering::Relaxed);
        accounts.patience = patience;
        assert_eq!(is_of(&accounts, "ns/a", "one").await, Ok(true));
        assert_eq!(is_of(&accounts, "ns/a", "two").await, Err(Code::Unavailable));
        assert!(accounts.turn.lock().await.reason().is_some(), "it is told");
        silent.store(false, Ordering::Relaxed);
    }
}
