//! What a writer remembers, and for how long.

use super::*;
use crate::{
    cluster::ReadKind,
    state::{Finalizers, ObservedStatus, Reports, Sight},
};
use edge_translate::{
    api::{CLASS_IN_USE, Kind, ParentReference},
    status::{ClassStatus, Condition, GatewayStatus, ListenerSetStatus, ParentStatus, Status, StatusBody},
};
use http::{Request, Response};
use kube::{Client, client::Body};
use serde_json::json;
use std::convert::Infallible;
use tokio::sync::mpsc;
use tower::service_fn;

/// A writer whose API server never answers, and what it hears from.
struct Rig {
    writer: Writer,
    mirror: Arc<Mirror>,
    ledger: Arc<Ledger>,
    metrics: Arc<Metrics>,
}

impl Rig {
    fn new() -> Self {
        let silent = service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
        let mut served = Served::default();
        for kind in [Kind::HttpRoute, Kind::GatewayClass, Kind::ListenerSet] {
            let resource = kube::core::ApiResource {
                group: kind.group().to_owned(),
                version: "v1".to_owned(),
                api_version: kind.api_version(),
                kind: kind.as_str().to_owned(),
                plural: format!("{}s", kind.as_str().to_lowercase()),
            };
            served.kinds.insert(ReadKind::Known(kind), resource);
        }
        let mirror = Arc::new(Mirror::default());
        let cluster = Cluster {
            api: Api::of(Client::new(silent, "default")),
            controller_name: "gateway.edge/us".into(),
            mirror: Arc::clone(&mirror),
            leadership: watch::channel(Leadership::Following).1,
            served: watch::channel(Some(Arc::new(served))).1,
        };
        let ledger = Arc::new(Ledger::default());
        let sources = Sources {
            ledger: Arc::clone(&ledger),
            requests: mpsc::channel(1).1,
            published: watch::channel(None).1,
            reports: watch::channel(None::<Reports>).1,
            rejections: watch::channel(Rejections::new()).1,
            deliveries: watch::channel(crate::state::Deliveries::new()).1,
            findings: watch::channel(Arc::default()).1,
        };
        let metrics = Arc::<Metrics>::default();
        let mut writer = Writer::new(cluster, &sources, Arc::clone(&metrics));
        writer.publish(Some(&Published::default()));
        Self {
            writer,
            mirror,
            ledger,
            metrics,
        }
    }

    /// A route of that name is there, without a status, and we have something to say about it.
    fn put(&self, name: &str) -> ObjectKey {
        let key = ObjectKey::new(Kind::HttpRoute, "ns", name);
        let parent: ParentReference = serde_json::from_value(json!({ "name": "gw" })).unwrap();
        let status = Status {
            observed_generation: 1,
            body: StatusBody::Parents {
                controller_name: "gateway.edge/us".into(),
                parents: vec![ParentStatus {
                    parent: Arc::new(parent),
                    conditions: vec![Condition::yes("Accepted", "Accepted", "Fine")],
                }],
            },
        };
        self.ledger.put(vec![(key.clone(), Some(Arc::new(status)))]);
        self.sight(&key, Some("1"));
        key
    }

    fn sight(&self, key: &ObjectKey, version: Option<&str>) {
        self.sight_with(key, version, None);
    }

    fn sight_with(&self, key: &ObjectKey, version: Option<&str>, status: Option<&Value>) {
        let seen = version.map(|version| ObservedStatus {
            version: version.into(),
            status: status.map(|status| status.to_string().into()),
            finalizers: None,
        });
        let key = key.clone();
        let malformed = None;
        self.mirror.put(vec![Sight { key, seen, malformed }]);
    }

    /// The status of an object, as the page has it.
    fn shown(&mut self, key: &ObjectKey) -> Value {
        let mut page = self.writer.document();
        let mut entries = page["resources"].as_array_mut().unwrap().iter_mut();
        let entry = entries.find(|entry| entry["name"] == key.own_name()).unwrap();
        entry["status"].take()
    }

