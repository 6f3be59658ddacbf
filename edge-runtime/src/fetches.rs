//! What translation asks of servers elsewhere: documents by their URL, such as what an identity provider says of
//! itself, and Wasm modules. They are fetched, kept and fetched again.
//!
//! The world says which are asked for and never waits, but before it publishes for the first time; what comes of a
//! fetch is told as facts. What failed is tried again after growing pauses, and what is there is looked at again every
//! hour, unless it is a module that stays what it was. What was good stays good when a later look fails, or finds what
//! can't be used, and so does a document beyond the controller's end (`last_good`). The address of a document is told
//! to its host and to nobody else, and its text to translation and to what the controller keeps; translation learns of
//! a module its digest alone.

use crate::{
    due,
    modules::Modules,
    state::{FetchNumbers, Input},
    task::Stop,
};
use edge_translate::{Fact, Fetched, Question, check_oidc_discovery};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use std::sync::Arc;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

mod client;
mod fetch;
mod image;
mod last_good;
mod registry;
mod schedule;
mod slots;
#[cfg(test)]
mod tests;

pub use last_good::Storage;

use fetch::Fetcher;
use last_good::LastGood;
use schedule::{FetchId, Schedule};
use slots::FetchSlots;

/// A fetch under way: which one, and what comes of it.
type UnderWay = BoxFuture<'static, (FetchId, Result<Fact, String>)>;

/// Fetches what is asked for until asked to stop.
pub async fn run(
    mut asked: watch::Receiver<FetchNumbers>,
    modules: Modules,
    storage: Storage,
    world: mpsc::Sender<Input>,
    mut stop: Stop,
) {
    let mut fetches = Fetches::new(modules, storage);
    loop {
        let wanted = asked.borrow_and_update().clone();
        if !wanted.is_empty() {
            tokio::select! {
                () = stop.requested() => return,
                () = fetches.last_good.read() => {}
            }
        }
        let mut news = fetches.follow(&wanted);
        if news.is_empty() {
            tokio::select! {
                () = stop.requested() => return,
                changed = asked.changed() => match changed {
                    Ok(()) => continue,
                    // The world is gone.
                    Err(_) => return,
                },
                next = fetches.next(&wanted) => news.extend(next),
            }
        }
        if news.is_empty() {
            continue;
        }
        tokio::select! {
            () = stop.requested() => return,
            sent = world.send(Input::Facts(news)) => if sent.is_err() {
                return;
            },
        }
    }
}

/// What is fetched, when, and what comes of it.
struct Fetches {
    fetcher: Arc<Fetcher>,
    modules: Modules,
    schedule: Schedule,
    slots: FetchSlots,
    last_good: LastGood,
    under_way: FuturesUnordered<UnderWay>,
}

impl Fetches {
    fn new(modules: Modules, storage: Storage) -> Self {
        Self {
            fetcher: Arc::new(Fetcher::new(modules.clone())),
            modules,
            schedule: Schedule::default(),
            slots: FetchSlots::default(),
            last_good: LastGood::at(storage),
            under_way: FuturesUnordered::new(),
        }
    }

    /// Takes down what is asked for now, and begins to fetch what is due. Gives what is known of it from before.
    fn follow(&mut self, wanted: &FetchNumbers) -> Vec<Fact> {
        let known = |question: &Question| known(&self.last_good, question);
        let followed = self.schedule.follow(wanted, known, Instant::now());
        for url in followed.dropped.iter().filter_map(url) {
            self.last_good.forget(url);
        }
        let schedule = &self.schedule;
        self.modules
            .retain(|wanted| schedule.is_asked(&Question::Module(Arc::clone(wanted))));
        for id in self.schedule.take_due(Instant::now(), &mut self.slots) {
            self.under_way.push(fetch(Arc::clone(&self.fetcher), id).boxed());
        }
        followed.facts
    }

    /// Waits for the end of a fetch and gives what is new by that, or until another is due. Meanwhile what is good is
    /// written down. Whoever stops waiting loses nothing.
    async fn next(&mut self, wanted: &FetchNumbers) -> Option<Fact> {
        let due = self.schedule.next(&self.slots);
        let (id, result) = tokio::select! {
            () = due::at(due) => return None,
            never = self.last_good.write_all() => match never {},
            Some(over) = self.under_way.next() => over,
        };
        self.slots.give_back(&id.question);
        let fact = self.schedule.take(&id, result, Instant::now());
        if let (Some(url), Some(text)) = (url(&id.question), self.schedule.good_text(&id.question)) {
            self.last_good.keep(url, text, wanted.keys().filter_map(self::url));
        }
        fact
    }
}

async fn fetch(fetcher: Arc<Fetcher>, id: FetchId) -> (FetchId, Result<Fact, String>) {
    let result = fetcher.fetch(&id.question).await;
    (id, result)
}

/// What is known of a document from before.
fn known(last_good: &LastGood, question: &Question) -> Option<Fact> {
    let url = url(question)?;
    let text = last_good.text(url)?;
    check_oidc_discovery(url, text, None).ok()?;
    Some(Fact::Document(url.into(), Fetched::Text(Arc::clone(text))))
}

/// The URL of a document.
fn url(question: &Question) -> Option<&str> {
    match question {
        Question::Document(url) => Some(url),
        Question::Module(_) | Question::Time(_) | Question::Port(_) => None,
    }
}
