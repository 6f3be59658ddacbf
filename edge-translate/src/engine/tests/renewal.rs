//! An engine that begins anew says nothing that it didn't say before.

use super::*;
use crate::api::Timestamp;

/// A route of a name, host and Service that nobody else has.
fn stranger(n: usize) -> String {
    format!(
        r"
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: r{n}, namespace: default}}
spec:
  parentRefs: [{{name: g}}]
  hostnames: [h{n}.example.com]
  rules: [{{backendRefs: [{{name: s{n}, port: 80}}]}}]
---
apiVersion: v1
kind: Service
metadata: {{name: s{n}, namespace: default}}
spec: {{ports: [{{port: 80}}]}}
"
    )
}

fn remove(translator: &mut Translator, text: &str) {
    for object in objects(text) {
        translator.apply(Change::Remove(object.key()));
    }
}

#[test]
fn what_came_and_went_is_forgotten() {
    let mut translator = Translator::new(Settings::default());
    put(&mut translator, WORLD);
    put(&mut translator, &stranger(0));
    let before = translator.translate();
    let needed = translator.names();
    let mut most = 0;
    for n in 1..2000 {
        put(&mut translator, &stranger(n));
        let with = translator.translate();
        assert!(with.statuses.iter().all(|(key, _)| &*key.name != "r0"), "said again");
        remove(&mut translator, &stranger(n));
        let without = translator.translate();
        // A route has a host, which the listener's count of routes tells of.
        assert!(
            without
                .statuses
                .iter()
                .any(|(key, status)| *key.name == *format!("r{n}") && status.is_none())
        );
        most = most.max(translator.names());
    }
    assert!(most > needed + 500, "{most}: nothing came");
    assert!(most < 2 * needed + 600, "{most} names, of which {needed} are needed");
    let after = translator.translate();
    assert_eq!((&after.fleets, &after.infra), (&before.fleets, &before.infra));
    assert!(after.statuses.is_empty() && after.wanted == crate::QuestionChanges::default());
}

#[test]
fn a_world_that_only_grows_is_not_begun_anew() {
    let mut translator = Translator::new(Settings::default());
    put(&mut translator, WORLD);
    translator.translate();
    let nodes = |translator: &Translator| translator.growth.needed;
    let needed = nodes(&translator);
    for n in 0..600 {
        put(&mut translator, &stranger(n));
        translator.translate();
    }
    assert!(translator.names() > 1200);
    assert_eq!(nodes(&translator), needed);
}

#[test]
fn what_is_known_of_the_outside_is_still_known() {
    let gateway = r#"
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g, namespace: default}
spec: {gatewayClassName: edge, listeners: [{name: http, protocol: HTTP, port: 8080}]}
"#;
    let settings = Settings {
        platform: crate::Platform::Host,
        ..Settings::default()
    };
    let mut translator = Translator::new(settings);
    put(&mut translator, WORLD);
    put(&mut translator, gateway);
    translator.apply(Change::Fact(crate::Fact::Time(Timestamp(1))));
    let asked = translator.translate().wanted.added;
    let [crate::Question::Port(port)] = asked[..] else {
        panic!("{asked:?}")
    };
    translator.apply(Change::Fact(crate::Fact::Port(port, Some("a stranger".into()))));
    let told = translator.translate();
    let statuses = translator.statuses();
    translator.renew();
    assert_eq!(translator.statuses(), statuses);
    let after = translator.translate();
    assert_eq!((after.fleets, after.infra), (told.fleets, told.infra));
    assert!(after.statuses.is_empty() && after.wanted == crate::QuestionChanges::default());
    translator.apply(Change::Fact(crate::Fact::Port(port, None)));
    assert_eq!(
        translator.translate().statuses.len(),
        1,
        "the Gateway is told of its port"
    );
}

#[test]
fn a_last_good_value_is_not_thrown_away() {
    let mut translator = tripping_translator();
    put(&mut translator, &route("r", "/a", "ok"));
    translator.translate();
    put(&mut translator, &route("r", "/b", "boom"));
    let paths_before = paths(&translator.translate().fleets);
    for n in 0..700 {
        put(&mut translator, &stranger(n));
        translator.translate();
        remove(&mut translator, &stranger(n));
        translator.translate();
    }
    assert!(translator.names() > 1400);
    assert_eq!(paths(&translator.translate().fleets), paths_before);
    // Once the bug is gone, so is what came and went.
    put(&mut translator, &route("r", "/c", "ok"));
    translator.translate();
    assert!(translator.names() < 100, "{}", translator.names());
}
