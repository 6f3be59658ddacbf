//! The document, from what its parts know.

use super::*;
use crate::state::{
    Address, AskedAddresses, Availability, Connection, Coverage, Delivery, FleetState, KeptFrom, Malformed, Refuser,
    Rejection, RejectionKey, Report, sample::infra,
};
use crate::task::{StopSource, Task};
use edge_ir::{FleetKey, Infra, Origin, ProxySettings};
use edge_translate::{
    api::{Kind, ObjectKey},
    load::{LoadFinding, Severity},
    status::{Condition, GatewayStatus, ListenerSetStatus, ListenerStatus, ParentStatus, Status, StatusBody},
};
use edge_xds::snapshot::{Body, Entry, ResourceType, Section, Snapshot};
use serde_json::json;
use tokio::sync::{oneshot, watch};

fn gateway() -> (ObjectKey, Option<Arc<Status>>) {
    let listener = ListenerStatus {
        name: "http".into(),
        supported_kinds: vec!["HTTPRoute".into()],
        attached_routes: 1,
        conditions: vec![Condition::yes("Programmed", "Programmed", "Sent")],
    };
    let status = GatewayStatus {
        conditions: vec![Condition::yes("Accepted", "Accepted", "Scheduled")],
        listeners: vec![listener],
        attached_listener_sets: 0,
        class: Arc::default(),
        asked: Vec::new(),
    };
    let status = Status {
        observed_generation: 3,
        body: StatusBody::Gateway(status),
    };
    (ObjectKey::new(Kind::Gateway, "ns", "gw"), Some(Arc::new(status)))
}

fn origin(section: Option<&str>) -> Origin {
    Origin {
        kind: "Gateway".into(),
        namespace: "ns".into(),
        name: "gw".into(),
        section: section.map(Into::into),
        annotations: [].into(),
    }
}

fn published() -> Published {
    let infra = Infra {
        origins: [origin(None)].into(),
        ..infra("ns/gw", ProxySettings::default())
    };
    let state = FleetState {
        snapshot: Arc::default(),
        infra: Some(Arc::new(infra)),
        last_infra: None,
        home: None,
        alternatives: Vec::new(),
    };
    Published {
        fleets: [("ns/gw".into(), state)].into(),
        coverage: Coverage::Whole,
        ..Published::default()
    }
}

fn report(availability: Availability) -> Option<Reports> {
    let report = Report {
        availability,
        replicas: 1,
        stuck: None,
        addresses: vec![Address::Ip([127, 0, 0, 1].into())],
        asked: AskedAddresses::default(),
    };
    Some([("ns/gw".into(), report)].into())
}

fn rejections() -> Rejections {
    let key = RejectionKey {
        from: KeptFrom::Stream(0),
        kind: ResourceType::Listener,
        name: "tcp-80".into(),
    };
    let origins = [origin(Some("http"))].into();
    let rejection = Rejection {
        fleet: "ns/gw".into(),
        by: Refuser::DataPlane,
        reason: "address in use".into(),
        origins,
    };
    [(key, rejection)].into()
}

/// A book and the document that is made of it.
struct Desk {
    book: Book,
    document: Document,
}

impl Desk {
    fn new(earlier: Option<Value>) -> Self {
        Self {
            book: Book::default(),
            document: Document::new(earlier),
        }
    }

    fn refresh(&mut self, now: &str) {
        for key in self.book.take_stale() {
            let effective = self.book.effective(&key);
            self.document.set(key, effective.as_ref(), now);
        }
    }

    fn document(&self) -> Value {
        self.document.value()
    }
}

/// `type=status/reason` of conditions, with the time they turned.
fn conditions(value: &Value) -> Vec<String> {
    let text = |c: &Value, field: &str| c[field].as_str().unwrap_or_default().to_owned();
    let one = |c: &Value| {
        format!(
            "{}={}/{} {}",
            text(c, "type"),
            text(c, "status"),
            text(c, "reason"),
            text(c, "lastTransitionTime")
        )
    };
    value.as_array().unwrap().iter().map(one).collect()
}

