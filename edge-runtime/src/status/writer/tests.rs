//! What a writer remembers, and for how long.

use super::*;
use crate::state::{Reports, Sight};
use edge_translate::{
    api::{Kind, ParentReference},
    status::{Condition, ParentStatus, Status, StatusBody},
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
        let resource = kube::core::ApiResource {
            group: Kind::HttpRoute.group().to_owned(),
            version: "v1".to_owned(),
            api_version: Kind::HttpRoute.api_version(),
            kind: "HTTPRoute".to_owned(),
            plural: "httproutes".to_owned(),
        };
        served
            .kinds
            .insert(crate::cluster::ReadKind::Known(Kind::HttpRoute), resource);
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
            questions: mpsc::channel(1).1,
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
        let seen = version.map(|version| Seen {
            version: version.into(),
            status: status.map(|status| status.to_string().into()),
            finalizers: None,
        });
        let key = key.clone();
        let malformed = None;
        self.mirror.put(vec![Sight { key, seen, malformed }]);
    }

    /// Lays together what is known, and begins what is to be written.
    fn turn(&mut self) {
        self.writer.refresh();
        self.writer.write();
    }

    fn waiting(&self) -> String {
        let page = self.metrics.render();
        let series = "watchable_depth{message=\"statuses\"} ";
        let line = page.lines().find_map(|line| line.strip_prefix(series));
        line.unwrap().to_owned()
    }
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
    rig.writer.write();
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
    rig.writer.done(done(&refused, Outcome::Refused("too odd".to_owned())));
    let failure = Failure {
        class: "403 HTTPRoute".to_owned(),
        reason: "forbidden".to_owned(),
    };
    rig.writer.done(done(&failed, Outcome::Failed(failure)));
    assert!(rig.writer.refused.contains_key(&refused) && rig.writer.failures.due().is_some());
    rig.sight(&refused, None);
    rig.sight(&failed, None);
    rig.turn();
    assert!(rig.writer.refused.is_empty() && rig.writer.failures.due().is_none());
}
