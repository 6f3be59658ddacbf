//! What a protective policy covers, read from the objects alone: no index, no memory, every policy asked for every
//! route.

use super::check;
use edge_ir::{Fleet, Network, Origin, Origins, RouteAction, StreamProxy};
use edge_translate::api::{Generic, GrantFrom, GrantTo, Kind, Object, ObjectKey, StringMap};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

type Objects = BTreeMap<ObjectKey, Object>;

/// Routes that are open although a policy that protects covers them or the listener that they stand in.
pub(crate) fn open(fleet: &Fleet, objects: &Objects) -> Vec<String> {
    let mut wrong = Vec::new();
    for (host, route) in check::routes(fleet) {
        // Or 421, where the request belongs to another listener.
        let refuses =
            matches!(&route.effect.action, RouteAction::Respond(answer) if matches!(answer.status, 421 | 500));
        if !refuses && is_covered(objects, [&host.origins, &route.effect.origins]) {
            wrong.push(format!("{} in {} is open", route.name, host.name));
        }
    }
    for listener in fleet.listeners.iter() {
        let chains = listener.chains.iter().chain(&listener.default_chain);
        let streams = chains.filter_map(|chain| match &chain.network {
            Network::Tcp(stream) => Some((stream, &chain.origins)),
            Network::Http(_) => None,
        });
        let datagrams = listener.udp.iter().map(|stream| (stream, &listener.origins));
        for (stream, origins) in streams.chain(datagrams) {
            if passes(stream) && is_covered(objects, [origins, &stream.origins]) {
                wrong.push(format!("{} is open", stream.stat_prefix));
            }
        }
    }
    wrong
}

fn passes(stream: &StreamProxy) -> bool {
    !stream.shares.is_empty()
}

fn is_covered(objects: &Objects, origins: [&Origins; 2]) -> bool {
    let named = origins.into_iter().flat_map(|list| list.iter());
    let places: Vec<ObjectKey> = named.flat_map(|origin| places(objects, origin)).collect();
    let over = |kind: &str, policy: &Generic| places.iter().any(|place| covers(objects, kind, policy, place));
    let mut extensions = Vec::new();
    for object in objects.values() {
        match object {
            Object::SecurityPolicy(policy) if over("SecurityPolicy", policy) => return true,
            Object::EdgeExtensionPolicy(policy) if over("EdgeExtensionPolicy", policy) => extensions.push(policy),
            _ => {}
        }
    }
    // The most specific of them stands in place of the others, whichever that is.
    !extensions.is_empty() && extensions.into_iter().all(|policy| must_run(policy))
}

/// Whether something that an EdgeExtensionPolicy adds may not be missing; none of it can run.
fn must_run(policy: &Generic) -> bool {
    let may_be_missing = |field: &str, one: &Value| ["wasm", "extProc"].contains(&field) && one["failOpen"] == true;
    let adds = |(field, added): (&String, &Value)| {
        !field.starts_with("target") && !each(added).iter().all(|one| may_be_missing(field, one))
    };
    policy.spec.as_object().is_some_and(|spec| spec.iter().any(adds))
}

/// The entries of a list, or what stands in its place.
fn each(value: &Value) -> Vec<Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    }
}

/// The object that a piece comes from, and the Gateway above it where it is a ListenerSet.
fn places(objects: &Objects, origin: &Origin) -> Vec<ObjectKey> {
    let find = |kind: Kind| ObjectKey::new(kind, Arc::clone(&origin.namespace), Arc::clone(&origin.name));
    let kind = Kind::ALL.iter().copied().find(|kind| kind.as_str() == &*origin.kind);
    let key = kind.map(find);
    let gateway = key.as_ref().and_then(|key| match objects.get(key) {
        Some(Object::ListenerSet(set)) => {
            let parent = &set.spec.parent_ref;
            let namespace = parent.namespace.as_deref().unwrap_or(&set.metadata.namespace);
            Some(ObjectKey::new(Kind::Gateway, namespace, &*parent.name))
        }
        _ => None,
    });
    key.into_iter().chain(gateway).collect()
}

fn covers(objects: &Objects, kind: &str, policy: &Generic, place: &ObjectKey) -> bool {
    let spec = &policy.spec;
    let home = &policy.metadata.namespace;
    let is_home = *home == place.namespace;
    let list = |field: &str| each(&spec[field]).into_iter();
    let is_named = |target: Value| target["kind"] == place.kind.as_str() && target["name"] == *place.name;
    let is_chosen = |selector: Value| {
        let looks_here = match selector["namespaces"]["from"].as_str() {
            None | Some("Same") => is_home,
            Some("Selector") => labels(objects, &ObjectKey::new(Kind::Namespace, "", &*place.namespace))
                .is_none_or(|labels| means(&selector["namespaces"]["selector"], labels)),
            Some(_) => true,
        };
        let is_let_in = || is_home || is_let_in(objects, kind, home, place);
        let is_meant = labels(objects, place).is_some_and(|labels| means(&selector, labels));
        selector["kind"] == place.kind.as_str() && looks_here && is_meant && is_let_in()
    };
    (is_home && list("targetRefs").chain(list("targetRef")).any(is_named)) || list("targetSelectors").any(is_chosen)
}

fn labels<'a>(objects: &'a Objects, key: &ObjectKey) -> Option<&'a StringMap> {
    objects.get(key).map(|object| &object.metadata().labels)
}

/// Whether a selector means these labels. One with an operator that nobody knows means none, as its status says.
fn means(selector: &Value, labels: &StringMap) -> bool {
    let has = |key: &str, value: &Value| labels.get(key).is_some_and(|own| value == own);
    let by_labels = selector["matchLabels"].as_object();
    let by_expressions = each(&selector["matchExpressions"]);
    by_labels.is_none_or(|wanted| wanted.iter().all(|(key, value)| has(key, value)))
        && by_expressions.iter().all(|expression| {
            let key = expression["key"].as_str().unwrap();
            let among = each(&expression["values"]).iter().any(|value| has(key, value));
            match expression["operator"].as_str() {
                Some("In") => among,
                Some("NotIn") => !among,
                _ => false,
            }
        })
}

fn is_let_in(objects: &Objects, kind: &str, home: &str, place: &ObjectKey) -> bool {
    let from = |f: &GrantFrom| f.group == "gateway.edge" && f.kind == kind && *f.namespace == *home;
    let to = |t: &GrantTo| {
        t.group == "gateway.networking.k8s.io"
            && t.kind == place.kind.as_str()
            && t.name.as_deref().is_none_or(|name| name == &*place.name)
    };
    objects.values().any(|object| match object {
        Object::ReferenceGrant(grant) => {
            grant.metadata.namespace == place.namespace
                && grant.spec.from.iter().any(from)
                && grant.spec.to.iter().any(to)
        }
        _ => false,
    })
}