#[test]
fn a_gateway_is_programmed_when_its_proxy_is_ready() {
    let mut book = Desk::new(None);
    book.book.set_statuses(vec![gateway()]);
    book.refresh("t0");
    let status = |book: &Desk| book.document()["resources"][0]["status"].clone();
    assert_eq!(
        conditions(&status(&book)["conditions"]),
        ["Accepted=True/Accepted t0"],
        "nobody looks after proxies"
    );
    book.book.set_fleets(Some(&published()));
    book.book.set_reports(report(Availability::Starting));
    book.refresh("t1");
    let seen = conditions(&status(&book)["conditions"]);
    assert_eq!(seen, ["Accepted=True/Accepted t0", "Programmed=False/NoResources t1"]);
    book.book.set_reports(report(Availability::Available(1)));
    book.refresh("t2");
    let ready = status(&book);
    assert_eq!(conditions(&ready["conditions"])[1], "Programmed=True/Programmed t2");
    assert_eq!(
        ready["conditions"][1]["message"],
        "Address assigned to the Gateway, 1/1 proxy replicas available"
    );
    assert_eq!(ready["addresses"][0]["value"], "127.0.0.1");
    let mut stuck = report(Availability::Available(1)).unwrap();
    stuck
        .values_mut()
        .for_each(|report| report.stuck = Some("exceeded quota".into()));
    book.book.set_reports(Some(stuck));
    book.refresh("t2");
    assert_eq!(
        status(&book)["conditions"][1]["message"],
        "Address assigned to the Gateway, 1/1 proxy replicas available; they can't be replaced by such as are wanted \
         now: exceeded quota"
    );
    book.book
        .set_reports(report(Availability::Unavailable("it crashed".into())));
    book.refresh("t3");
    assert_eq!(
        status(&book)["conditions"][1]["message"],
        "Proxy replicas unavailable: it crashed"
    );
}

#[test]
fn addresses_are_told_by_type_and_a_gateway_without_one_is_not_programmed() {
    let mut book = Desk::new(None);
    book.book.set_statuses(vec![gateway()]);
    book.book.set_fleets(Some(&published()));
    let status = |book: &Desk| book.document()["resources"][0]["status"].clone();
    let mut reports = report(Availability::Available(2)).unwrap();
    reports.values_mut().for_each(|report| report.addresses.clear());
    book.book.set_reports(Some(reports.clone()));
    book.refresh("t0");
    let seen = status(&book);
    assert_eq!(
        conditions(&seen["conditions"])[1],
        "Programmed=False/AddressNotAssigned t0"
    );
    assert_eq!(seen["addresses"], serde_json::json!([]));
    let addresses = [
        Address::Hostname("lb.example".into()),
        Address::Ip("::1".parse().unwrap()),
    ];
    reports
        .values_mut()
        .for_each(|report| report.addresses = addresses.to_vec());
    book.book.set_reports(Some(reports));
    book.refresh("t1");
    let seen = status(&book);
    assert_eq!(conditions(&seen["conditions"])[1], "Programmed=True/Programmed t1");
    let expected =
        [("Hostname", "lb.example"), ("IPAddress", "::1")].map(|(t, v)| serde_json::json!({ "type": t, "value": v }));
    assert_eq!(seen["addresses"], serde_json::Value::from(expected.to_vec()));
}

#[test]
fn of_a_fleet_that_nobody_has_looked_at_nothing_is_said() {
    let mut book = Book::default();
    book.set_statuses(vec![gateway()]);
    book.set_reports(Some(Reports::new()));
    let says = |book: &Book| {
        let effective = book.effective(&gateway().0).unwrap();
        let value = edge_translate::status::merge(None, &effective.status, None);
        let conditions = value["conditions"].as_array().unwrap();
        let programmed = conditions.iter().find(|condition| condition["type"] == "Programmed");
        let reason = programmed.map(|condition| condition["reason"].as_str().unwrap().to_owned());
        (reason, effective.addresses)
    };
    assert_eq!(
        says(&book),
        (Some("NoResources".to_owned()), Some(json!([]))),
        "no fleet"
    );
    book.set_fleets(Some(&published()));
    assert_eq!(says(&book), (None, None));
    book.set_reports(report(Availability::Available(1)));
    assert_eq!(says(&book).0.as_deref(), Some("Programmed"));
    // Another leads, or this one anew.
    book.set_reports(Some(Reports::new()));
    assert_eq!(says(&book), (None, None));
}

