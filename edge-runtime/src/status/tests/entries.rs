//! What becomes of entries of before, of what can't be read, and of what is gone.

use super::*;

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
