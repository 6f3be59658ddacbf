//! What is fetched when, and what of it is told.

use super::*;
use crate::{
    certs::{CONTROLLER, TlsFiles},
    http::{self, Reply},
    task::Task,
};
use ::http::StatusCode;
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
};

mod modules;

fn asked(entries: &[(&str, u64)]) -> Documents {
    let entries = entries.iter();
    entries
        .map(|(url, number)| (Question::Document((*url).into()), *number))
        .collect()
}

fn text(text: &str) -> Result<Fact, String> {
    Ok(Fact::Document("a".into(), Fetched::Text(text.into())))
}

fn failed() -> Result<Fact, String> {
    Err("status code: 503".to_owned())
}

/// The state of a text in a table, one document a time.
struct Rig {
    table: Table,
    now: Instant,
}

impl Rig {
    fn new() -> Self {
        let mut rig = Self {
            table: Table::default(),
            now: Instant::now(),
        };
        rig.table.follow(&asked(&[("a", 1)]), rig.now);
        rig
    }

    /// Goes to when the document is due, and gives it this.
    fn next(&mut self, result: Result<Fact, String>) -> (Duration, Option<Fact>) {
        let due = self.table.next().unwrap();
        let waited = due.duration_since(self.now);
        self.now = due;
        let mut which = self.table.take_due(self.now, 1);
        assert_eq!(self.table.next(), None, "it is being fetched");
        (waited, self.table.take(which.remove(0), result, self.now))
    }
}

fn fact(fetched: Fetched) -> Option<Fact> {
    Some(Fact::Document("a".into(), fetched))
}

#[test]
fn failures_are_told_once_and_tried_again_after_growing_pauses() {
    let mut rig = Rig::new();
    let (waited, told) = rig.next(failed());
    assert_eq!(
        (waited, told),
        (Duration::ZERO, fact(Fetched::Failed("status code: 503".into())))
    );
    let (first, told) = rig.next(failed());
    assert_eq!(told, None);
    let (second, told) = rig.next(text("x"));
    assert!(
        second > first && first >= Duration::from_secs(1),
        "{first:?} {second:?}"
    );
    assert_eq!(told, fact(Fetched::Text("x".into())));
}

#[test]
fn what_was_good_stays_good_and_is_looked_at_again() {
    let mut rig = Rig::new();
    rig.next(text("x"));
    let (waited, told) = rig.next(failed());
    assert!(waited >= FRESH, "{waited:?}");
    assert_eq!(told, None, "the last good one stays");
    let (waited, told) = rig.next(text("x"));
    assert!(waited < FRESH);
    assert_eq!(told, None, "it is the same");
    assert_eq!(rig.next(text("y")).1, fact(Fetched::Text("y".into())));
}

#[test]
fn what_is_asked_for_anew_is_told_anew() {
    let mut rig = Rig::new();
    let mut which = rig.table.take_due(rig.now, 1);
    // Dropped and asked for again while it was being fetched.
    rig.table.follow(&asked(&[("a", 2)]), rig.now);
    assert_eq!(
        rig.table.take(which.remove(0), text("x"), rig.now),
        None,
        "of the time before"
    );
    assert_eq!(rig.next(text("x")).1, fact(Fetched::Text("x".into())));
    rig.table.follow(&asked(&[]), rig.now);
    assert_eq!(rig.table.next(), None);
}

#[test]
fn no_more_than_there_is_room_for_are_fetched_at_a_time() {
    let mut rig = Rig::new();
    rig.table.follow(&asked(&[("a", 1), ("b", 1), ("c", 1)]), rig.now);
    let first = rig.table.take_due(rig.now, 2);
    assert_eq!(first.len(), 2);
    assert_eq!(rig.table.take_due(rig.now, 2).len(), 1);
}

/// Modules that nobody puts.
fn nowhere() -> Modules {
    Modules::new(
        SocketAddr::from(([127, 0, 0, 1], 0)),
        TlsFiles::below(std::path::Path::new("/nonexistent"), CONTROLLER),
    )
}

/// A server of documents that counts its requests.
async fn server(page: fn(usize) -> Reply) -> (SocketAddr, Task) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = http::listen(any, "tests", "").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let answer = move |_| {
        let n = count.fetch_add(1, Ordering::Relaxed);
        async move { page(n) }
    };
    (
        address,
        Task::spawn("documents", |stop| http::serve(listener, answer, stop)),
    )
}

#[tokio::test]
async fn documents_are_fetched_as_they_are_asked_for_and_facts_told() {
    // Not there at first.
    let (address, _server) = server(|n| match n {
        0 => http::text(StatusCode::NOT_FOUND, "no"),
        _ => http::json("{}"),
    })
    .await;
    let url: Arc<str> = format!("http://{address}/configuration").into();
    let (asking, questions) = watch::channel(Documents::default());
    let (world, mut told) = mpsc::channel(4);
    let _task = Task::spawn("documents", |stop| run(questions, nowhere(), world, stop));
    asking.send_replace(asked(&[(&url, 1)]));
    let mut next = async || match told.recv().await {
        Some(Input::Facts(facts)) => facts,
        other => panic!("{other:?}"),
    };
    let fact = |fetched| vec![Fact::Document(Arc::clone(&url), fetched)];
    assert_eq!(next().await, fact(Fetched::Failed("status code: 404".into())));
    assert_eq!(next().await, fact(Fetched::Text("{}".into())));
}

#[tokio::test]
async fn what_is_too_long_or_not_there_is_refused() {
    let (address, _server) = server(|_| http::json(vec![b' '; (1 << 20) + 1])).await;
    let fetcher = Fetcher::new(nowhere());
    let at = |address: String| Question::Document(format!("http://{address}/").into());
    let error = fetcher.fetch(&at(address.to_string())).await.unwrap_err();
    assert!(error.contains("can't be read"), "{error}");
    let [free] = e2e::ports::free().unwrap();
    let error = fetcher.fetch(&at(format!("127.0.0.1:{free}"))).await.unwrap_err();
    assert!(error.contains("can't be reached"), "{error}");
}
