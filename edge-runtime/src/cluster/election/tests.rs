//! Elections, against a Lease in this process.

use super::*;
use crate::task::StopSource;
use http::{Method, Request, Response, StatusCode};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use std::{convert::Infallible, io};
use tokio::task::JoinHandle;
use tower::service_fn;

/// The Lease as it is stored; `None`: there is none. Or that nothing answers.
#[derive(Clone)]
struct Server(Arc<watch::Sender<(Option<Value>, Answers)>>);

#[derive(Clone, Copy, PartialEq)]
enum Answers {
    Well,
    Late(Duration),
    Never,
}

impl Server {
    fn new(lease: Option<Value>) -> Self {
        Self(Arc::new(watch::Sender::new((lease, Answers::Well))))
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let method = request.method().clone();
                let body = request.into_body().collect_bytes().await.unwrap();
                let answers = server.0.borrow().1;
                match answers {
                    Answers::Well => {}
                    Answers::Late(pause) => time::sleep(pause).await,
                    Answers::Never => std::future::pending().await,
                }
                let (code, value) = server.answer(&method, serde_json::from_slice(&body).unwrap_or_default());
                let mut response = Response::new(Body::from(value.to_string().into_bytes()));
                *response.status_mut() = StatusCode::from_u16(code).unwrap();
                Ok::<_, Infallible>(response)
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, method: &Method, mut given: Value) -> (u16, Value) {
        let fault = |code: u16| {
            let reason = if code == 404 { "NotFound" } else { "Conflict" };
            let status =
                json!({ "kind": "Status", "status": "Failure", "reason": reason, "message": "x", "code": code });
            (code, status)
        };
        let mut answer = fault(404);
        self.0.send_modify(|(stored, _)| {
            let version = stored
                .as_ref()
                .map(|lease| lease["metadata"]["resourceVersion"].clone());
            answer = match (method, &version) {
                (&Method::GET, Some(_)) => (200, stored.clone().unwrap_or_default()),
                (&Method::GET, None) => fault(404),
                (&Method::POST, Some(_)) => fault(409),
                (&Method::PUT, Some(version)) if given["metadata"]["resourceVersion"] != *version => fault(409),
                _ => {
                    let next = version.and_then(|text| text.as_str()?.parse::<u32>().ok()).unwrap_or(0) + 1;
                    given["metadata"]["resourceVersion"] = next.to_string().into();
                    *stored = Some(given.clone());
                    (200, given.clone())
                }
            };
        });
        answer
    }

    fn holder(&self) -> String {
        let (lease, _) = &*self.0.borrow();
        let holder = lease.as_ref().map(|lease| lease["spec"]["holderIdentity"].clone());
        holder.unwrap_or_default().as_str().unwrap_or_default().to_owned()
    }
}

struct Replica {
    leadership: watch::Receiver<Leadership>,
    source: StopSource,
    task: JoinHandle<()>,
}

impl Replica {
    fn start(server: &Server) -> Self {
        Self::start_with(server, [2000, 1000, 100])
    }

    /// One whose Lease lasts, must be renewed, and is tried again after so many milliseconds.
    fn start_with(server: &Server, times: [u64; 3]) -> Self {
        Self::start_once(server, times, watch::channel(Some(Arc::default())).1)
    }

    /// One that has read everything once that is published.
    fn start_once(server: &Server, times: [u64; 3], published: watch::Receiver<Option<Arc<Published>>>) -> Self {
        let [duration, renew_deadline, retry] = times.map(Duration::from_millis);
        let (source, stop) = StopSource::new();
        let leadership = Arc::new(watch::Sender::new(Leadership::Following));
        let receiver = leadership.subscribe();
        let terms = LeaseTerms {
            namespace: "system".into(),
            duration,
            renew_deadline,
            retry,
        };
        let api = Api::of(server.client());
        Self {
            leadership: receiver,
            source,
            task: tokio::spawn(run(api, Election::Lease(terms), published, leadership, stop)),
        }
    }

    async fn becomes(&mut self, wanted: Leadership) {
        let change = self.leadership.wait_for(|now| *now == wanted);
        time::timeout(Duration::from_secs(30), change).await.unwrap().unwrap();
    }

    async fn stop(self) {
        self.source.stop();
        self.task.await.unwrap();
    }
}

#[tokio::test]
async fn who_has_not_read_everything_leaves_the_lease_to_others() {
    let server = Server::new(None);
    let (publish, published) = watch::channel(None);
    let mut reading = Replica::start_once(&server, [2000, 1000, 100], published);
    tokio::task::yield_now().await;
    assert!(server.0.borrow().0.is_none(), "nobody has asked for it");
    let mut ready = Replica::start(&server);
    ready.becomes(Leadership::Leading).await;
    ready.stop().await;
    assert_eq!(*reading.leadership.borrow(), Leadership::Following);
    publish.send_replace(Some(Arc::default()));
    reading.becomes(Leadership::Leading).await;
    reading.stop().await;
}

