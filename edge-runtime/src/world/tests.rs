//! What is published when, from real objects.

use super::*;
use crate::state::{Batch, Refuser};
use edge_translate::{
    Change, Question,
    load::{Limits, Source, load},
};
use edge_xds::{
    hooks::{Answer, Cause, Outcome, Problem, Question as Asked},
    snapshot::ResourceType,
};

const FILES: ProviderName = ProviderName("file");
const OTHERS: ProviderName = ProviderName("others");

const GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: edge }
spec: { controllerName: gateway.edge/gatewayclass-controller }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: gw, namespace: ns }
spec:
  gatewayClassName: edge
  infrastructure: { parametersRef: { group: gateway.edge, kind: EdgeProxy, name: missing } }
  listeners: [{ name: http, protocol: HTTP, port: 80 }]
";

/// A running world.
struct Rig {
    inputs: mpsc::Sender<Input>,
    published: watch::Receiver<Option<Arc<Published>>>,
    metrics: Arc<Metrics>,
    ledger: Arc<Ledger>,
    asked: watch::Receiver<Extensions>,
    fetches: watch::Receiver<FetchNumbers>,
    rejections: Arc<watch::Sender<Rejections>>,
    task: tokio::task::JoinHandle<()>,
}

impl Rig {
    fn start(providers: &[ProviderName], pace: Pace) -> Self {
        Self::start_with(Settings::default(), providers, pace)
    }

    fn start_with(settings: Settings, providers: &[ProviderName], pace: Pace) -> Self {
        let (asking, asked) = watch::channel(Extensions::default());
        let (asking_fetches, fetches) = watch::channel(FetchNumbers::default());
        let rejections = Arc::<watch::Sender<Rejections>>::default();
        let (inputs, receiver) = mpsc::channel(QUEUE);
        let (published_sender, published) = watch::channel(None);
        let ledger = Arc::new(Ledger::default());
        let metrics = Arc::new(Metrics::default());
        let outputs = Outputs {
            published: published_sender,
            ledger: Arc::clone(&ledger),
            fetches: asking_fetches,
            extensions: asking,
            rejections: Arc::clone(&rejections),
            metrics: Arc::clone(&metrics),
        };
        let terms = WorldConfig {
            settings,
            providers: providers.iter().copied().collect(),
            pace,
        };
        Self {
            inputs,
            published,
            metrics,
            ledger,
            asked,
            fetches,
            rejections,
            task: tokio::task::spawn_blocking(move || run(terms, receiver, outputs)),
        }
    }

    async fn send(&self, yaml: &str) {
        let source = Source {
            name: "test",
            text: yaml,
        };
        let loaded = load(&source, &Limits::default());
        assert!(loaded.findings.is_empty(), "{:?}", loaded.findings);
        let changes = loaded.objects.into_iter().map(|found| Change::Put(found.object));
        let batch = Batch {
            changes: changes.collect(),
            places: Vec::new(),
            since: Instant::now(),
        };
        self.inputs.send(Input::Batch(batch)).await.unwrap();
    }

    async fn synced(&self, provider: ProviderName) {
        self.inputs
            .send(Input::Synced(provider, Coverage::Whole))
            .await
            .unwrap();
    }

    /// Waits until the world has taken so many batches.
    async fn taken(&self, n: u64) {
        while self.metrics.counted(Counter::ChangeBatches) < n {
            tokio::task::yield_now().await;
        }
    }

    /// Lets the world come to its end; gives what was published last.
    async fn end(self) -> (Option<Arc<Published>>, u64) {
        drop(self.inputs);
        self.task.await.unwrap();
        let last = self.published.borrow().clone();
        (last, self.metrics.counted(Counter::Publications))
    }
}

#[tokio::test]
async fn nothing_is_published_before_every_provider_has_told_everything() {
    let rig = Rig::start(&[FILES, OTHERS], Pace::default());
    rig.send(GATEWAY).await;
    rig.synced(OTHERS).await;
    let (published, n) = rig.end().await;
    assert!(published.is_none());
    assert_eq!(n, 0);

    let mut rig = Rig::start(&[FILES, OTHERS], Pace::default());
    rig.send(GATEWAY).await;
    rig.synced(OTHERS).await;
    rig.synced(FILES).await;
    rig.published.changed().await.unwrap();
    let (published, _) = rig.end().await;
    assert_eq!(published.unwrap().fleets.len(), 1);
}

