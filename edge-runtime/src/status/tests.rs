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

mod entries;
mod gateways;
mod refused;
mod task;

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
