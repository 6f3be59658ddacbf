//! Resolution of host names of DNS clusters: one task per cluster, owned and ended with it.
//!
//! The system's resolver is used. It has no TTL, so the refresh rate of the cluster is the pace; a failed resolution
//! keeps the addresses before, whether the name has gone or its servers have.
//! Each name of a cluster has a pace of its own, since the system's resolver may take long over one whose servers are
//! silent; the first that is found makes the cluster ready.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;

use crate::compile::cluster::{AnswerShare, DnsLookup, DnsSpec};
use crate::compile::endpoint::Resolved;
use crate::config::dynamic_forward_proxy::DnsFamily;
use crate::told::Told;

/// Pace after a failure, if the refresh rate is slower.
const RETRY: Duration = Duration::from_secs(1);
/// Names of a cluster that are asked for at a time: each takes a thread while it waits for the system's resolver.
const AT_A_TIME: usize = 16;
/// Answers that come within this time of one that was told are told together.
const TOGETHER: Duration = Duration::from_millis(20);

/// Takes the addresses of a cluster's names, and says whether anybody wants more.
pub(crate) type OnResolved = Rc<dyn Fn(&str, &Resolved) -> ControlFlow<()>>;

/// The tasks by cluster.
#[derive(Debug, Default)]
pub(crate) struct Resolvers {
    /// A task goes on when its cluster changes and asks the same.
    tasks: RefCell<BTreeMap<Arc<str>, Running>>,
}

/// A task and what it has found.
#[derive(Debug)]
struct Running {
    lookup: DnsLookup,
    answers: Rc<Answers>,
    task: AbortHandle,
}

impl Running {
    /// Begins with what another task knows, where it asks for some of the same.
    fn begin(on_resolved: &OnResolved, cluster: &Arc<str>, lookup: DnsLookup, before: Option<Running>) -> Self {
        let before = before.filter(|before| before.lookup.is_like(&lookup));
        let mut known = before.map_or_else(Resolved::new, |before| before.answers.addresses.take());
        known.retain(|name, _| lookup.names.contains(name));
        let answers = Rc::new(Answers {
            addresses: RefCell::new(known),
            open: Cell::new(lookup.names.len()),
            news: Notify::new(),
        });
        let asking = follow(
            Rc::clone(on_resolved),
            Arc::clone(cluster),
            lookup.clone(),
            Rc::clone(&answers),
        );
        let task = tokio::task::spawn_local(asking).abort_handle();
        Self { lookup, answers, task }
    }
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
        let mut before = std::mem::take(&mut *tasks);
        for (name, lookup) in wanted {
            let running = match before.remove(&name) {
                Some(running) if running.lookup == lookup => running,
                other => {
                    if let Some(running) = &other {
                        running.task.abort();
                    }
                    Running::begin(on_resolved, &name, lookup, other)
                }
            };
            tasks.insert(name, running);
        }
        for running in before.into_values() {
            running.task.abort();
        }
    }
}

/// What is known of a cluster's names.
#[derive(Debug, Default)]
struct Answers {
    addresses: RefCell<Resolved>,
    /// Names that have not been answered yet, in whatever way.
    open: Cell<usize>,
    /// Rung when there is something to tell.
    news: Notify,
}

/// Asks for a cluster's names until nobody wants more.
async fn follow(on_resolved: OnResolved, cluster: Arc<str>, lookup: DnsLookup, answers: Rc<Answers>) {
    let resolve = async |name: &str| {
        let answers = tokio::net::lookup_host((name, 0)).await?;
        Ok(answers.map(|answer| answer.ip()).collect())
    };
    follow_by(resolve, on_resolved, cluster, lookup, &answers).await;
}

async fn follow_by(
    resolve: impl AsyncFn(&str) -> io::Result<Vec<IpAddr>>,
    on_resolved: OnResolved,
    cluster: Arc<str>,
    lookup: DnsLookup,
    answers: &Answers,
) {
    let (turns, resolve) = (Semaphore::new(AT_A_TIME), &resolve);
    let asking = lookup
        .names
        .iter()
        .map(|name| ask(resolve, &cluster, name, &lookup, &turns, answers));
    let telling = async {
        loop {
            answers.news.notified().await;
            if on_resolved(&cluster, &answers.addresses.borrow().clone()).is_break() {
                return;
            }
            // What comes meanwhile is told together.
            tokio::time::sleep(TOGETHER).await;
        }
    };
    tokio::select! {
        _ = join_all(asking) => {}
        () = telling => {}
    }
}

