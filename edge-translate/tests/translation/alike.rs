//! Policies that say the same as others, and what their statuses say: neither depends on who came first.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use edge_translate::{
    Change, Settings, Translator,
    api::{Kind, ObjectKey},
    load::{Limits, Source, load},
    status::{Status, StatusBody},
};
use std::sync::Arc;

const WORLD: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: edge}
spec: {controllerName: gateway.edge/gatewayclass-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g}
spec: {gatewayClassName: edge, listeners: [{name: a, protocol: HTTP, port: 80}]}
";

fn route(name: &str) -> String {
    format!(
        r"
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}}}
spec: {{parentRefs: [{{name: g}}], hostnames: [{name}.example.com], rules: [{{filters: []}}]}}
"
    )
}

fn policy(kind: &str, name: &str, targets: &str, spec: &str) -> String {
    format!(
        r"
apiVersion: gateway.edge/v1alpha1
kind: {kind}
metadata: {{name: {name}}}
spec:
  targetRefs: [{targets}]
  {spec}
"
    )
}

fn target(route: &str) -> String {
    format!("{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {route}}}")
}

fn put(translator: &mut Translator, text: &str) {
    let loaded = load(&Source { name: "world", text }, &Limits::default());
    for object in loaded.objects {
        translator.apply(Change::Put(object.object));
    }
}

fn status(translator: &mut Translator, kind: Kind, name: &str) -> Arc<Status> {
    translator.translate();
    let key = ObjectKey::new(kind, "default", name);
    Arc::clone(&translator.statuses()[&key])
}

fn accepted(status: &Status) -> (String, String) {
    let ancestors = match &status.body {
        StatusBody::Ancestors { ancestors, .. } => ancestors.as_slice(),
        _ => &[],
    };
    let conditions = &ancestors[0].conditions;
    let condition = conditions.iter().find(|c| c.kind == "Accepted").unwrap();
    (condition.reason.to_string(), condition.message.to_string())
}

#[test]
fn the_words_about_a_policy_do_not_depend_on_which_target_came_first() {
    let parts = ["{}, sectionName: left", "{}, sectionName: right"];
    let targets: Vec<String> = ["r1", "r2"]
        .into_iter()
        .zip(parts)
        .map(|(route, part)| {
            let whole = target(route);
            format!("{{{}}}", part.replace("{}", whole.trim_matches(['{', '}'])))
        })
        .collect();
    let policy = policy(
        "BackendTrafficPolicy",
        "p",
        &targets.join(", "),
        "retry: {numRetries: 1}",
    );
    let words = |routes: [&str; 2]| {
        let mut translator = Translator::new(Settings::default());
        put(&mut translator, WORLD);
        routes.into_iter().for_each(|name| put(&mut translator, &route(name)));
        put(&mut translator, &policy);
        accepted(&status(&mut translator, Kind::BackendTrafficPolicy, "p"))
    };
    let (reason, message) = words(["r1", "r2"]);
    assert_eq!(reason, "TargetNotFound");
    assert!(message.contains("left"), "{message}");
    assert_eq!(words(["r2", "r1"]), (reason, message));
}

#[test]
fn a_copy_of_a_policy_that_merges_in_an_unknown_way_is_none() {
    for (kind, kind_of, spec) in [
        ("SecurityPolicy", Kind::SecurityPolicy, "cors: {allowMethods: [GET]}"),
        (
            "BackendTrafficPolicy",
            Kind::BackendTrafficPolicy,
            "retry: {numRetries: 1}",
        ),
    ] {
        let mut translator = Translator::new(Settings::default());
        put(&mut translator, WORLD);
        for (name, more) in [("one", ""), ("two", ""), ("three", "\n  mergeType: Sideways")] {
            put(&mut translator, &route(name));
            let spec = format!("{spec}{more}");
            put(&mut translator, &policy(kind, name, &target(name), &spec));
            let (reason, message) = accepted(&status(&mut translator, kind_of, name));
            let expected = if more.is_empty() { "Accepted" } else { "Invalid" };
            assert_eq!(reason, expected, "{kind} {name}: {message}");
        }
    }
}