    /// We have this to say of an object.
    fn say(&self, key: &ObjectKey, body: StatusBody) {
        let status = Status {
            observed_generation: 1,
            body,
        };
        self.ledger.put(vec![(key.clone(), Some(Arc::new(status)))]);
    }

    /// A class of ours with a Gateway is there, and nothing holds it.
    fn put_class(&self) -> ObjectKey {
        let key = ObjectKey::new(Kind::GatewayClass, "", "edge");
        let class = ClassStatus {
            conditions: vec![Condition::yes("Accepted", "Accepted", "Fine")],
            ..ClassStatus::default()
        };
        self.say(&key, StatusBody::Class(class));
        self.say_gateway();
        self.sight_class(&key, "1");
        key
    }

    /// A Gateway of the class.
    fn say_gateway(&self) {
        let key = ObjectKey::new(Kind::Gateway, "ns", "gw");
        let gateway = GatewayStatus {
            class: "edge".into(),
            ..GatewayStatus::default()
        };
        self.say(&key, StatusBody::Gateway(gateway));
    }

    fn sight_class(&self, key: &ObjectKey, version: &str) {
        self.sight_class_with(key, version, &[]);
    }

    fn sight_class_with(&self, key: &ObjectKey, version: &str, finalizers: &[&str]) {
        let seen = Some(carrying(key, version, None, finalizers));
        let (key, malformed) = (key.clone(), None);
        self.mirror.put(vec![Sight { key, seen, malformed }]);
    }

    /// Which part of an object would be written now, and what of it.
    fn needed(&self, key: &ObjectKey) -> Option<(Part, Value)> {
        let (.., needed) = self.writer.needed(key)?;
        Some((needed.part, needed.patch))
    }

    /// A write on top of a version ends, and what follows begins. Whether something about the object does.
    fn ends(&mut self, key: &ObjectKey, (base, part): (&str, Part), outcome: Outcome) -> bool {
        self.writer.end_write(Done {
            key: key.clone(),
            base: base.into(),
            begun: Instant::now(),
            part,
            outcome,
        });
        self.writer.start_writes();
        self.writer.writing.contains(key)
    }

    /// Lays together what is known, and begins what is to be written.
    fn turn(&mut self) {
        self.writer.refresh();
        self.writer.start_writes();
    }

    fn waiting(&self) -> String {
        let page = self.metrics.render();
        let series = "watchable_depth{message=\"statuses\"} ";
        let line = page.lines().find_map(|line| line.strip_prefix(series));
        line.unwrap().to_owned()
    }
}

/// An object as it is after a write.
fn carrying(key: &ObjectKey, version: &str, status: Option<&Value>, finalizers: &[&str]) -> ObservedStatus {
    let metadata = json!({ "finalizers": finalizers });
    ObservedStatus {
        version: version.into(),
        status: status.map(|status| status.to_string().into()),
        finalizers: Finalizers::of(key.kind, &serde_json::from_value(metadata).unwrap()),
    }
}

#[tokio::test]
async fn a_class_is_held_before_anything_is_said_of_it() {
    let mut rig = Rig::new();
    rig.writer.lead(Leadership::Leading);
    let key = rig.put_class();
    rig.turn();
    assert_eq!(rig.needed(&key).unwrap().0, Part::Metadata);
    let held = carrying(&key, "2", None, &[CLASS_IN_USE]);
    assert!(rig.ends(&key, ("1", Part::Metadata), Outcome::Written(held)));
    let (part, patch) = rig.needed(&key).unwrap();
    assert_eq!(part, Part::Status);
    let said = carrying(&key, "3", Some(&patch["status"]), &[CLASS_IN_USE]);
    assert!(!rig.ends(&key, ("2", Part::Status), Outcome::Written(said)));
    assert_eq!(rig.needed(&key), None);
}

