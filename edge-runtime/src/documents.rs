//! What translation asks of servers elsewhere: documents by their URL, such as what an identity provider says of
//! itself, and Wasm modules. They are fetched, kept and fetched again.
//!
//! The world says which are asked for and never waits, but before it publishes for the first time; what comes of a
//! fetch is told as facts. What failed is tried again after growing pauses, and what is there is looked at again every
//! hour, unless it is a module that stays what it was. What was good stays good when a later look fails, or finds what
//! can't be used, and so it does beyond the controller's end (`kept`). No address of a document is told anybody but its
//! host, and none of what it says goes elsewhere than into translation and the controller's own keeping; of modules
//! that learns the digest.

use crate::{
    due,
    modules::Modules,
    state::{Documents, Input},
    task::Stop,
};
use edge_translate::{Fact, Fetched, Question, check_document};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use std::sync::Arc;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

mod client;
mod fetch;
mod image;
mod kept;
mod places;
mod registry;
mod table;
#[cfg(test)]
mod tests;

pub use kept::Place;

use fetch::Fetcher;
use kept::Kept;
use places::Places;
use table::Table;

/// A fetch under way: which one, and what comes of it.
type Fetch = BoxFuture<'static, ((Question, u64), Result<Fact, String>)>;

/// Fetches what is asked for until asked to stop.
pub async fn run(
    mut asked: watch::Receiver<Documents>,
    modules: Modules,
    place: Place,
    world: mpsc::Sender<Input>,
    mut stop: Stop,
) {
    let fetcher = Arc::new(Fetcher::new(modules.clone()));
    let (mut table, mut places, mut kept) = (Table::default(), Places::default(), Kept::at(place));
    let mut fetches: FuturesUnordered<Fetch> = FuturesUnordered::new();
    loop {
        let wanted = asked.borrow_and_update().clone();
        if !wanted.is_empty() {
            tokio::select! {
                () = stop.requested() => return,
                () = kept.read() => {}
            }
        }
        let followed = table.follow(&wanted, |question| known(&kept, question), Instant::now());
        followed.dropped.iter().filter_map(url).for_each(|url| kept.forget(url));
        modules.retain(|wanted| table.is_asked(&Question::Module(Arc::clone(wanted))));
        for which in table.take_due(Instant::now(), &mut places) {
            fetches.push(fetch(Arc::clone(&fetcher), which).boxed());
        }
        let mut news = followed.facts;
        if news.is_empty() {
            let (next, write) = (table.next(&places), kept.due());
            let ((question, number), result) = tokio::select! {
                () = stop.requested() => return,
                changed = asked.changed() => match changed {
                    Ok(()) => continue,
                    // The world is gone.
                    Err(_) => return,
                },
                () = due::at(next) => continue,
                () = due::at(write) => {
                    kept.begin_write();
                    continue;
                }
                written = due::done(&mut kept.write) => {
                    kept.wrote(written);
                    continue;
                }
                Some(answer) = fetches.next() => answer,
            };
            places.give_back(&question);
            news.extend(table.take((&question, number), result, Instant::now()));
            if let (Some(url), Some(text)) = (url(&question), table.good_text(&question)) {
                kept.keep(url, text, wanted.keys().filter_map(self::url));
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

async fn fetch(fetcher: Arc<Fetcher>, which: (Question, u64)) -> ((Question, u64), Result<Fact, String>) {
    let result = fetcher.fetch(&which.0).await;
    (which, result)
}

/// What is known of a document from before.
fn known(kept: &Kept, question: &Question) -> Option<Fact> {
    let Question::Document(url) = question else {
        return None;
    };
    let text = kept.text(url)?;
    check_document(url, text, None).ok()?;
    Some(Fact::Document(Arc::clone(url), Fetched::Text(Arc::clone(text))))
}

/// The URL of a document.
fn url(question: &Question) -> Option<&str> {
    match question {
        Question::Document(url) => Some(url),
        Question::Module(_) | Question::Time(_) | Question::Port(_) => None,
    }
}
