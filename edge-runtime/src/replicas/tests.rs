//! Accounts, whose they are, and how long they hold.

use super::{
    account::Account,
    others::{Heard, Others},
};
use crate::{
    state::{Connection, Deliveries, Delivery, KeptFrom, Refuser, Rejection, RejectionKey, Rejections},
    status::overlay::{by_object, served},
};
use edge_ir::Origin;
use edge_translate::api::{Kind, ObjectKey};
use edge_xds::snapshot::ResourceType;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

fn origin(name: &str) -> Origin {
    Origin {
        kind: "Gateway".into(),
        namespace: "ns".into(),
        name: name.into(),
        section: Some("http".into()),
        annotations: [("gateway.edge/note".into(), "x".repeat(1000).into())].into(),
    }
}

fn refused(stream: u64, resource: &str, reason: &str) -> (RejectionKey, Rejection) {
    let key = RejectionKey {
        from: KeptFrom::Stream(stream),
        kind: ResourceType::Listener,
        name: resource.into(),
    };
    let rejection = Rejection {
        fleet: "ns/gw".into(),
        by: Refuser::DataPlane,
        reason: reason.into(),
        origins: [origin("gw")].into(),
    };
    (key, rejection)
}

fn delivered(fleet: &str, gateways: &[&str]) -> Delivery {
    let origins = gateways.iter().map(|name| origin(name));
    Delivery {
        fleet: fleet.into(),
        listeners: [("tcp-80".into(), origins.collect())].into(),
    }
}

fn gateway(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::Gateway, "ns", name)
}

#[test]
fn what_one_replica_tells_stands_beside_what_another_knows() {
    // Two proxies of one fleet refuse the same; one of them doesn't serve Gateway two yet.
    let theirs: Rejections = [refused(1, "tcp-443", "too short"), refused(2, "tcp-443", "too short")].into();
    let their_proxies: Deliveries = [
        (Connection::Here(1), delivered("class", &["one", "two"])),
        (Connection::Here(2), delivered("class", &["one"])),
    ]
    .into();
    let (text, left_out) = Account::of(&theirs, &their_proxies).to_text();
    assert_eq!(left_out, 0);
    assert!(text.len() < 1000, "annotations of objects aren't told: {text}");

    let mut rejections: Rejections = [refused(1, "tcp-80", "taken")].into();
    let mut deliveries: Deliveries = [
        (Connection::Here(1), delivered("class", &["one", "two"])),
        (Connection::Here(2), delivered("other", &["three"])),
    ]
    .into();
    let account = Account::from_text(&text).unwrap();
    account.add_to(&"replica-b".into(), &mut rejections, &mut deliveries);
    let rejected = by_object(&rejections);
    let reasons: Vec<&str> = rejected[&gateway("gw")]
        .iter()
        .map(|rejected| &*rejected.reason)
        .collect();
    assert_eq!(reasons, ["taken", "too short"]);
    // A Gateway is served when the proxies of all replicas serve it.
    let served = served(&deliveries);
    assert_eq!(served["class"], [gateway("one")].into());
    assert_eq!(served["other"], [gateway("three")].into());
}

#[test]
fn an_account_has_a_longest_and_refusals_come_first() {
    let rejections: Rejections = (0..50).map(|n| refused(n, &format!("tcp-{n}"), "too short")).collect();
    let deliveries: Deliveries = (0..50)
        .map(|n| (Connection::Here(n), delivered(&format!("fleet-{n}"), &["one"])))
        .collect();
    let account = Account::of(&rejections, &deliveries);
    let (whole, left_out) = account.to_text();
    assert_eq!((Account::from_text(&whole), left_out), (Some(account.clone()), 0));
    let mut sizes = Vec::new();
    for longest in [0, 100, whole.len() / 2, whole.len() - 1] {
        let (text, left_out) = account.to_text_within(longest);
        assert!(text.len() <= longest.max(30), "{} of {longest}", text.len());
        let kept = Account::from_text(&text).unwrap();
        let (mut rejections, mut deliveries) = Default::default();
        kept.add_to(&"b".into(), &mut rejections, &mut deliveries);
        assert_eq!(rejections.len() + deliveries.len() + left_out, 100);
        assert!(rejections.len() == 50 || deliveries.is_empty(), "refusals come first");
        sizes.push(rejections.len() + deliveries.len());
    }
    assert_eq!((sizes[0], sizes[3]), (0, 99), "{sizes:?}");
    assert!(sizes.is_sorted(), "{sizes:?}");
}

fn heard(name: &str, version: &str) -> Heard {
    let (text, _) = Account::of(&[refused(1, "tcp-443", name)].into(), &Deliveries::new()).to_text();
    Heard {
        name: name.to_owned(),
        version: version.to_owned(),
        duration: Duration::from_secs(40),
        text,
    }
}

fn holding(others: &Others, now: Instant) -> Vec<Arc<str>> {
    others.that_hold(now).map(|(name, _)| Arc::clone(name)).collect()
}

#[test]
fn an_account_holds_while_it_is_renewed_by_our_own_clock() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut others = Others::beside("own");
    others.begin();
    for name in ["a", "b", "own"] {
        others.hear(heard(name, "1"), start);
    }
    others.complete();
    others.we_renewed(start);
    assert_eq!(
        holding(&others, at(39)),
        ["a".into(), "b".into()],
        "our own isn't heard"
    );
    // The same version seen again, as by a new list, is no renewal.
    others.hear(heard("a", "1"), at(30));
    others.hear(heard("b", "2"), at(30));
    assert_eq!(holding(&others, at(41)), ["b".into()]);
    // While the API server is away nobody can renew; afterwards everybody has time to.
    others.we_did_not_renew();
    assert_eq!(holding(&others, at(500)), ["a".into(), "b".into()]);
    others.we_renewed(at(500));
    others.we_renewed(at(510));
    assert_eq!(holding(&others, at(539)), ["a".into(), "b".into()]);
    assert_eq!(holding(&others, at(541)), Vec::<Arc<str>>::new());
    others.hear(heard("b", "3"), at(550));
    assert_eq!(holding(&others, at(551)), ["b".into()], "it came back");
}

#[test]
fn a_replica_that_is_gone_says_nothing_any_more() {
    let now = Instant::now();
    let mut others = Others::beside("own");
    for name in ["a", "b", "c"] {
        others.hear(heard(name, "1"), now);
    }
    others.forget("a");
    assert_eq!(holding(&others, now), ["b".into(), "c".into()]);
    // A list that breaks off says nothing about what it didn't reach.
    others.begin();
    others.begin();
    others.hear(heard("c", "1"), now);
    assert_eq!(holding(&others, now).len(), 2);
    others.complete();
    assert_eq!(holding(&others, now), ["c".into()]);
    // What can't be read says nothing.
    let odd = Heard {
        text: "{".to_owned(),
        ..heard("d", "1")
    };
    others.hear(odd, now);
    let (mut rejections, mut deliveries) = Default::default();
    for (name, account) in others.that_hold(now) {
        account.add_to(name, &mut rejections, &mut deliveries);
    }
    assert_eq!(rejections.len(), 1, "{rejections:?}");
}
