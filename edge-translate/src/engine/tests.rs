use super::*;
use crate::{
    Fault,
    api::Object,
    load::{Limits, Source, load},
    status::{Condition, StatusBody},
};
use edge_ir::{Fleet, PathMatch, RouteAction};

mod renewal;
mod sets;
mod telemetry;

const WORLD: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: edge}
spec: {controllerName: gateway.edge/gatewayclass-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g, namespace: default}
spec: {gatewayClassName: edge, listeners: [{name: http, protocol: HTTP, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: default}
spec: {ports: [{port: 80}]}
";

/// A route whose paths are told from outside; `boom` in its annotations trips the unit under test.
fn route(name: &str, path: &str, annotation: &str) -> String {
    format!(
        r"
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}, namespace: default, generation: 7, annotations: {{x: {annotation}}}}}
spec:
  parentRefs: [{{name: g}}]
  rules: [{{matches: [{{path: {{value: {path}}}}}], backendRefs: [{{name: s, port: 80}}]}}]
"
    )
}

fn objects(text: &str) -> Vec<Object> {
    let loaded = load(&Source { name: "world", text }, &Limits::default());
    assert!(loaded.findings.is_empty(), "{:?}", loaded.findings);
    loaded.objects.into_iter().map(|o| o.object).collect()
}

fn put(translator: &mut Translator, text: &str) {
    for object in objects(text) {
        translator.apply(Change::Put(object));
    }
}

/// The fleet after an edit, which must be that of a translation from scratch.
fn settled(translator: &mut Translator, world: &BTreeMap<ObjectKey, Object>) -> Arc<Fleet> {
    let fleets = translator.translate().fleets;
    let mut scratch = Translator::new(Settings::default());
    for object in world.values() {
        scratch.apply(Change::Put(object.clone()));
    }
    assert_eq!(fleets, scratch.translate().fleets);
    assert_eq!(translator.statuses(), scratch.statuses());
    Arc::clone(&fleets[&edge_ir::FleetKey::from("default/g")])
}

/// The units, with rules that panic where a route says `boom`.
fn tripping(reader: &Reader<'_>) -> Option<Value> {
    if let Key::Bound(id) = reader.key
        && let Some(route) = reader.http_route(id.id)
        && route.metadata.annotations.values().any(|text| text == "boom")
    {
        panic!("tripped over {}", route.metadata.name);
    }
    unit(reader)
}

fn tripping_translator() -> Translator {
    let mut translator = Translator::new(Settings::default());
    translator.unit = tripping;
    put(&mut translator, WORLD);
    translator
}

fn paths(fleets: &BTreeMap<edge_ir::FleetKey, Arc<Fleet>>) -> Vec<String> {
    let tables = fleets.values().flat_map(|fleet| fleet.route_tables.iter());
    let routes = tables.flat_map(|t| t.hosts.iter()).flat_map(|host| &host.routes);
    let mut paths: Vec<String> = routes.map(|route| format!("{:?}", route.matches.path)).collect();
    paths.sort();
    paths
}

/// `Accepted` of a route under its one parent, with the generation that it is about.
fn accepted(translator: &Translator, name: &str) -> Option<(i64, Condition)> {
    let statuses = translator.statuses();
    let status = statuses.get(&ObjectKey::new(Kind::HttpRoute, "default", name))?;
    let StatusBody::Parents { parents, .. } = &status.body else {
        return None;
    };
    let accepted = parents[0].conditions.iter().find(|c| c.kind == "Accepted")?;
    Some((status.observed_generation, accepted.clone()))
}

