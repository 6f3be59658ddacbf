//! What translation asks of servers elsewhere: documents by their URL, such as what an identity provider says of
//! itself, and Wasm modules. They are fetched, kept and fetched again.
//!
//! The world says which are asked for and never waits; what comes of a fetch is told as facts. What failed is tried
//! again after growing pauses, and what is there is looked at again every hour, unless it is a module that stays what
//! it was. What was good stays good when a later look fails. No address of a document is told anybody but its host, and
//! none of what it says goes elsewhere than into translation; of modules that learns the digest.

use crate::{
    backoff::{Backoff, jittered},
    modules::Modules,
    state::{Documents, Input},
    task::Stop,
};
use edge_translate::{Fact, Fetched, FoundModule, ModuleLook, ModuleSource, Question};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::{self, Instant},
};

mod client;
mod fetch;
mod image;
mod registry;
#[cfg(test)]
mod tests;

use fetch::Fetcher;

/// How many are fetched at a time.
const AT_ONCE: usize = 8;
/// When one that is there is looked at again.
const FRESH: Duration = Duration::from_secs(3600);
/// Pauses after failures.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// A document or module that is asked for.
struct Document {
    /// Which of the times that it was asked for this is.
    number: u64,
    /// When it is to be fetched; none while it is.
    due: Option<Instant>,
    pauses: Backoff,
    /// What was told last.
    told: Option<Fact>,
    /// Whether it was there then.
    is_there: bool,
}

/// What is known of all documents that are asked for.
#[derive(Default)]
struct Table(BTreeMap<Question, Document>);

impl Table {
    /// Takes down what is asked for now. What was forgotten in between begins anew.
    fn follow(&mut self, asked: &Documents, now: Instant) {
        self.0
            .retain(|question, document| asked.get(question) == Some(&document.number));
        for (question, number) in asked {
            self.0.entry(question.clone()).or_insert_with(|| Document {
                number: *number,
                due: Some(now),
                pauses: PAUSES,
                told: None,
                is_there: false,
            });
        }
    }

    /// What is to be fetched now, so many at most; it counts as being fetched.
    fn take_due(&mut self, now: Instant, room: usize) -> Vec<(Question, u64)> {
        let due = self.0.iter_mut();
        let due = due.filter(|(_, document)| document.due.is_some_and(|due| due <= now));
        let due = due.take(room).map(|(question, document)| {
            document.due = None;
            (question.clone(), document.number)
        });
        due.collect()
    }

    /// When there is something to fetch next.
    fn next(&self) -> Option<Instant> {
        self.0.values().filter_map(|document| document.due).min()
    }

    /// Takes what came of a fetch; gives what is new about it.
    fn take(
        &mut self,
        (question, number): (Question, u64),
        result: Result<Fact, String>,
        now: Instant,
    ) -> Option<Fact> {
        let document = self.0.get_mut(&question).filter(|document| document.number == number)?;
        let fact = match result {
            Ok(fact) => {
                document.pauses.reset();
                document.due = is_followed(&question).then(|| now + jittered(FRESH));
                document.is_there = true;
                fact
            }
            Err(why) => {
                let pause = document.pauses.pause();
                document.due = Some(now + pause);
                let what = shown(&question);
                tracing::warn!("{what} can't be fetched: {why}; it is tried again in {pause:?}");
                if document.is_there {
                    return None;
                }
                failed(&question, why)?
            }
        };
        if document.told.as_ref() == Some(&fact) {
            return None;
        }
        document.told = Some(fact.clone());
        Some(fact)
    }
}

/// Whether what is there is looked at again.
fn is_followed(question: &Question) -> bool {
    match question {
        Question::Module(wanted) => wanted.look == ModuleLook::Again,
        Question::Document(_) | Question::Time(_) | Question::Port(_) => true,
    }
}

/// How it is called in logs: what stands behind `?` may be a secret.
fn shown(question: &Question) -> String {
    let plain = |url: &str| url.split('?').next().unwrap_or_default().to_owned();
    match question {
        Question::Document(url) => plain(url),
        Question::Module(wanted) => match &wanted.source {
            ModuleSource::Url(url) => plain(url),
            image @ ModuleSource::Image(_) => image.to_string(),
        },
        Question::Time(_) | Question::Port(_) => "what is asked for".to_owned(),
    }
}

fn failed(question: &Question, why: String) -> Option<Fact> {
    match question {
        Question::Document(url) => Some(Fact::Document(Arc::clone(url), Fetched::Failed(why.into()))),
        Question::Module(wanted) => Some(Fact::Module(Arc::clone(wanted), FoundModule::Failed(why.into()))),
        Question::Time(_) | Question::Port(_) => None,
    }
}

/// A fetch under way: which one, and what comes of it.
type Fetch = BoxFuture<'static, ((Question, u64), Result<Fact, String>)>;

/// Fetches what is asked for until asked to stop.
pub async fn run(mut asked: watch::Receiver<Documents>, modules: Modules, world: mpsc::Sender<Input>, mut stop: Stop) {
    let fetcher = Arc::new(Fetcher::new(modules.clone()));
    let mut table = Table::default();
    let mut fetches: FuturesUnordered<Fetch> = FuturesUnordered::new();
    loop {
        table.follow(&asked.borrow_and_update(), Instant::now());
        modules.retain(|wanted| table.0.contains_key(&Question::Module(Arc::clone(wanted))));
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
