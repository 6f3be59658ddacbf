//! Backends that only extension services know: who may lead to them, and what the services are shown, read from the
//! objects alone.

use super::{
    cases, check,
    history::{Configuration, Edit, Engine, World, history},
    words::CUSTOM_GROUP,
};
use edge_ir::{Cluster, CustomObject, Fleet, Origin};
use edge_translate::{
    api::{Kind, Object, ObjectKey},
    status::{Condition, StatusBody, Truth},
};
use proptest::prelude::*;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// The kind that the configuration names as one of backends.
const KIND: &str = "Pool";

/// Where a backend of this kind is kept.
pub(crate) fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(Kind::Custom, namespace, format!("{KIND}.{CUSTOM_GROUP}/{name}"))
}

/// A reference to an object of the group of such kinds, with its namespace filled in.
#[derive(Debug, PartialEq, Eq)]
struct Reference {
    kind: String,
    namespace: String,
    name: String,
}

impl Reference {
    /// What a reference that stands in an object of a namespace names; none where it names another group.
    fn of(value: &Value, home: &str) -> Option<Self> {
        let text = |field: &str| value[field].as_str().map(str::to_owned);
        (value["group"] == CUSTOM_GROUP).then(|| Self {
            kind: text("kind").unwrap_or_default(),
            namespace: text("namespace").unwrap_or_else(|| home.to_owned()),
            name: text("name").unwrap_or_default(),
        })
    }

    /// What its cluster is called, as far as it doesn't depend on the route.
    fn cluster(&self) -> String {
        format!("custom/{}/{}.{CUSTOM_GROUP}/{}", self.namespace, self.kind, self.name)
    }
}

/// A world as the law asks it.
struct Asked<'a>(&'a World);

impl Asked<'_> {
    fn content(&self, reference: &Reference) -> Option<&Arc<CustomObject>> {
        let found = self.0.objects.get(&key(&reference.namespace, &reference.name))?;
        Some(&found.custom()?.content)
    }

    /// Whether a route may lead there, and there is something.
    fn leads(&self, route: &Object, reference: &Reference) -> bool {
        let is_known = self.0.configuration != Configuration::Unextended && reference.kind == KIND;
        is_known && self.permits(route, reference) && self.content(reference).is_some()
    }

    fn permits(&self, route: &Object, reference: &Reference) -> bool {
        let home = &*route.metadata().namespace;
        let lets_in = |object: &Object| {
            let Object::ReferenceGrant(grant) = object else {
                return false;
            };
            let from = grant.spec.from.iter().any(|from| {
                from.group == "gateway.networking.k8s.io"
                    && from.kind == route.kind().as_str()
                    && *from.namespace == *home
            });
            let to = grant.spec.to.iter().any(|to| {
                let is_meant = to.name.as_deref().is_none_or(|name| name == reference.name);
                to.group == CUSTOM_GROUP && to.kind == *reference.kind && is_meant
            });
            *grant.metadata.namespace == *reference.namespace && from && to
        };
        home == reference.namespace || self.0.objects.values().any(lets_in)
    }

    /// The route that a piece of a table comes from.
    fn route(&self, origin: &Origin) -> Option<&Object> {
        let kind = Kind::ALL.iter().find(|kind| kind.as_str() == &*origin.kind)?;
        let key = ObjectKey::new(*kind, &*origin.namespace, &*origin.name);
        self.0.objects.get(&key)
    }
}

/// References of a route: those of its rules, and those to which filters send copies. Of a stream with several rules
/// none is looked at.
fn references(route: &Object, with_copies: bool) -> Vec<Reference> {
    fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + Clone + use<'a> {
        value[field].as_array().into_iter().flatten()
    }
    let value = route.to_value().unwrap();
    let rules: Vec<&Value> = list(&value["spec"], "rules").collect();
    if rules.len() > 1 && !matches!(route.kind(), Kind::HttpRoute | Kind::GrpcRoute) {
        return Vec::new();
    }
    let shares = rules.iter().flat_map(|rule| list(rule, "backendRefs"));
    let filters = rules
        .iter()
        .copied()
        .chain(shares.clone())
        .flat_map(|at| list(at, "filters"));
    let copies = filters
        .map(|filter| &filter["requestMirror"]["backendRef"])
        .filter(|_| with_copies);
    let home = &route.metadata().namespace;
    shares
        .chain(copies)
        .filter_map(|value| Reference::of(value, home))
        .collect()
}