#[test]
fn a_panic_costs_its_unit_and_keeps_what_was_good() {
    let mut translator = tripping_translator();
    put(&mut translator, &route("good", "/good", "fine"));
    put(&mut translator, &route("bad", "/old", "fine"));
    assert_eq!(translator.translate().faults, []);
    put(&mut translator, &route("bad", "/new", "boom"));
    put(&mut translator, &route("good", "/better", "fine"));
    let translation = translator.translate();
    assert_eq!(
        paths(&translation.fleets),
        [r#"Prefix("/better")"#, r#"Prefix("/old")"#]
    );
    let fault = Fault {
        object: ObjectKey::new(Kind::HttpRoute, "default", "bad"),
        unit: "Bound",
        message: "tripped over bad".to_owned(),
    };
    assert_eq!(translation.faults, std::slice::from_ref(&fault));
    assert_eq!(translation.statuses.len(), 1, "{:?}", translation.statuses);
    let (generation, condition) = accepted(&translator, "bad").unwrap();
    assert_eq!((generation, &*condition.reason), (7, "TranslationFault"));
    assert!(
        condition.message.contains("bug of Edge Gateway"),
        "{}",
        condition.message
    );
    assert!(
        condition.message.contains("Bound: tripped over bad"),
        "{}",
        condition.message
    );
    assert_eq!(accepted(&translator, "good").unwrap().1.reason, "Accepted");
    // It stands until the unit runs well.
    put(&mut translator, &route("good", "/best", "fine"));
    assert_eq!(translator.translate().faults, [fault]);
    put(&mut translator, &route("bad", "/new", "fine"));
    let translation = translator.translate();
    assert_eq!(translation.faults, []);
    assert_eq!(paths(&translation.fleets), [r#"Prefix("/best")"#, r#"Prefix("/new")"#]);
    assert_eq!(accepted(&translator, "bad").unwrap().1.reason, "Accepted");
}

#[test]
fn rules_that_cannot_be_bound_as_policies_now_want_are_closed() {
    const GUARD: &str = r"
apiVersion: gateway.edge/v1alpha1
kind: SecurityPolicy
metadata: {name: guard, namespace: default}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: bad}]
  authorization: {defaultAction: Deny}
";
    let mut translator = tripping_translator();
    put(&mut translator, &route("broad", "/", "fine"));
    put(&mut translator, &route("bad", "/admin", "fine"));
    translator.translate();
    put(&mut translator, &route("bad", "/admin", "boom"));
    put(&mut translator, GUARD);
    let translation = translator.translate();
    assert_eq!(translation.faults.len(), 1);
    let tables = translation.fleets.values().flat_map(|fleet| fleet.route_tables.iter());
    let routes: Vec<_> = tables
        .flat_map(|t| t.hosts.iter())
        .flat_map(|host| &host.routes)
        .collect();
    let [admin, broad] = routes.as_slice() else {
        panic!("{routes:?}");
    };
    assert_eq!(admin.matches.path, PathMatch::Prefix("/admin".into()));
    assert!(
        matches!(&admin.effect.action, RouteAction::Respond(answer) if answer.status == 500),
        "{admin:?}"
    );
    assert!(matches!(&broad.effect.action, RouteAction::Forward(_)), "{broad:?}");
}

#[test]
fn a_panic_over_something_new_costs_only_that() {
    let mut translator = tripping_translator();
    put(&mut translator, &route("good", "/good", "fine"));
    put(&mut translator, &route("bad", "/bad", "boom"));
    let translation = translator.translate();
    assert_eq!(paths(&translation.fleets), [r#"Prefix("/good")"#]);
    assert_eq!(accepted(&translator, "bad").unwrap().1.reason, "TranslationFault");
    // Gone with its object.
    translator.apply(Change::Remove(ObjectKey::new(Kind::HttpRoute, "default", "bad")));
    assert_eq!(translator.translate().faults, []);
}

#[test]
fn a_unit_that_broke_down_runs_again_when_what_it_read_changes() {
    fn listeners_trip_without_a_namespace(reader: &Reader<'_>) -> Option<Value> {
        let id = reader.id("", "default");
        if matches!(reader.key, Key::Listeners(_)) && reader.namespace(id).is_none() {
            panic!("no namespace");
        }
        unit(reader)
    }
    let mut translator = Translator::new(Settings::default());
    translator.unit = listeners_trip_without_a_namespace;
    put(&mut translator, WORLD);
    let translation = translator.translate();
    let (gateway, _) = (&translation.faults[0].object, assert_eq!(translation.faults.len(), 1));
    assert_eq!(gateway, &ObjectKey::new(Kind::Gateway, "default", "g"));
    let status = &translator.statuses()[gateway];
    assert!(matches!(&status.body, StatusBody::Gateway(g) if g.conditions[0].reason == "TranslationFault"));
    assert!(translation.fleets.is_empty());
    put(
        &mut translator,
        "{apiVersion: v1, kind: Namespace, metadata: {name: default}}",
    );
    let translation = translator.translate();
    assert_eq!((translation.faults.len(), translation.fleets.len()), (0, 1));
}

#[test]
fn what_routes_have_alike_stands_once() {
    let mut translator = Translator::new(Settings::default());
    put(&mut translator, WORLD);
    for (name, path) in [("a", "/a"), ("b", "/b"), ("broken", "no-path")] {
        put(&mut translator, &route(name, path, "x"));
    }
    translator.translate();
    let key = |name: &str| ObjectKey::new(Kind::HttpRoute, "default", name);
    let parent = |name: &str| match translator.object(&key(name)) {
        Some(Object::HttpRoute(route)) => Arc::clone(&route.spec.parent_refs[0]),
        other => panic!("{other:?}"),
    };
    assert!(Arc::ptr_eq(&parent("a"), &parent("broken")));
    let namespace = |name: &str| Arc::clone(&translator.object(&key(name)).unwrap().metadata().namespace);
    assert!(Arc::ptr_eq(&namespace("a"), &namespace("b")));
    let statuses = translator.statuses();
    assert!(Arc::ptr_eq(&statuses[&key("a")], &statuses[&key("b")]));
    assert_ne!(statuses[&key("a")], statuses[&key("broken")]);
}
