//! Documents that translation asks for by their URL, such as what an identity provider says of itself: fetched, kept
//! and fetched again.
//!
//! The world says which are asked for and never waits; what comes of a fetch is told as facts. What failed is tried
//! again after growing pauses, and what is there is looked at again every hour. A document that was good stays good when
//! a later look fails. No address of a document is told anybody but its host, and none of what it says goes elsewhere
//! than into translation.

use crate::{
    backoff::{Backoff, jittered},
    state::{Documents, Input},
    task::Stop,
};
use edge_translate::{Fact, Fetched};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::{self, Instant},
};

mod fetch;
#[cfg(test)]
mod tests;

use fetch::Fetcher;

/// How many are fetched at a time.
const AT_ONCE: usize = 8;
/// When one that is there is looked at again.
const FRESH: Duration = Duration::from_secs(3600);
/// Pauses after failures.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// A document that is asked for.
struct Document {
    /// Which of the times that it was asked for this is.
    number: u64,
    /// When it is to be fetched; none while it is.
    due: Option<Instant>,
    pauses: Backoff,
    /// What was told last.
    told: Option<Fetched>,
}

/// What is known of all documents that are asked for.
#[derive(Default)]
struct Table(BTreeMap<Arc<str>, Document>);

impl Table {
    /// Takes down what is asked for now. What was forgotten in between begins anew.
    fn follow(&mut self, asked: &Documents, now: Instant) {
        self.0.retain(|url, document| asked.get(url) == Some(&document.number));
        for (url, number) in asked {
            self.0.entry(Arc::clone(url)).or_insert_with(|| Document {
                number: *number,
                due: Some(now),
                pauses: PAUSES,
                told: None,
            });
        }
    }

    /// What is to be fetched now, so many at most; it counts as being fetched.
    fn take_due(&mut self, now: Instant, room: usize) -> Vec<(Arc<str>, u64)> {
        let due = self.0.iter_mut();
        let due = due.filter(|(_, document)| document.due.is_some_and(|due| due <= now));
        let due = due.take(room).map(|(url, document)| {
            document.due = None;
            (Arc::clone(url), document.number)
        });
        due.collect()
    }

    /// When there is something to fetch next.
    fn next(&self) -> Option<Instant> {
        self.0.values().filter_map(|document| document.due).min()
    }

    /// Takes what came of a fetch; gives what is new about it.
    fn take(&mut self, (url, number): (Arc<str>, u64), result: Result<Arc<str>, String>, now: Instant) -> Option<Fact> {
        let document = self.0.get_mut(&url).filter(|document| document.number == number)?;
        let fetched = match result {
            Ok(text) => {
                document.pauses.reset();
                document.due = Some(now + jittered(FRESH));
                Fetched::Text(text)
            }
            Err(why) => {
                let pause = document.pauses.pause();
                document.due = Some(now + pause);
                tracing::warn!(%url, "a document can't be fetched: {why}; it is tried again in {pause:?}");
                if matches!(document.told, Some(Fetched::Text(_))) {
                    return None;
                }
                Fetched::Failed(why.into())
            }
        };
        if document.told.as_ref() == Some(&fetched) {
            return None;
        }
        document.told = Some(fetched.clone());
        Some(Fact::Document(url, fetched))
    }
}

/// A fetch under way: which one, and what comes of it.
type Fetch = BoxFuture<'static, ((Arc<str>, u64), Result<Arc<str>, String>)>;

/// Fetches what is asked for until asked to stop.
pub async fn run(mut asked: watch::Receiver<Documents>, world: mpsc::Sender<Input>, mut stop: Stop) {
    let fetcher = Arc::new(Fetcher::default());
    let mut table = Table::default();
    let mut fetches: FuturesUnordered<Fetch> = FuturesUnordered::new();
    loop {
        table.follow(&asked.borrow_and_update(), Instant::now());
        let room = AT_ONCE.saturating_sub(fetches.len());
        for which in table.take_due(Instant::now(), room) {
            let fetcher = Arc::clone(&fetcher);
            fetches.push(
                async move {
                    let result = fetcher.fetch(&which.0).await;
                    (which, result)
                }
                .boxed(),
            );
        }
        // What is due waits for room, which comes with the next answer.
        let next = table.next().filter(|_| fetches.len() < AT_ONCE);
        let wait = async {
            match next {
                Some(next) => time::sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        let answer = tokio::select! {
            () = stop.requested() => return,
            changed = asked.changed() => match changed {
                Ok(()) => continue,
                // The world is gone.
                Err(_) => return,
            },
            () = wait => continue,
            Some(answer) = fetches.next() => answer,
        };
        let Some(fact) = table.take(answer.0, answer.1, Instant::now()) else {
            continue;
        };
        tokio::select! {
            () = stop.requested() => return,
            sent = world.send(Input::Facts(vec![fact])) => if sent.is_err() {
                return;
            },
        }
    }
}