#[tokio::test]
async fn what_could_not_be_read_is_known_to_those_who_miss_something() {
    let mut rig = Rig::start(&[FILES, OTHERS], Pace::default());
    let partial = Input::Synced(FILES, Coverage::Partial);
    rig.inputs.send(partial).await.unwrap();
    rig.synced(OTHERS).await;
    rig.published.changed().await.unwrap();
    let coverage = |published: &watch::Receiver<Option<Arc<Published>>>| published.borrow().as_ref().unwrap().coverage;
    assert_eq!(coverage(&rig.published), Coverage::Partial);
    rig.synced(FILES).await;
    rig.published.changed().await.unwrap();
    assert_eq!(coverage(&rig.published), Coverage::Whole);
    rig.end().await;
}

#[tokio::test]
async fn a_fleet_whose_parameters_cannot_be_used_is_served_and_its_infrastructure_left_alone() {
    let rig = Rig::start(&[FILES], Pace::default());
    rig.send(GATEWAY).await;
    rig.synced(FILES).await;
    let (published, _) = rig.end().await;
    let published = published.unwrap();
    let fleet = &published.fleets["ns/gw"];
    assert_eq!(fleet.infra, None);
    assert_eq!(fleet.last_infra, None, "nothing is known of it yet");
    assert_eq!(fleet.home, Settings::default().home(&"ns/gw".into()), "but where it is");
    assert!(!fleet.snapshot.section(ResourceType::Listener).entries().is_empty());
}

#[tokio::test]
async fn what_a_fleet_was_last_is_known_while_its_parameters_cannot_be_used() {
    let mut rig = Rig::start(&[FILES], Pace::default());
    let plain = GATEWAY.lines().filter(|line| !line.contains("parametersRef"));
    rig.send(&plain.collect::<Vec<_>>().join("\n")).await;
    rig.synced(FILES).await;
    rig.published.changed().await.unwrap();
    rig.send(GATEWAY).await;
    let (published, _) = rig.end().await;
    let published = published.unwrap();
    let fleet = &published.fleets["ns/gw"];
    assert_eq!(fleet.infra, None);
    assert!(fleet.last_infra.is_some(), "its proxies still have their account");
}

#[tokio::test]
async fn changes_that_follow_each_other_are_one_publication() {
    let hour = Duration::from_secs(3600);
    let pace = Pace {
        quiet: hour,
        longest: hour,
        fetches: Duration::ZERO,
    };
    let rig = Rig::start(&[], pace);
    rig.send(GATEWAY).await;
    rig.taken(1).await;
    rig.send("apiVersion: v1\nkind: Namespace\nmetadata: { name: ns }\n")
        .await;
    let (published, n) = rig.end().await;
    assert_eq!(n, 1);
    assert_eq!(published.unwrap().fleets.len(), 1);
}

#[tokio::test]
async fn nobody_waits_for_a_writer_of_statuses_and_the_latest_wins() {
    let rig = Rig::start(&[], Pace::default());
    // Far more translations than any queue holds, and nobody takes a status.
    for i in 0..200 {
        rig.send(&GATEWAY.replace("port: 80", &format!("port: {}", 8000 + i)))
            .await;
        rig.taken(i + 1).await;
    }
    let ledger = Arc::clone(&rig.ledger);
    rig.end().await;
    let mut kinds: Vec<_> = ledger.take().into_iter().map(|(key, _)| key.kind.as_str()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["Gateway", "GatewayClass"], "each object once");
    assert_eq!(ledger.take(), []);
    ledger.begin();
    assert_eq!(ledger.take().len(), 2, "a writer that begins is told everything");
}