#[test]
fn only_gateways_whose_fleet_differs_are_looked_at_again() {
    let mut book = Book::default();
    let (_, status) = gateway();
    let other = ObjectKey::new(Kind::Gateway, "ns", "other");
    book.set_statuses(vec![gateway(), (other.clone(), status)]);
    let mut both = published();
    let mut second = both.fleets["ns/gw"].clone();
    let mut infra = Infra::clone(second.infra.as_ref().unwrap());
    let origin = Origin {
        name: "other".into(),
        ..origin(None)
    };
    infra.origins = [origin].into();
    second.infra = Some(Arc::new(infra));
    both.fleets.insert("ns/other".into(), second);
    book.set_reports(Some(Reports::new()));
    book.set_fleets(Some(&both));
    assert_eq!(book.take_stale().len(), 3, "both, and their class");
    book.set_fleets(Some(&both));
    assert_eq!(book.take_stale().len(), 0);
    book.set_reports(report(Availability::Starting));
    assert_eq!(book.take_stale(), [gateway().0].into());
    book.set_fleets(Some(&published()));
    assert_eq!(book.take_stale(), [other].into());
}

#[test]
fn addresses_that_are_not_given_are_said_before_what_follows_from_them() {
    let told = |asked: &[&str], change: &dyn Fn(&mut Report)| {
        let mut reports = report(Availability::Available(2)).unwrap();
        reports.values_mut().for_each(change);
        let mut status = Status::clone(&gateway().1.unwrap());
        if let StatusBody::Gateway(gateway) = &mut status.body {
            gateway.asked = asked.iter().map(|asked| Arc::from(*asked)).collect();
        }
        let addresses = overlay::add_infrastructure(&mut status, reports.values().next());
        let value = edge_translate::status::merge(None, &status, None);
        let programmed = value["conditions"][1].clone();
        let text = |field: &str| programmed[field].as_str().unwrap().to_owned();
        (text("status"), text("reason"), text("message"), addresses)
    };
    let missing = |report: &mut Report| {
        report.asked.missing = [("192.0.2.9".into(), "192.0.2.9".into())].into();
    };
    let (status, because, message, addresses) = told(&["192.0.2.9"], &|report| {
        missing(report);
        report.availability = Availability::Starting;
    });
    assert_eq!((&*status, &*because), ("False", "AddressNotUsable"));
    assert_eq!(message, "One or more Gateway addresses cannot be used: 192.0.2.9");
    assert_eq!(addresses[0]["value"], "127.0.0.1");
    let (_, because, ..) = told(&["192.0.2.9"], &|report| {
        missing(report);
        report.availability = Availability::Failed("no".into());
    });
    assert_eq!(because, "Invalid");
    // Another Gateway of the same fleet asks for nothing, and a third one for what there is.
    let (status, _, _, addresses) = told(&[], &missing);
    assert_eq!((&*status, &addresses[0]["value"]), ("True", &json!("127.0.0.1")));
    // While the Service is refused for it, new ports of nobody come into force.
    let (status, because, message, _) = told(&[], &|report| {
        missing(report);
        report.asked.refusal = Some("Service x: not in the range".into());
    });
    assert_eq!((&*status, &*because), ("False", "Invalid"));
    assert!(message.ends_with("Service x: not in the range"), "{message}");
    let (status, _, _, addresses) = told(&["10.0.0.9"], &|report| {
        missing(report);
        report.asked.given = [("10.0.0.9".into(), [10, 0, 0, 9].into())].into();
    });
    assert_eq!(addresses, json!([{ "type": "IPAddress", "value": "10.0.0.9" }]));
    assert_eq!(status, "True");
    let (status, _, message, addresses) = told(&[], &|report| {
        report.addresses = (0..20).map(|n| Address::Ip([10, 0, 0, n].into())).collect();
    });
    assert_eq!((&*status, addresses.as_array().unwrap().len()), ("True", 16));
    assert_eq!(
        message,
        "Too many addresses (20) have been assigned to the Gateway; only the first 16 are included in the status."
    );
}

/// The fleet with a socket for the Gateway's listener.
fn listening() -> Published {
    let mut published = published();
    let body = Body::Whole(bytes::Bytes::from_static(b"1"));
    let entry = Entry::new("tcp-80", body, [origin(Some("http"))].into());
    let section = Section::new(vec![Arc::new(entry)]);
    let snapshot = Snapshot::default().with(ResourceType::Listener, Arc::new(section));
    published
        .fleets
        .values_mut()
        .for_each(|state| state.snapshot = Arc::new(snapshot.clone()));
    published
}

fn delivery(origins: &[Origin]) -> Delivery {
    Delivery {
        fleet: "ns/gw".into(),
        listeners: [("tcp-80".into(), origins.iter().cloned().collect())].into(),
    }
}