/// Asks for a name, again and again: one that nobody answers for keeps no other waiting.
async fn ask(
    resolve: &impl AsyncFn(&str) -> io::Result<Vec<IpAddr>>,
    cluster: &str,
    name: &str,
    lookup: &DnsLookup,
    turns: &Semaphore,
    answers: &Answers,
) {
    let mut is_open = true;
    let told = Told::default();
    loop {
        let mut pause = lookup.refresh.max(Duration::from_millis(100));
        let turn = turns.acquire().await;
        let answer = resolve(name.trim_end_matches('.')).await;
        drop(turn);
        let open = answers.open.get() - usize::from(std::mem::take(&mut is_open));
        answers.open.set(open);
        match answer {
            Ok(found) => {
                let found = choose(found, lookup.family, lookup.share);
                answers.addresses.borrow_mut().insert(name.to_owned(), found);
                answers.news.notify_one();
            }
            Err(error) => {
                if told.is_news(error.to_string(), Instant::now()) {
                    tracing::warn!(cluster, name, %error, "cannot resolve");
                }
                pause = pause.min(RETRY);
                // A cluster of which nothing is known has no hosts, and keeps no listener waiting.
                if open == 0 {
                    answers.news.notify_one();
                }
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// The addresses of the wanted family, each once, in a stable order.
fn choose(addresses: Vec<IpAddr>, family: DnsFamily, share: AnswerShare) -> Vec<IpAddr> {
    let mut addresses = family.choose(addresses);
    if share == AnswerShare::First {
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
        let strings = |family, share| {
            choose(both.clone(), family, share)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            strings(DnsFamily::PreferV4, AnswerShare::All),
            ["192.0.2.1", "192.0.2.2"]
        );
        assert_eq!(strings(DnsFamily::PreferV6, AnswerShare::All), ["2001:db8::1"]);
        assert_eq!(strings(DnsFamily::All, AnswerShare::All).len(), 3);
        assert_eq!(
            strings(DnsFamily::V4, AnswerShare::First),
            ["192.0.2.1"],
            "whichever comes first"
        );
        assert_eq!(
            choose(both[1..2].to_vec(), DnsFamily::PreferV6, AnswerShare::All).len(),
            1
        );
        assert!(choose(both[1..2].to_vec(), DnsFamily::V6, AnswerShare::All).is_empty());
    }

    /// Of a cluster with these names, all of which are answered for but silent ones.
    async fn told(names: &[&str], count: usize) -> Vec<Vec<String>> {
        let told = Rc::new(RefCell::new(Vec::new()));
        let tells = Rc::clone(&told);
        let on_resolved: OnResolved = Rc::new(move |_, resolved| {
            let mut told = tells.borrow_mut();
            told.push(resolved.keys().cloned().collect::<Vec<_>>());
            match told.len() < count {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        let resolve = async |name: &str| match name {
            "silent" => std::future::pending().await,
            "unknown" => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(vec![IpAddr::from([192, 0, 2, 1])]),
        };
        let lookup = DnsLookup {
            names: names.iter().map(ToString::to_string).collect(),
            refresh: Duration::ZERO,
            family: DnsFamily::V4,
            share: AnswerShare::All,
        };
        let answers = Answers {
            open: Cell::new(names.len()),
            ..Answers::default()
        };
        follow_by(resolve, on_resolved, Arc::from("c"), lookup, &answers).await;
        told.take()
    }

    #[tokio::test]
    async fn a_silent_name_keeps_no_other_waiting() {
        let names = ["silent", "here", "unknown", "there."];
        let found = ["here", "there."];
        assert_eq!(told(&names, 2).await, [found, found]);
    }

    #[tokio::test]
    async fn names_that_nobody_knows_are_told_when_all_have_been_asked_for() {
        assert_eq!(told(&["unknown", "unknown"], 1).await, [[""; 0]]);
        // Each time it is none.
        assert_eq!(told(&["unknown"], 2).await, [[""; 0]; 2]);
    }
}
