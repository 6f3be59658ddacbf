//! What follows from what watches tell, step by step.

use super::{
    arrived::Arrived,
    follow::{News, Source},
    table::{Table, Turned, sources},
};
use crate::cluster::ReadKind;
use edge_translate::{
    Change,
    api::{Kind, ObjectKey},
};
use kube::core::ApiResource;
use serde_json::{Value, json};

mod protocol;
mod running;

fn resource(kind: Kind) -> ApiResource {
    ApiResource {
        group: kind.group().to_owned(),
        version: kind.versions()[0].to_owned(),
        api_version: kind.api_version(),
        kind: kind.as_str().to_owned(),
        plural: String::new(),
    }
}

fn source(kind: Kind) -> Source {
    Source {
        kind: ReadKind::Known(kind),
        namespace: None,
    }
}

/// An object as it comes: its version and its spec, without words about what it is.
fn put(kind: Kind, name: &str, version: &str, mut value: Value) -> News {
    value["metadata"] = json!({ "name": name, "namespace": "ns", "resourceVersion": version, "generation": 1 });
    let taken = match kind {
        Kind::Secret | Kind::ConfigMap => serde_json::from_value::<Arrived<true>>(value)
            .unwrap()
            .take(&ReadKind::Known(kind), &resource(kind)),
        _ => serde_json::from_value::<Arrived<false>>(value)
            .unwrap()
            .take(&ReadKind::Known(kind), &resource(kind)),
    };
    News::Put(Box::new(taken))
}

fn gateway(name: &str, version: &str, certificate: Option<&str>) -> News {
    let listener = match certificate {
        Some(name) => {
            json!({ "name": "l", "port": 443, "protocol": "HTTPS", "tls": { "certificateRefs": [{ "name": name }] } })
        }
        None => json!({ "name": "l", "port": 80, "protocol": "HTTP" }),
    };
    let spec = json!({ "gatewayClassName": "c", "listeners": [listener] });
    put(
        Kind::Gateway,
        name,
        version,
        json!({ "spec": spec, "status": { "conditions": [] } }),
    )
}

fn answer(name: &str, version: &str) -> super::arrived::Taken {
    let value = json!({
        "metadata": { "name": name, "namespace": "ns", "resourceVersion": version },
        "type": "kubernetes.io/tls", "data": { "tls.crt": "YQ==" },
    });
    serde_json::from_value::<Arrived<false>>(value)
        .unwrap()
        .take(&ReadKind::Known(Kind::Secret), &resource(Kind::Secret))
}

/// What a table says, in short.
fn said(table: &mut Table) -> Vec<String> {
    let Turned { changes, malformed, .. } = table.take_turned();
    let changes = changes.iter().map(|change| match change {
        Change::Put(object) => format!("+{}", object.key()),
        Change::Remove(key) => format!("-{key}"),
        Change::Fact(_) => "?".to_owned(),
    });
    let malformed = malformed.iter().map(|(key, _)| format!("!{key}"));
    changes.chain(malformed).collect()
}

/// A table whose Gateways, Secrets and ConfigMaps are listed and none.
fn table() -> Table {
    let mut table = Table::default();
    for kind in [Kind::Gateway, Kind::Secret, Kind::ConfigMap] {
        table.add(source(kind));
        table.take(&source(kind), News::Begin);
        assert!(!table.is_complete());
        table.take(&source(kind), News::Complete);
    }
    assert!(table.is_complete());
    table
}

#[test]
fn what_a_new_list_does_not_hold_is_gone() {
    let (mut table, gateways) = (table(), source(Kind::Gateway));
    table.take(&gateways, gateway("a", "1", None));
    table.take(&gateways, gateway("b", "2", None));
    assert_eq!(said(&mut table), ["+Gateway/ns/a", "+Gateway/ns/b"]);
    // A list that breaks off says nothing about what it didn't reach.
    table.take(&gateways, News::Begin);
    table.take(&gateways, gateway("a", "3", None));
    assert_eq!(said(&mut table), ["+Gateway/ns/a"]);
    table.take(&gateways, News::Begin);
    table.take(&gateways, gateway("c", "4", None));
    table.take(&gateways, gateway("b", "2", None));
    table.take(&gateways, News::Complete);
    assert_eq!(said(&mut table), ["+Gateway/ns/c", "+Gateway/ns/b", "-Gateway/ns/a"]);
    table.take(&gateways, News::Gone(ObjectKey::new(Kind::Gateway, "ns", "b")));
    assert_eq!(said(&mut table), ["-Gateway/ns/b"]);
    table.drop(&gateways);
    assert_eq!(said(&mut table), ["-Gateway/ns/c"]);
}