#[test]
fn a_gateway_is_programmed_when_every_connected_proxy_serves_it() {
    let mut book = Book::default();
    book.set_statuses(vec![gateway()]);
    book.set_fleets(Some(&listening()));
    book.set_reports(report(Availability::Available(2)));
    book.take_stale();
    let programmed = |book: &Book| {
        let effective = book.effective(&gateway().0).unwrap();
        let value = edge_translate::status::merge(None, &effective.status, None);
        conditions(&value["conditions"])[1].trim_end().to_owned()
    };
    assert_eq!(
        programmed(&book),
        "Programmed=True/Programmed",
        "its proxies may be connected elsewhere"
    );
    let other = Origin {
        name: "other".into(),
        ..origin(Some("http"))
    };
    let (without, with) = (
        delivery(std::slice::from_ref(&other)),
        delivery(&[other, origin(Some("http"))]),
    );
    book.set_deliveries(&[(Connection::Here(1), without.clone())].into());
    assert_eq!(book.take_stale().len(), 1);
    assert_eq!(programmed(&book), "Programmed=False/Pending");
    book.set_deliveries(&[(Connection::Here(1), with.clone()), (Connection::Here(2), without)].into());
    assert_eq!(programmed(&book), "Programmed=False/Pending", "one of two");
    book.take_stale();
    book.set_deliveries(&[(Connection::Here(1), with.clone()), (Connection::Here(2), with.clone())].into());
    assert_eq!(book.take_stale().len(), 1);
    assert_eq!(programmed(&book), "Programmed=True/Programmed");
    book.set_deliveries(&[(Connection::Here(2), with)].into());
    assert_eq!(book.take_stale().len(), 0, "nothing follows from that");
    // All that it has is refused: what it asks for isn't in force.
    book.set_rejections(&rejections());
    assert_eq!(programmed(&book), "Programmed=False/Invalid");
}

#[test]
fn a_gateway_keeps_its_fleet_when_its_parameters_break() {
    let mut book = Desk::new(None);
    book.book.set_statuses(vec![gateway()]);
    book.book.set_reports(report(Availability::Available(1)));
    book.book.set_fleets(Some(&published()));
    let mut broken = published();
    broken.fleets.values_mut().for_each(|state| state.infra = None);
    book.book.set_fleets(Some(&broken));
    book.refresh("t0");
    let status = book.document()["resources"][0]["status"].clone();
    assert_eq!(conditions(&status["conditions"])[1], "Programmed=True/Programmed t0");
}

#[test]
fn a_rejection_is_told_on_the_listener_it_came_from_until_it_is_resolved() {
    let mut book = Desk::new(None);
    book.book.set_statuses(vec![gateway()]);
    book.refresh("t0");
    let listener = |book: &Desk| conditions(&book.document()["resources"][0]["status"]["listeners"][0]["conditions"]);
    book.book.set_rejections(&rejections());
    book.refresh("t1");
    assert_eq!(listener(&book), ["Programmed=False/Invalid t1"]);
    book.book.set_rejections(&Rejections::new());
    book.refresh("t2");
    assert_eq!(listener(&book), ["Programmed=True/Programmed t2"]);
}

#[test]
fn times_survive_a_restart_and_entries_go_with_their_objects() {
    let mut book = Desk::new(None);
    book.book.set_statuses(vec![gateway()]);
    book.refresh("t0");
    let written = book.document.take_changed().unwrap();
    assert_eq!(serde_yaml::from_str::<Value>(&written).unwrap(), book.document());
    let mut next = Desk::new(serde_yaml::from_str(&written).unwrap());
    assert_eq!(
        next.document()["resources"].as_array().map(Vec::len),
        Some(0),
        "only what is there now is told"
    );
    next.book.set_statuses(vec![gateway()]);
    next.refresh("t9");
    assert_eq!(next.document(), book.document());
    next.book.set_statuses(vec![(gateway().0, None)]);
    next.refresh("t10");
    assert_eq!(next.document()["resources"].as_array().map(Vec::len), Some(0));
}

/// The task at work, and what it hears from.
struct AtWork {
    folder: tempfile::TempDir,
    ledger: Arc<Ledger>,
    requests: mpsc::Sender<DocumentRequest>,
    rejections: watch::Sender<Rejections>,
    leaving: StopSource,
    metrics: Arc<Metrics>,
    task: Task,
    _others: Others,
}

/// Those that say nothing more, but are there.
type Others = (
    watch::Sender<Option<Arc<Published>>>,
    watch::Sender<Option<Reports>>,
    watch::Sender<Deliveries>,
    watch::Sender<Findings>,
);