#[tokio::test]
async fn what_is_said_of_a_class_waits_for_no_finalizer_that_cannot_be_written() {
    let failure = || Failure {
        class: "403 GatewayClass".to_owned(),
        reason: "forbidden".to_owned(),
    };
    let lost = |key: &ObjectKey| Outcome::Written(carrying(key, "1", None, &[]));
    let outcomes: [&dyn Fn(&ObjectKey) -> Outcome; 3] = [
        &|_| Outcome::Refused("no such finalizer".to_owned()),
        &|_| Outcome::Failed(failure()),
        // Somebody's webhook takes it off again.
        &lost,
    ];
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let mut rig = Rig::new();
        rig.writer.lead(Leadership::Leading);
        let key = rig.put_class();
        rig.turn();
        assert!(rig.ends(&key, ("1", Part::Metadata), outcome(&key)), "{n}");
        let (part, patch) = rig.needed(&key).unwrap();
        assert_eq!(part, Part::Status, "{n}");
        let said = carrying(&key, "2", Some(&patch["status"]), &[]);
        assert!(
            !rig.ends(&key, ("1", Part::Status), Outcome::Written(said)),
            "not for ever"
        );
        assert_eq!(rig.writer.failures.due().is_some(), n != 2, "it is tried again later");
        assert_eq!(rig.writer.refused.len(), usize::from(n != 1));
        rig.sight_class(&key, "3");
        rig.turn();
        assert_eq!(rig.needed(&key).unwrap().0, Part::Metadata, "something has changed");
    }
}

/// Its last Gateway goes and comes again while the finalizer is being taken off.
#[tokio::test]
async fn a_class_that_is_used_again_is_held_again_whatever_became_of_the_write_before() {
    let let_go = |key: &ObjectKey| Outcome::Written(carrying(key, "2", None, &[]));
    let outcomes: [&dyn Fn(&ObjectKey) -> Outcome; 2] = [&let_go, &|_| Outcome::Refused("no".to_owned())];
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let mut rig = Rig::new();
        rig.writer.lead(Leadership::Leading);
        let key = rig.put_class();
        rig.sight_class_with(&key, "1", &[CLASS_IN_USE]);
        let gateway = ObjectKey::new(Kind::Gateway, "ns", "gw");
        rig.ledger.put(vec![(gateway, None)]);
        rig.turn();
        let (part, patch) = rig.needed(&key).unwrap();
        assert_eq!((part, &patch["metadata"]["finalizers"]), (Part::Metadata, &json!([])));
        rig.say_gateway();
        if n == 1 {
            // Somebody else has taken it off.
            rig.sight_class(&key, "2");
        }
        rig.turn();
        assert!(rig.ends(&key, ("1", Part::Metadata), outcome(&key)), "{n}");
        let (part, patch) = rig.needed(&key).unwrap();
        assert_eq!(
            (part, &patch["metadata"]["finalizers"]),
            (Part::Metadata, &json!([CLASS_IN_USE])),
            "{n}"
        );
        assert_eq!(rig.writer.refused.len(), n, "only what was refused is told");
    }
}

/// An earlier write is on its way when what a ListenerSet belongs to goes.
#[tokio::test]
async fn what_is_to_be_said_once_is_not_said_by_what_was_written_before() {
    let mut rig = Rig::new();
    rig.writer.lead(Leadership::Leading);
    let key = ObjectKey::new(Kind::ListenerSet, "ns", "set");
    let set = ListenerSetStatus {
        conditions: vec![Condition::yes("Accepted", "Accepted", "Fine")],
        listeners: Vec::new(),
    };
    rig.say(&key, StatusBody::ListenerSet(set));
    rig.sight(&key, Some("1"));
    rig.turn();
    let (_, before) = rig.needed(&key).unwrap();
    rig.say(&key, StatusBody::Unattached(vec!["there is no Gateway gw".to_owned()]));
    rig.turn();
    let written = carrying(&key, "2", Some(&before["status"]), &[]);
    assert!(rig.ends(&key, ("1", Part::Status), Outcome::Written(written)));
    let (_, patch) = rig.needed(&key).unwrap();
    assert_eq!(patch["status"]["conditions"][0]["status"], "False", "{patch}");
    let written = carrying(&key, "3", Some(&patch["status"]), &[]);
    assert!(!rig.ends(&key, ("2", Part::Status), Outcome::Written(written)));
    let left = rig.writer.effective(&key).unwrap().status.body;
    assert!(matches!(left, StatusBody::Unattached(_)), "once: {left:?}");
}