#[tokio::test]
async fn nothing_is_published_before_extension_services_have_answered() {
    let text = "apiVersion: gateway.edge/v1alpha1\nkind: EdgeGateway\nextensionManager: { service: { host: x }, hooks: { \
                xdsTranslator: { post: [HTTPListener] } } }";
    let config = edge_translate::config::parse(&Source { name: "test", text }).unwrap();
    let mut rig = Rig::start_with(Settings::of(&config, None), &[FILES], Pace::default());
    rig.send(GATEWAY).await;
    rig.synced(FILES).await;
    let answer = async |rig: &mut Rig, how: fn(&Asked) -> Outcome| {
        let asked = rig
            .asked
            .wait_for(|asked| !asked.questions.is_empty())
            .await
            .unwrap()
            .clone();
        let answers = asked
            .questions
            .iter()
            .map(|(key, asked)| (*key, asked.number, how(&asked.question)));
        rig.inputs.send(Input::Answers(answers.collect())).await.unwrap();
    };
    // A service that is out of reach has said nothing.
    answer(&mut rig, |_| failed(Cause::Unreachable)).await;
    rig.send(GATEWAY).await;
    rig.taken(2).await;
    assert!(rig.published.borrow().is_none());
    answer(&mut rig, |question| match question {
        Asked::One { resource, .. } => Outcome {
            answer: Some(Answer::One(resource.clone())),
            problem: None,
        },
        Asked::All { .. } => panic!("nobody asked that"),
    })
    .await;
    rig.published.changed().await.unwrap();
    let listeners = |published: &Option<Arc<Published>>| {
        let fleets = published.as_ref().unwrap().fleets.clone();
        let snapshot = Arc::clone(&fleets.values().next().unwrap().snapshot);
        let entries = snapshot.section(ResourceType::Listener).entries().iter();
        entries.map(|entry| entry.name.to_string()).collect::<Vec<_>>()
    };
    assert!(listeners(&rig.published.borrow()).contains(&"tcp-80".to_owned()));
    assert!(rig.rejections.borrow().is_empty());

    // From now on what it fails over is kept back alone.
    rig.send(&GATEWAY.replace("port: 80 }]", "port: 80 }, { name: more, protocol: HTTP, port: 81 }]"))
        .await;
    answer(&mut rig, |_| failed(Cause::Unreachable)).await;
    rig.published
        .wait_for(|published| listeners(published).len() >= 2)
        .await
        .unwrap();
    let mut rejections = rig.rejections.subscribe();
    let rejections = rejections
        .wait_for(|rejections| !rejections.is_empty())
        .await
        .unwrap()
        .clone();
    assert_eq!(rejections.values().next().unwrap().by, Refuser::Extension);
    assert!(!listeners(&rig.published.borrow()).contains(&"tcp-81".to_owned()));
}

fn failed(cause: Cause) -> Outcome {
    let text = "the extension service x says no".into();
    Outcome {
        answer: None,
        problem: Some(Problem { text, cause }),
    }
}

/// A route whose clients log in at a provider that says where.
const LOGIN: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: edge }
spec: { controllerName: gateway.edge/gatewayclass-controller }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: gw, namespace: ns }
spec: { gatewayClassName: edge, listeners: [{ name: http, protocol: HTTP, port: 80 }] }
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: r, namespace: ns }
spec: { parentRefs: [{ name: gw }] }
---
apiVersion: gateway.edge/v1alpha1
kind: SecurityPolicy
metadata: { name: login, namespace: ns }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: r }]
  oidc: { provider: { issuer: 'https://idp.example' }, clientID: c, clientSecret: { name: s } }
";

fn patient(fetches: Duration) -> Pace {
    Pace {
        fetches,
        ..Pace::default()
    }
}

#[tokio::test]
async fn what_has_to_be_fetched_is_waited_for_before_the_first_publication() {
    let mut rig = Rig::start(&[FILES], patient(Duration::from_secs(3600)));
    rig.send(LOGIN).await;
    rig.synced(FILES).await;
    let asked = rig.fetches.wait_for(|asked| !asked.is_empty()).await.unwrap().clone();
    // Something else is read meanwhile.
    rig.send("apiVersion: v1\nkind: Namespace\nmetadata: { name: ns }\n")
        .await;
    rig.taken(2).await;
    assert!(rig.published.borrow().is_none());
    let Some(Question::Document(url)) = asked.into_keys().next() else {
        panic!("no document is asked for");
    };
    let failed = Fact::Document(url, edge_translate::Fetched::Failed("status code: 503".into()));
    rig.inputs.send(Input::Facts(vec![failed])).await.unwrap();
    rig.published.changed().await.unwrap();
    let (published, n) = rig.end().await;
    assert_eq!((published.unwrap().fleets.len(), n), (1, 1));
}

#[tokio::test]
async fn what_is_never_fetched_is_not_waited_for_for_ever() {
    let mut rig = Rig::start(&[FILES], patient(Duration::from_millis(20)));
    rig.send(LOGIN).await;
    rig.synced(FILES).await;
    rig.published.changed().await.unwrap();
    assert_eq!(rig.fetches.borrow().len(), 1);
    let (published, _) = rig.end().await;
    assert_eq!(published.unwrap().fleets.len(), 1);
}