impl AtWork {
    fn start(folder: tempfile::TempDir) -> Self {
        let (asked, requests) = mpsc::channel(4);
        let ledger = Arc::new(Ledger::default());
        let (fleets, published) = watch::channel(None);
        let (running, reports) = watch::channel(None);
        let (rejections, rejected) = watch::channel(Rejections::new());
        let (served, deliveries) = watch::channel(Deliveries::new());
        let (found, findings) = watch::channel(Findings::default());
        found.send_replace(Arc::new(vec![finding()]));
        let (leaving, is_leaving) = StopSource::new();
        let sources = Sources {
            ledger: Arc::clone(&ledger),
            requests,
            published,
            reports,
            rejections: rejected,
            deliveries,
            findings,
        };
        let metrics = Arc::new(Metrics::default());
        let (file, measured) = (folder.path().join("state/status.yaml"), Arc::clone(&metrics));
        Self {
            folder,
            ledger,
            requests: asked,
            rejections,
            leaving,
            metrics,
            task: Task::spawn("status", |stop| {
                run(
                    sources,
                    file,
                    measured,
                    End {
                        leaving: is_leaving,
                        stop,
                    },
                )
            }),
            _others: (fleets, running, served, found),
        }
    }

    async fn counted(&self, counter: Counter) {
        let counting = async {
            while self.metrics.counted(counter) == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), counting).await.unwrap();
    }

    /// What the page says.
    async fn page(&self) -> Value {
        let (sender, answer) = oneshot::channel();
        self.requests.send(sender).await.unwrap();
        answer.await.unwrap()
    }

    fn file(&self) -> Value {
        let text = fs::read_to_string(self.folder.path().join("state/status.yaml")).unwrap();
        serde_yaml::from_str(&text).unwrap()
    }
}

fn finding() -> LoadFinding {
    LoadFinding {
        severity: Severity::Error,
        file: "a.yaml".into(),
        line: 2,
        column: 7,
        object: None,
        message: "it is torn".into(),
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_told_and_tried_again_whether_or_not_more_happens() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("state"), "in the way").unwrap();
    let at_work = AtWork::start(folder);
    at_work.ledger.put(vec![gateway()]);
    at_work.counted(Counter::StatusFailures).await;
    let page = at_work.page().await;
    assert_eq!(page["resources"][0]["name"], "gw", "the page has it all the same");
    fs::remove_file(at_work.folder.path().join("state")).unwrap();
    at_work.counted(Counter::StatusUpdates).await;
    let document = at_work.file();
    assert_eq!(document["findings"][0]["column"], 7);
    assert_eq!(document["resources"][0]["status"]["conditions"][0]["type"], "Accepted");
    at_work.task.stop(Duration::from_secs(5)).await;
}

/// Its proxies end with the controller, and with them goes what they said.
#[tokio::test]
async fn what_was_rejected_is_not_said_to_be_all_right_when_the_controller_stops() {
    let at_work = AtWork::start(tempfile::tempdir().unwrap());
    at_work.ledger.put(vec![gateway()]);
    let listener =
        |document: &Value| conditions(&document["resources"][0]["status"]["listeners"][0]["conditions"])[0].clone();
    at_work.rejections.send_replace(rejections());
    while !listener(&at_work.page().await).starts_with("Programmed=False/Invalid") {}
    at_work.leaving.stop();
    at_work.rejections.send_replace(Rejections::new());
    at_work.ledger.put(Vec::new());
    at_work.task.stop(Duration::from_secs(5)).await;
    let text = fs::read_to_string(at_work.folder.path().join("state/status.yaml")).unwrap();
    let said = listener(&serde_yaml::from_str(&text).unwrap());
    assert!(said.starts_with("Programmed=False/Invalid"), "{said}");
}

