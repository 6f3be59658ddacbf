//! Resolution of host names of DNS clusters: one task per cluster, owned and ended with it.
//!
//! The system's resolver is used. It has no TTL, so the refresh rate of the cluster is the pace; a failed resolution
//! keeps the addresses before.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::compile::cluster::{DnsLookup, DnsSpec};
use crate::compile::endpoint::Resolved;
use crate::config::dynamic_forward_proxy::DnsFamily;

/// Pace after a failure, if the refresh rate is slower.
const RETRY: Duration = Duration::from_secs(1);

/// Takes the addresses of a cluster's names, and says whether anybody wants more.
pub(crate) type OnResolved = Rc<dyn Fn(&str, &Resolved) -> ControlFlow<()>>;

/// The tasks by cluster.
#[derive(Debug, Default)]
pub(crate) struct Resolvers {
    /// A task goes on when its cluster changes and asks the same.
    tasks: RefCell<BTreeMap<Arc<str>, (DnsLookup, AbortHandle)>>,
}

impl Resolvers {
    /// Starts and ends tasks until they are those of the clusters. `on_resolved` is called with each answer about a
    /// cluster.
    pub(crate) fn sync(&self, clusters: Vec<(Arc<str>, DnsSpec)>, on_resolved: &OnResolved) {
        let mut tasks = self.tasks.borrow_mut();
        let mut wanted = BTreeMap::new();
        for (name, spec) in clusters {
            let lookup = spec.lookup();
            if !lookup.names.is_empty() {
                wanted.insert(name, lookup);
            }
        }
        tasks.retain(|name, (running, task)| {
            let stays = wanted.get(name) == Some(running);
            if !stays {
                task.abort();
            }
            stays
        });
        for (name, wanted) in wanted {
            if let Entry::Vacant(free) = tasks.entry(name) {
                let cluster = free.key().clone();
                let task = tokio::task::spawn_local(follow(Rc::clone(on_resolved), cluster, wanted.clone()));
                free.insert((wanted, task.abort_handle()));
            }
        }
    }
}

async fn follow(on_resolved: OnResolved, cluster: Arc<str>, lookup: DnsLookup) {
    let DnsLookup {
        names,
        refresh,
        family,
        first_only,
    } = lookup;
    let mut resolved = Resolved::new();
    loop {
        let mut pause = refresh.max(Duration::from_millis(100));
        for name in &names {
            match tokio::net::lookup_host((name.trim_end_matches('.'), 0)).await {
                Ok(answers) => {
                    let addresses = choose(answers.map(|answer| answer.ip()).collect(), family, first_only);
                    resolved.insert(name.clone(), addresses);
                }
                Err(error) => {
                    tracing::warn!(cluster = &*cluster, name, %error, "cannot resolve");
                    pause = pause.min(RETRY);
                }
            }
        }
        if on_resolved(&cluster, &resolved).is_break() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

/// The addresses of the wanted family, each once, in a stable order.
fn choose(addresses: Vec<IpAddr>, family: DnsFamily, first_only: bool) -> Vec<IpAddr> {
    let mut addresses = family.choose(addresses);
    if first_only {
        addresses.truncate(1);
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_family_wins_if_there_is_any() {
        let both: Vec<IpAddr> = ["2001:db8::1", "192.0.2.2", "192.0.2.1", "192.0.2.2"]
            .map(|text| text.parse().expect("address"))
            .into();
        let strings = |family, first| {
            choose(both.clone(), family, first)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(strings(DnsFamily::PreferV4, false), ["192.0.2.1", "192.0.2.2"]);
        assert_eq!(strings(DnsFamily::PreferV6, false), ["2001:db8::1"]);
        assert_eq!(strings(DnsFamily::All, false).len(), 3);
        assert_eq!(strings(DnsFamily::V4, true), ["192.0.2.1"], "whichever comes first");
        assert_eq!(choose(both[1..2].to_vec(), DnsFamily::PreferV6, false).len(), 1);
        assert!(choose(both[1..2].to_vec(), DnsFamily::V6, false).is_empty());
    }
}