#[tokio::test]
async fn who_follows_remembers_nothing_to_write_and_who_begins_to_lead_looks_at_everything() {
    let mut rig = Rig::new();
    rig.put("a");
    rig.put("b");
    rig.turn();
    assert_eq!(rig.waiting(), "0", "another replica writes");
    rig.writer.lead(Leadership::Leading);
    rig.turn();
    assert_eq!(rig.writer.writing.len(), 2);
    rig.put("c");
    rig.writer.lead(Leadership::Following);
    rig.turn();
    assert_eq!((rig.waiting().as_str(), rig.writer.writing.len()), ("0", 0));
}

#[tokio::test]
async fn nothing_is_taken_away_before_everything_is_known() {
    let mut rig = Rig::new();
    rig.writer.is_published = false;
    rig.writer.lead(Leadership::Leading);
    let key = ObjectKey::new(Kind::HttpRoute, "ns", "a");
    let ours = json!({ "parents": [{ "parentRef": { "name": "gw" }, "controllerName": "gateway.edge/us" }] });
    rig.sight_with(&key, Some("1"), Some(&ours));
    rig.turn();
    rig.put("b");
    rig.writer.publish(Some(&Published::default()));
    rig.writer.start_writes();
    assert!(rig.writer.writing.is_empty(), "what the ledger holds hasn't been read");
    rig.turn();
    assert_eq!(rig.writer.writing.len(), 2);
}

#[tokio::test]
async fn what_is_known_of_a_refused_status_goes_with_its_object() {
    let mut rig = Rig::new();
    rig.writer.lead(Leadership::Leading);
    let (refused, failed) = (rig.put("a"), rig.put("b"));
    rig.turn();
    let done = |key: &ObjectKey, outcome| Done {
        key: key.clone(),
        base: "1".into(),
        begun: Instant::now(),
        part: Part::Status,
        outcome,
    };
    rig.writer
        .end_write(done(&refused, Outcome::Refused("too odd".to_owned())));
    let failure = Failure {
        class: "403 HTTPRoute".to_owned(),
        reason: "forbidden".to_owned(),
    };
    rig.writer.end_write(done(&failed, Outcome::Failed(failure)));
    assert!(rig.writer.refused.contains_key(&(refused.clone(), Part::Status)) && rig.writer.failures.due().is_some());
    rig.sight(&refused, None);
    rig.sight(&failed, None);
    rig.turn();
    assert!(rig.writer.refused.is_empty() && rig.writer.failures.due().is_none());
}