#[test]
fn a_rejection_is_told_only_under_parents_that_the_fleet_serves() {
    let parent = |name: &str| ParentStatus {
        parent: Arc::new(serde_json::from_value(json!({ "name": name })).unwrap()),
        conditions: Vec::new(),
    };
    let mut status = Status {
        observed_generation: 1,
        body: StatusBody::Parents {
            controller_name: "c".into(),
            parents: vec![parent("here"), parent("there")],
        },
    };
    let route = ObjectKey::new(Kind::HttpRoute, "ns", "r");
    let fleet = |name: &str| {
        (
            ObjectKey::new(Kind::Gateway, "ns", name),
            FleetKey::new(format!("ns/{name}")),
        )
    };
    let rejected = overlay::Rejected {
        fleet: "ns/here".into(),
        section: Some("rule/2".into()),
        by: Refuser::DataPlane,
        reason: "match.path: bad".into(),
    };
    overlay::add_rejections(
        &mut status,
        &route,
        &[rejected],
        &[fleet("here"), fleet("there")].into(),
    );
    let StatusBody::Parents { parents, .. } = &status.body else {
        panic!("{status:?}")
    };
    let [condition] = parents[0].conditions.as_slice() else {
        panic!("{parents:?}")
    };
    assert_eq!(condition.message, "Rejected by the data plane: rule/2: match.path: bad");
    assert!(parents[1].conditions.is_empty(), "{parents:?}");
}

#[test]
fn an_object_that_cannot_be_read_is_not_accepted_where_it_leads_to_us() {
    let (gateway_key, status) = gateway();
    let mut book = Book::among_others("gateway.edge/us".into());
    book.set_statuses(vec![(gateway_key.clone(), status)]);
    let parent =
        |name: &str| serde_json::from_value(json!({ "name": name, "namespace": &*gateway_key.namespace })).unwrap();
    let malformed = Malformed {
        message: "spec.rules: odd".into(),
        generation: 7,
        parents: [parent(&gateway_key.name), parent("of-somebody-else")].into(),
    };
    let route = ObjectKey::new(Kind::HttpRoute, "elsewhere", "r");
    let effective = book.effective_of_malformed(&route, &malformed).unwrap();
    let value = edge_translate::status::merge(None, &effective.status, None);
    let parents = value["parents"].as_array().unwrap();
    assert_eq!(parents.len(), 1, "{value:#}");
    assert_eq!(parents[0]["controllerName"], "gateway.edge/us");
    let condition = &parents[0]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("Accepted"), &json!("False"))
    );
    assert_eq!(condition["observedGeneration"], 7);
    assert!(condition["message"].as_str().unwrap().contains("spec.rules: odd"));
    let foreign = Malformed {
        parents: [parent("of-somebody-else")].into(),
        ..malformed.clone()
    };
    assert_eq!(book.effective_of_malformed(&route, &foreign), None);
    // One that was accepted keeps its other statements.
    let effective = book.effective_of_malformed(&gateway_key, &malformed).unwrap();
    let value = edge_translate::status::merge(None, &effective.status, None);
    let accepted = value["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["type"] == "Accepted");
    assert_eq!(accepted.unwrap()["status"], "False", "{value:#}");
    assert!(!value["listeners"].as_array().unwrap().is_empty());
}

#[test]
fn what_was_ours_says_once_that_what_it_belongs_to_is_gone() {
    let key = ObjectKey::new(Kind::ListenerSet, "ns", "set");
    let status = |body: StatusBody| {
        let status = Status {
            observed_generation: 1,
            body,
        };
        vec![(key.clone(), Some(Arc::new(status)))]
    };
    let ours = || status(StatusBody::ListenerSet(ListenerSetStatus::default()));
    let nobodys = || status(StatusBody::Unattached(vec!["there is no Gateway ns/gw".to_owned()]));
    let said = |book: &Book| match book.effective(&key).unwrap().status.body {
        StatusBody::ListenerSet(set) => set.conditions.iter().map(|c| c.reason.to_string()).collect(),
        _ => Vec::new(),
    };
    let mut book = Book::among_others("gateway.edge/us".into());
    book.set_statuses(nobodys());
    assert!(said(&book).is_empty(), "it never was ours");
    book.set_statuses(ours());
    book.set_statuses(nobodys());
    assert_eq!(said(&book), ["ParentNotAccepted", "ListenersNotValid"]);
    book.said(&key);
    assert!(said(&book).is_empty(), "whoever takes it speaks for himself");

    let gateway_key = ObjectKey::new(Kind::Gateway, "ns", "gw");
    book.set_statuses(vec![gateway()]);
    let gone = StatusBody::Unattached(vec!["there is no GatewayClass edge".to_owned()]);
    let gone = Status {
        observed_generation: 1,
        body: gone,
    };
    book.set_statuses(vec![(gateway_key.clone(), Some(Arc::new(gone)))]);
    assert_eq!(book.effective(&gateway_key).unwrap().addresses, Some(json!([])));
    book.leave_to_others();
    assert_eq!(book.effective(&gateway_key).unwrap().addresses, None);
}
