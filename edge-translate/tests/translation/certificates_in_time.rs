//! Certificates are judged by the time that translation is told: what is out of date is said, and served all the same.

use crate::rig::Rig;
use edge_translate::{
    Fact, Question,
    api::{Kind, Timestamp},
    status::Condition,
};
use serde_json::json;

/// From 2026-11-21T12:38:59Z to 2126-10-28T12:38:59Z.
const CERTIFICATE: &str = include_str!("../data/exact-ec.crt");
const KEY: &str = include_str!("../data/exact-ec.key");
const FIRST: Timestamp = Timestamp(1_795_264_739);
const LAST: Timestamp = Timestamp(4_948_864_739);

const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g}
spec:
  gatewayClassName: edge
  listeners: [{name: https, protocol: HTTPS, port: 443, tls: {certificateRefs: [{name: c}]}}]
";

fn world() -> Rig {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c"},
        "stringData": {"tls.crt": CERTIFICATE, "tls.key": KEY}});
    Rig::new(&format!("{GATEWAY}---\n{secret}\n"))
}

fn tell(rig: &mut Rig, now: Timestamp) {
    rig.tell(Fact::Time(now));
}

/// The warning on the listener, if there is one; the listener serves its certificate in any case.
fn warning(rig: &Rig) -> Option<Condition> {
    let fleet = rig.fleet();
    assert_eq!((fleet.listeners.len(), fleet.secrets.len()), (1, 1));
    let programmed = rig.listener_condition("g", "https", "Programmed").unwrap();
    assert_eq!(programmed.reason, "Programmed");
    rig.listener_condition("g", "https", "CertificateOutOfDate")
}

#[test]
fn a_certificate_is_good_from_its_first_second_to_the_end_of_its_last() {
    let mut rig = world();
    for (now, reason) in [
        (Timestamp(FIRST.0 - 1), Some("CertificateNotYetValid")),
        (FIRST, None),
        (LAST, None),
        (Timestamp(LAST.0 + 1), Some("CertificateExpired")),
        // A clock can be set back.
        (FIRST, None),
        (Timestamp(FIRST.0 - 1), Some("CertificateNotYetValid")),
    ] {
        tell(&mut rig, now);
        let found = warning(&rig);
        assert_eq!(found.as_ref().map(|c| &*c.reason), reason, "at {now}");
    }
    tell(&mut rig, Timestamp(LAST.0 + 1));
    assert_eq!(
        warning(&rig).unwrap().message,
        "The certificate in default/c expired at 2126-10-28T12:38:59Z. Clients that verify it refuse the connection."
    );
}

#[test]
fn nobody_is_accused_while_the_time_is_unknown() {
    assert_eq!(warning(&world()), None);
}

#[test]
fn what_is_wanted_is_told_once_and_taken_back() {
    let mut rig = world();
    let boundaries = [Question::Time(FIRST), Question::Time(Timestamp(LAST.0 + 1))];
    assert_eq!(rig.last.wanted.added, boundaries);
    let wanted = &rig.tell(Fact::Time(FIRST)).wanted;
    assert!(wanted.added.is_empty() && wanted.removed.is_empty(), "{wanted:?}");
    assert_eq!(rig.remove(Kind::Gateway, "g").wanted.removed, boundaries);
}
