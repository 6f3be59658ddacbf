//! Certificates are judged by the time that translation is told: what is out of date is said, and served all the same.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on should stop where it stands"
)]

use edge_translate::{
    Change, Fact, Question, Settings, Translator,
    api::{Kind, ObjectKey, Timestamp},
    load,
    status::{Condition, StatusBody},
};
use serde_json::json;

/// From 2026-11-21T12:38:59Z to 2126-10-28T12:38:59Z.
const CERTIFICATE: &str = include_str!("data/exact-ec.crt");
const KEY: &str = include_str!("data/exact-ec.key");
const FIRST: Timestamp = Timestamp(1_795_264_739);
const LAST: Timestamp = Timestamp(4_948_864_739);

fn translator() -> Translator {
    let mut translator = Translator::new(Settings::default());
    for value in [
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "edge"},
            "spec": {"controllerName": "gateway.edge/gatewayclass-controller"}}),
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "g", "namespace": "a"},
            "spec": {"gatewayClassName": "edge", "listeners": [
                {"name": "https", "protocol": "HTTPS", "port": 443, "tls": {"certificateRefs": [{"name": "c"}]}}]}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c", "namespace": "a"},
            "stringData": {"tls.crt": CERTIFICATE, "tls.key": KEY}}),
    ] {
        translator.apply(Change::Put(load::from_value(&value).unwrap().0));
    }
    translator
}

fn tell(translator: &mut Translator, now: Timestamp) {
    translator.apply(Change::Fact(Fact::Time(now)));
}

/// The warning on the listener, if there is one; the listener serves its certificate in any case.
fn warning(translator: &mut Translator) -> Option<Condition> {
    let translation = translator.translate();
    let fleet = translation.fleets.values().next().unwrap();
    assert_eq!((fleet.listeners.len(), fleet.secrets.len()), (1, 1));
    let status = translator.statuses()[&ObjectKey::new(Kind::Gateway, "a", "g")].clone();
    let StatusBody::Gateway(gateway) = &status.body else {
        panic!("{status:?}");
    };
    let conditions = &gateway.listeners[0].conditions;
    assert!(
        conditions
            .iter()
            .any(|c| c.kind == "Programmed" && c.reason == "Programmed")
    );
    conditions.iter().find(|c| c.kind == "CertificateOutOfDate").cloned()
}

#[test]
fn a_certificate_is_good_from_its_first_second_to_the_end_of_its_last() {
    let mut translator = translator();
    for (now, reason) in [
        (Timestamp(FIRST.0 - 1), Some("CertificateNotYetValid")),
        (FIRST, None),
        (LAST, None),
        (Timestamp(LAST.0 + 1), Some("CertificateExpired")),
        // A clock can be set back.
        (FIRST, None),
        (Timestamp(FIRST.0 - 1), Some("CertificateNotYetValid")),
    ] {
        tell(&mut translator, now);
        let found = warning(&mut translator);
        assert_eq!(found.as_ref().map(|c| &*c.reason), reason, "at {now}");
    }
    tell(&mut translator, Timestamp(LAST.0 + 1));
    let message = warning(&mut translator).unwrap().message;
    assert_eq!(
        message,
        "The certificate in a/c expired at 2126-10-28T12:38:59Z. Clients that verify it refuse the connection."
    );
}

#[test]
fn nobody_is_accused_while_the_time_is_unknown() {
    assert_eq!(warning(&mut translator()), None);
}

#[test]
fn what_is_wanted_is_told_once_and_taken_back() {
    let mut translator = translator();
    let boundaries = [Question::Time(FIRST), Question::Time(Timestamp(LAST.0 + 1))];
    assert_eq!(translator.translate().wanted.added, boundaries);
    tell(&mut translator, FIRST);
    let wanted = translator.translate().wanted;
    assert!(wanted.added.is_empty() && wanted.removed.is_empty(), "{wanted:?}");
    translator.apply(Change::Remove(ObjectKey::new(Kind::Gateway, "a", "g")));
    assert_eq!(translator.translate().wanted.removed, boundaries);
}
