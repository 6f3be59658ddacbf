//! What proxies refuse, told where it came from.

use super::*;

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