#[tokio::test]
async fn what_admission_denies_is_tried_again_soon_and_what_is_wrong_after_a_while() {
    let mut rig = Rig::new();
    rig.writer.lead(Leadership::Leading);
    let key = rig.put("a");
    rig.turn();
    let served = rig.writer.cluster.served.borrow().clone().unwrap();
    let resource = served.resource_of(&key).unwrap().clone();
    let freeze = "ValidatingAdmissionPolicy 'freeze' with binding 'all' denied request: change freeze";
    for (message, seconds) in [("status.parents: Too many", 60..72), (freeze, 2..3)] {
        let answer = move |_: Request<Body>| async move {
            let status =
                json!({ "kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid", "message": message });
            let mut response = Response::new(Body::from(status.to_string().into_bytes()));
            *response.status_mut() = http::StatusCode::UNPROCESSABLE_ENTITY;
            Ok::<_, Infallible>(response)
        };
        let objects = Objects::namespaced_with(Client::new(service_fn(answer), "default"), "ns", &resource);
        let (_, base, needed) = rig.writer.needed(&key).unwrap();
        rig.writer
            .end_write(attempt::write(objects, key.clone(), base, needed).await);
        let pause = rig.writer.failures.due().unwrap() - Instant::now();
        assert!(
            seconds.contains(&pause.as_secs()) || pause.as_secs() + 1 == seconds.start,
            "{message}: {pause:?}"
        );
    }
    let due = rig.writer.failures.due().unwrap();
    assert_eq!(rig.writer.failures.take_due(due), [key].into());
}

#[tokio::test]
async fn a_status_that_is_refused_as_stale_again_and_again_waits_and_is_told() {
    let mut rig = Rig::new();
    rig.writer.lead(Leadership::Leading);
    let key = rig.put("a");
    rig.turn();
    let stale = |key: &ObjectKey| Outcome::Stale(carrying(key, "1", None, &[]));
    for _ in 0..CONFLICTS {
        assert!(
            rig.ends(&key, ("1", Part::Status), stale(&key)),
            "it is written again at once"
        );
    }
    assert!(!rig.ends(&key, ("1", Part::Status), stale(&key)));
    let pause = rig.writer.failures.due().unwrap() - Instant::now();
    assert!(pause > Duration::from_secs(1), "{pause:?}");
    // The next waits for longer, and what was written ends it.
    rig.writer.queue.insert(key.clone());
    rig.writer.start_writes();
    assert!(!rig.ends(&key, ("1", Part::Status), stale(&key)));
    rig.writer.queue.insert(key.clone());
    rig.writer.start_writes();
    let (_, patch) = rig.needed(&key).unwrap();
    rig.ends(
        &key,
        ("1", Part::Status),
        Outcome::Written(carrying(&key, "2", Some(&patch["status"]), &[])),
    );
    assert_eq!(rig.writer.failures.due(), None);
    assert!(rig.writer.conflicts.is_empty());
}

#[tokio::test]
async fn an_object_is_gone_when_it_is_not_found_and_not_when_its_status_is_not() {
    let mut rig = Rig::new();
    rig.writer.lead(Leadership::Leading);
    let key = rig.put("a");
    rig.turn();
    let resource = rig
        .writer
        .cluster
        .served
        .borrow()
        .clone()
        .unwrap()
        .resource_of(&key)
        .unwrap()
        .clone();
    for (is_there, wanted) in [(true, "failed"), (false, "gone")] {
        let answer = move |request: Request<Body>| async move {
            let (code, body) = match request.method() == http::Method::GET && is_there {
                true => (200, json!({ "metadata": { "name": "a", "namespace": "ns" } })),
                false => (
                    404,
                    json!({ "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "x" }),
                ),
            };
            let mut response = Response::new(Body::from(body.to_string().into_bytes()));
            *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
            Ok::<_, Infallible>(response)
        };
        let client = Client::new(service_fn(answer), "default");
        let objects = Objects::namespaced_with(client, "ns", &resource);
        let (_, base, needed) = rig.writer.needed(&key).unwrap();
        let how = match attempt::write(objects, key.clone(), base, needed).await.outcome {
            Outcome::Gone => "gone",
            Outcome::Failed(_) => "failed",
            _ => "otherwise",
        };
        assert_eq!(how, wanted);
    }
}

#[tokio::test]
async fn the_page_tells_when_a_condition_turned() {
    let mut rig = Rig::new();
    let key = rig.put("r");
    let mut carried = rig.shown(&key);
    carried["parents"][0]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:00:00Z".into();
    rig.sight_with(&key, Some("2"), Some(&carried));
    assert_eq!(rig.shown(&key), carried);
}
