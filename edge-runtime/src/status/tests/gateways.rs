//! When a Gateway is programmed, and at which addresses.

use super::*;

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
