//! What is fetched when, and what of it is told.

use super::{schedule::FRESH, *};
use crate::{
    certs::{CONTROLLER, TlsFiles},
    http::{self, Reply},
    modules::digest,
    task::Task,
};
use ::http::StatusCode;
use client::Ask;
use std::{
    net::SocketAddr,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

mod modules;

fn asked(entries: &[(&str, u64)]) -> FetchNumbers {
    let entries = entries.iter();
    entries
        .map(|(url, number)| (Question::Document((*url).into()), *number))
        .collect()
}

fn text(text: &str) -> Result<Fact, String> {
    Ok(at("a", Fetched::Text(text.into())))
}

fn at(url: &str, fetched: Fetched) -> Fact {
    Fact::Document(url.into(), fetched)
}

fn failed() -> Result<Fact, String> {
    Err("status code: 503".to_owned())
}

/// The state of a text in a table, one document a time.
struct Rig {
    schedule: Schedule,
    slots: FetchSlots,
    now: Instant,
}

impl Rig {
    fn new() -> Self {
        Self::asking("a", None)
    }

    /// Asks for what stands at a URL, of which something may be known.
    fn asking(url: &str, known: Option<&str>) -> Self {
        let mut rig = Self {
            schedule: Schedule::default(),
            slots: FetchSlots::default(),
            now: Instant::now(),
        };
        let fact = known.map(|text| at(url, Fetched::Text(text.into())));
        let followed = rig.schedule.follow(&asked(&[(url, 1)]), |_| fact.clone(), rig.now);
        assert_eq!(followed.facts, fact.as_slice());
        rig
    }

    fn follow(&mut self, entries: &[(&str, u64)]) -> Vec<Question> {
        let followed = self.schedule.follow(&asked(entries), |_| None, self.now);
        assert_eq!(followed.facts, []);
        followed.dropped
    }

    fn due(&mut self) -> Vec<FetchId> {
        self.schedule.take_due(self.now, &mut self.slots)
    }

    fn take(&mut self, id: &FetchId, result: Result<Fact, String>) -> Option<Fact> {
        self.slots.give_back(&id.question);
        self.schedule.take(id, result, self.now)
    }

    /// Goes to when the document is due, and gives it this.
    fn next(&mut self, result: Result<Fact, String>) -> (Duration, Option<Fact>) {
        let due = self.schedule.next(&self.slots).unwrap();
        let waited = due.duration_since(self.now);
        self.now = due;
        let id = self.due().remove(0);
        assert_eq!(self.schedule.next(&self.slots), None, "it is being fetched");
        (waited, self.take(&id, result))
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
    let id = rig.due().remove(0);
    // Dropped and asked for again while it was being fetched.
    assert_eq!(rig.follow(&[("a", 2)]), [Question::Document("a".into())]);
    assert_eq!(rig.take(&id, text("x")), None, "of the time before");
    assert_eq!(rig.next(text("x")).1, fact(Fetched::Text("x".into())));
    rig.follow(&[]);
    assert_eq!(rig.schedule.next(&rig.slots), None);
}

const CONFIGURATION: &str = "https://idp.example/.well-known/openid-configuration";

/// What a provider says of itself, with so many endpoints.
fn said(endpoints: usize) -> String {
    let all = ["authorization_endpoint", "token_endpoint"];
    let all = all.map(|name| format!(r#", "{name}": "https://idp.example/{name}""#));
    format!(r#"{{"issuer": "https://idp.example"{}}}"#, all[..endpoints].concat())
}

#[test]
fn what_cannot_be_used_takes_nothing_from_what_is_good() {
    let text = |text: &str| at(CONFIGURATION, Fetched::Text(text.into()));
    let mut rig = Rig::asking(CONFIGURATION, None);
    let page = "<html>maintenance</html>";
    assert_eq!(
        rig.next(Ok(text(page))).1,
        Some(text(page)),
        "what is wrong with it is told"
    );
    let (waited, told) = rig.next(Ok(text(&said(2))));
    assert_eq!(told, Some(text(&said(2))));
    assert!(waited < FRESH, "it was looked at again soon: {waited:?}");
    for flawed in [page.to_owned(), said(1), said(2).replace("idp", "other")] {
        let (waited, told) = rig.next(Ok(text(&flawed)));
        assert_eq!(told, None, "{flawed}");
        assert_eq!(
            rig.schedule.good_text(&Question::Document(CONFIGURATION.into())),
            Some(&said(2).into())
        );
        // The first of them came when the good one was old.
        assert!(waited < FRESH || flawed == page, "{waited:?}");
    }
}

#[test]
fn what_is_known_from_before_holds_until_there_is_better() {
    let mut rig = Rig::asking("a", Some("x"));
    let (waited, told) = rig.next(failed());
    assert_eq!((waited, told), (Duration::ZERO, None), "it is fetched all the same");
    assert_eq!(rig.next(text("y")).1, fact(Fetched::Text("y".into())));
}

#[test]
fn what_has_waited_longest_is_fetched_first() {
    let mut rig = Rig::asking("z", None);
    rig.now += Duration::from_secs(1);
    let urls: Vec<String> = (0..100).map(|n| format!("a{n}")).collect();
    let all: Vec<_> = urls.iter().map(|url| (&**url, 1)).chain([("z", 1)]).collect();
    rig.follow(&all);
    let first = rig.due();
    assert_eq!(first[0].question, Question::Document("z".into()));
    assert!(first.len() < all.len(), "there are no more places");
    assert_eq!(rig.schedule.next(&rig.slots), None, "nothing is due without a place");
    rig.take(&first[0], text("x"));
    assert_eq!(rig.due().len(), 1);
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
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::start(folder.path(), &url);
    assert_eq!(
        running.told().await,
        at(&url, Fetched::Failed("status code: 404".into()))
    );
    assert_eq!(running.told().await, at(&url, Fetched::Text("{}".into())));
}

/// A task that is asked for one document.
struct Running {
    told: mpsc::Receiver<Input>,
    _asking: watch::Sender<FetchNumbers>,
    task: Task,
}

impl Running {
    fn start(state: &Path, url: &str) -> Self {
        let (asking, questions) = watch::channel(asked(&[(url, 1)]));
        let (world, told) = mpsc::channel(4);
        let storage = Storage::below_state(state);
        Self {
            told,
            _asking: asking,
            task: Task::spawn("documents", |stop| run(questions, nowhere(), storage, world, stop)),
        }
    }

    async fn told(&mut self) -> Fact {
        match self.told.recv().await {
            Some(Input::Facts(facts)) if facts.len() == 1 => facts[0].clone(),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_controller_that_begins_while_a_provider_is_away_knows_what_it_said() {
    let (address, server) = server(|_| http::json("{}")).await;
    let url = format!("http://{address}/configuration");
    let state = tempfile::tempdir().unwrap();
    let mut first = Running::start(state.path(), &url);
    assert_eq!(first.told().await, at(&url, Fetched::Text("{}".into())));
    let kept = state.path().join(".documents").join(digest(url.as_bytes()).as_ref());
    while !kept.exists() {
        tokio::task::yield_now().await;
    }
    first.task.stop(Duration::from_secs(9)).await;
    server.stop(Duration::from_secs(9)).await;
    let mut second = Running::start(state.path(), &url);
    assert_eq!(second.told().await, at(&url, Fetched::Text("{}".into())));
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for_as_long_as_one_that_sends() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/", silent.local_addr().unwrap()).parse().unwrap();
    let ask = Ask {
        uri,
        accept: "*/*",
        authorization: None,
        authorities: None,
        most: 1,
    };
    let asked = client::Client::patient(Duration::from_millis(50));
    let error = asked.get(&ask).await.err().unwrap();
    assert!(error.contains("no answer within"), "{error}");
}

#[tokio::test]
async fn what_is_too_long_or_not_there_is_refused() {
    let (address, _server) = server(|_| http::json(vec![b' '; (1 << 20) + 1])).await;
    let fetcher = Fetcher::new(nowhere());
    let of = |address: String| Question::Document(format!("http://{address}/").into());
    let error = fetcher.fetch(&of(address.to_string())).await.unwrap_err();
    assert!(error.contains("can't be read"), "{error}");
    let [free] = e2e::ports::free().unwrap();
    let error = fetcher.fetch(&of(format!("127.0.0.1:{free}"))).await.unwrap_err();
    assert!(error.contains("can't be reached"), "{error}");
}