#[tokio::test]
async fn one_leads_and_who_leaves_lets_the_next_one_in() {
    let server = Server::new(None);
    let mut first = Replica::start(&server);
    first.becomes(Leadership::Leading).await;
    let held = server.holder();
    let mut second = Replica::start(&server);
    let mut third = Replica::start(&server);
    first.stop().await;
    assert_ne!(server.holder(), held, "it is given up");
    tokio::select! {
        () = second.becomes(Leadership::Leading) => assert_eq!(*third.leadership.borrow(), Leadership::Following),
        () = third.becomes(Leadership::Leading) => assert_eq!(*second.leadership.borrow(), Leadership::Following),
    }
    second.stop().await;
    third.stop().await;
    assert_eq!(server.holder(), "");
}

#[tokio::test]
async fn a_leader_that_cannot_renew_steps_down_and_comes_back() {
    let server = Server::new(None);
    let mut replica = Replica::start(&server);
    replica.becomes(Leadership::Leading).await;
    server.0.send_modify(|(_, answers)| *answers = Answers::Never);
    replica.becomes(Leadership::Following).await;
    server.0.send_modify(|(_, answers)| *answers = Answers::Well);
    replica.becomes(Leadership::Leading).await;
    replica.stop().await;
}

/// Lines of the log of this thread, which the tasks of a test run on.
#[derive(Clone, Default)]
struct Log(Arc<watch::Sender<String>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .send_modify(|text| text.push_str(&String::from_utf8_lossy(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    async fn says(&self, words: &str) {
        let mut text = self.0.subscribe();
        let said = text.wait_for(|text| text.contains(words));
        time::timeout(Duration::from_secs(30), said).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn who_follows_says_as_well_that_the_lease_can_be_used_again() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // Held by somebody else for longer than the test takes.
    let server = Server::new(Some(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": LEADER, "namespace": "system", "resourceVersion": "7" },
        "spec": { "holderIdentity": "another", "leaseDurationSeconds": 600 },
    })));
    server.0.send_modify(|(_, answers)| *answers = Answers::Never);
    let replica = Replica::start(&server);
    log.says("no leader can be elected").await;
    server.0.send_modify(|(_, answers)| *answers = Answers::Well);
    log.says("the lease can be used again").await;
    assert_eq!(*replica.leadership.borrow(), Leadership::Following);
    replica.stop().await;
}

#[tokio::test]
async fn who_is_answered_late_leads_all_the_same() {
    // Asked, created, and asked again later: each of it a third of the time in which it must be renewed.
    let server = Server::new(None);
    server
        .0
        .send_modify(|(_, answers)| *answers = Answers::Late(Duration::from_millis(300)));
    let mut replica = Replica::start_with(&server, [1500, 1000, 200]);
    replica.becomes(Leadership::Leading).await;
    replica.leadership.mark_unchanged();
    let renewals = async {
        let mut states = server.0.subscribe();
        for _ in 0..5 {
            let before = states.borrow_and_update().0.clone();
            states.wait_for(|(lease, _)| *lease != before).await.unwrap();
        }
    };
    tokio::select! {
        () = renewals => {}
        changed = replica.leadership.changed() => panic!("it is lost: {changed:?}"),
    }
    replica.stop().await;
}

#[tokio::test]
async fn a_leader_steps_down_before_another_may_follow_however_seldom_it_tries() {
    let server = Server::new(None);
    let mut replica = Replica::start_with(&server, [90_500, 1000, 90_000]);
    replica.becomes(Leadership::Leading).await;
    let seconds = server.0.borrow().0.as_ref().unwrap()["spec"]["leaseDurationSeconds"].clone();
    assert_eq!(
        seconds, 91,
        "others must not see it run out earlier than the leader does"
    );
    server.0.send_modify(|(_, answers)| *answers = Answers::Never);
    replica.becomes(Leadership::Following).await;
    replica.stop().await;
}

#[tokio::test]
async fn clocks_of_others_do_not_matter() {
    // Renewed in the future, by somebody who is no more; and long ago, by somebody who still renews.
    for time in ["2100-01-01T00:00:00.000000Z", "2000-01-01T00:00:00.000000Z"] {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": LEADER, "namespace": "system", "resourceVersion": "7" },
            "spec": { "holderIdentity": "another", "leaseDurationSeconds": 1, "renewTime": time },
        });
        let server = Server::new(Some(lease));
        let begun = Instant::now();
        let mut replica = Replica::start(&server);
        replica.becomes(Leadership::Leading).await;
        assert!(
            begun.elapsed() >= Duration::from_secs(1),
            "it has watched the Lease for as long as it holds"
        );
        replica.stop().await;
    }
}