/// Where fleets, or what is said of routes, are not as the objects say.
fn wrong(engine: &Engine, world: &World) -> Vec<String> {
    let asked = Asked(world);
    let mut wrong = Vec::new();
    for fleet in engine.fleets().values() {
        let used = used(fleet, &asked, &mut wrong);
        clusters(fleet, &used, &mut wrong);
    }
    let statuses = engine.translator.statuses();
    for (key, route) in &world.objects {
        let Some(StatusBody::Parents { parents, .. }) = statuses.get(key).map(|status| &status.body) else {
            continue;
        };
        let Some(astray) = references(route, false).into_iter().find(|to| !asked.leads(route, to)) else {
            continue;
        };
        let is_told = |conditions: &[Condition]| {
            let mut conditions = conditions.iter();
            conditions.any(|one| one.kind == "ResolvedRefs" && one.status == Truth::False)
        };
        if parents.iter().any(|parent| !is_told(&parent.conditions)) {
            wrong.push(format!("{key} doesn't say that {astray:?} leads nowhere: {parents:#?}"));
        }
    }
    wrong
}

/// What services are shown with each cluster that routes lead to.
type Used = BTreeMap<String, Arc<CustomObject>>;

fn used(fleet: &Fleet, asked: &Asked<'_>, wrong: &mut Vec<String>) -> Used {
    let mut used = Used::new();
    let routes = check::routes(fleet).map(|(_, route)| (check::clusters_of(route), &route.effect.origins));
    let streams = check::streams(fleet).map(|stream| {
        (
            stream.shares.iter().map(|share| &*share.cluster).collect(),
            &stream.origins,
        )
    });
    for (names, origins) in routes.chain(streams) {
        for name in names.into_iter().filter(|name| name.starts_with("custom/")) {
            let Some(route) = origins.iter().find_map(|origin| asked.route(origin)) else {
                wrong.push(format!("{name} is led to by nobody: {origins:?}"));
                continue;
            };
            let is_meant = |to: &Reference| {
                let rest = name.strip_prefix(&to.cluster());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '~']))
            };
            let meant = references(route, true).into_iter().find(is_meant);
            match meant
                .filter(|to| asked.leads(route, to))
                .and_then(|to| asked.content(&to))
            {
                Some(content) => drop(used.insert(name.to_owned(), Arc::clone(content))),
                None => wrong.push(format!("{} leads to {name}", route.key())),
            }
        }
    }
    used
}

/// A cluster carries what it is for, and leaves it to the services where that is.
fn clusters(fleet: &Fleet, used: &Used, wrong: &mut Vec<String>) {
    let carries = |cluster: &Cluster| -> Vec<Arc<CustomObject>> {
        let custom = cluster.custom.as_deref();
        custom.map(|custom| custom.resources.clone()).unwrap_or_default()
    };
    for cluster in fleet.clusters.iter() {
        let wanted: Vec<_> = used.get(&*cluster.name).cloned().into_iter().collect();
        let is_left_out = cluster.name.starts_with("custom/") && wanted.is_empty();
        // That of a share without weight is there for whoever comes to ask for it.
        if carries(cluster) != wanted && !is_left_out {
            wrong.push(format!(
                "{} carries {:?} instead of {wanted:?}",
                cluster.name,
                carries(cluster)
            ));
        }
    }
    let located = fleet
        .endpoints
        .iter()
        .filter(|set| set.name.starts_with("custom/") && !set.localities.is_empty());
    wrong.extend(located.map(|set| format!("{} has endpoints", set.name)));
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn backends_of_services_are_reached_by_whom_the_objects_let(edits in history(0..50)) {
        let mut world = World::empty();
        let mut engine = Engine::new(Configuration::Cluster);
        for batch in edits.chunks(5) {
            batch.iter().for_each(|edit: &Edit| {
                world.apply(edit);
                engine.take(edit);
            });
            engine.translate();
            let wrong = wrong(&engine, &world);
            prop_assert!(wrong.is_empty(), "{wrong:#?}");
        }
    }
}