#[test]
fn a_secret_is_read_while_it_is_named_and_told_before_who_names_it() {
    let (mut table, gateways, secrets) = (table(), source(Kind::Gateway), source(Kind::Secret));
    let key = ObjectKey::new(Kind::Secret, "ns", "s");
    table.take(&secrets, put(Kind::Secret, "s", "1", json!({})));
    table.take(&secrets, put(Kind::Secret, "other", "1", json!({})));
    assert!(table.take_unread().is_empty(), "nobody names it");
    table.take(&gateways, gateway("a", "1", Some("s")));
    assert_eq!(said(&mut table), [""; 0], "it waits");
    assert!(!table.is_complete());
    assert_eq!(table.take_unread(), [key.clone()].into());
    // It changes while it is read: it is read again, and its first state will do until then.
    table.take(&secrets, put(Kind::Secret, "s", "2", json!({})));
    table.take_unread();
    table.read(&key, Some(answer("s", "1")));
    assert_eq!(said(&mut table), ["+Secret/ns/s", "+Gateway/ns/a"]);
    assert_eq!(table.take_unread().len(), 1);
    table.read(&key, Some(answer("s", "2")));
    assert_eq!(said(&mut table), ["+Secret/ns/s"]);
    assert!(table.take_unread().is_empty());
    // Another certificate: the old one stays until the new one is there, then goes.
    table.take(&secrets, put(Kind::Secret, "t", "1", json!({})));
    table.take(&gateways, gateway("a", "2", Some("t")));
    assert_eq!(
        said(&mut table),
        [""; 0],
        "the Gateway stays as it was, with what it named"
    );
    table.take_unread();
    table.read(&ObjectKey::new(Kind::Secret, "ns", "t"), Some(answer("t", "1")));
    assert_eq!(said(&mut table), ["+Secret/ns/t", "+Gateway/ns/a", "-Secret/ns/s"]);
    table.take(&secrets, News::Gone(ObjectKey::new(Kind::Secret, "ns", "t")));
    assert_eq!(said(&mut table), ["-Secret/ns/t"]);
    table.take(&gateways, gateway("a", "3", Some("none")));
    assert_eq!(said(&mut table), ["+Gateway/ns/a"], "there is none to wait for");
}

#[test]
fn a_watch_that_is_behind_makes_nobody_read_a_secret_again_and_again() {
    let (mut table, gateways, secrets) = (table(), source(Kind::Gateway), source(Kind::Secret));
    let key = ObjectKey::new(Kind::Secret, "ns", "s");
    table.take(&secrets, put(Kind::Secret, "s", "1", json!({})));
    table.take(&gateways, gateway("a", "1", Some("s")));
    assert_eq!(table.take_unread(), [key.clone()].into());
    // It has changed, and its watch fails or is late.
    table.read(&key, Some(answer("s", "2")));
    assert_eq!(said(&mut table), ["+Secret/ns/s", "+Gateway/ns/a"]);
    assert!(table.take_unread().is_empty(), "what was read is the newest");
    table.take(&secrets, put(Kind::Secret, "s", "2", json!({})));
    assert!(table.take_unread().is_empty(), "and known when the watch tells of it");
    // Nobody reads it twice at a time.
    table.take(&secrets, put(Kind::Secret, "s", "3", json!({})));
    assert_eq!(table.take_unread().len(), 1);
    table.take(&secrets, put(Kind::Secret, "s", "4", json!({})));
    assert!(table.take_unread().is_empty());
    table.read(&key, Some(answer("s", "3")));
    assert_eq!(table.take_unread().len(), 1);
    // What can't be read is tried again for as long as anything names it.
    assert!(table.is_still_wanted(&key));
    table.take(&gateways, gateway("a", "2", None));
    assert!(!table.is_still_wanted(&key));
}

#[test]
fn a_malformed_object_is_told_once_and_leaves_the_last_good_one_in_force() {
    let (mut table, gateways) = (table(), source(Kind::Gateway));
    table.take(&gateways, gateway("a", "1", None));
    assert_eq!(said(&mut table), ["+Gateway/ns/a"]);
    let broken = || json!({ "spec": { "gatewayClassName": "c", "listeners": "none" }, "status": {} });
    table.take(&gateways, put(Kind::Gateway, "a", "2", broken()));
    let turned = table.take_turned();
    assert!(turned.changes.is_empty());
    assert!(turned.malformed[0].1.contains("listeners"), "{:?}", turned.malformed);
    assert!(turned.sights[0].malformed.is_some() && turned.sights[0].seen.is_some());
    table.take(&gateways, put(Kind::Gateway, "a", "3", broken()));
    assert_eq!(said(&mut table), [""; 0]);
    table.take(&gateways, gateway("b", "4", None));
    table.take(&gateways, gateway("a", "5", None));
    assert_eq!(
        said(&mut table),
        ["+Gateway/ns/b", "+Gateway/ns/a"],
        "others don't notice"
    );
}

#[test]
fn what_is_not_read_is_dropped_on_arrival() {
    let value = json!({
        "metadata": {
            "name": "r", "namespace": "ns", "resourceVersion": "1", "managedFields": [{}],
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "x", "kept": "y" },
        },
        "spec": { "gatewayClassName": "c", "listeners": [] },
        "status": { "conditions": [{ "type": "Odd" }] },
    });
    let arrived: Arrived<false> = serde_json::from_value(value).unwrap();
    assert_eq!(
        format!("{arrived:?}"),
        "Arrived(Some(\"r\"))",
        "contents are never shown"
    );
    let taken = arrived.take(&ReadKind::Known(Kind::Gateway), &resource(Kind::Gateway));
    let super::arrived::Content::Object(object) = taken.content else {
        panic!("{:?}", taken.content)
    };
    let kept = object.to_value().unwrap();
    assert_eq!(kept["metadata"]["annotations"], json!({ "kept": "y" }));
    assert_eq!(kept.get("status"), None);
    assert_eq!(
        taken.seen.unwrap().status.as_deref(),
        Some("{\"conditions\":[{\"type\":\"Odd\"}]}")
    );
}

#[test]
fn a_kind_is_watched_where_it_lives() {
    let namespaces = ["a".into(), "b".into()].into();
    let names = |kind, some| -> Vec<String> {
        sources(&ReadKind::Known(kind), some)
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(names(Kind::Gateway, None), ["Gateway"]);
    assert_eq!(
        names(Kind::Gateway, Some(&namespaces)),
        ["Gateway in a", "Gateway in b"]
    );
    assert_eq!(names(Kind::GatewayClass, Some(&namespaces)), ["GatewayClass"]);
}
