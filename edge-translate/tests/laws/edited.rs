//! Objects as an edit leaves them.

use super::words;
use edge_translate::api::{Kind, Object};
use proptest::sample;
use serde_json::json;

/// The same object with annotations, labels and a status that nobody reads. Extension services read all of their
/// objects but the status.
pub(crate) fn annotated(object: &Object) -> Object {
    let mut value = object.to_value().unwrap();
    value["status"] = json!({"conditions": [{"type": "Odd", "status": "True"}]});
    if object.kind() != Kind::Custom {
        value["metadata"]["annotations"]["example.com/other"] = json!("touched");
        value["metadata"]["labels"]["example.com/other"] = json!("touched");
    }
    words::read(value)
}

/// How endpoints of a slice's backend are named, up to the port.
pub(crate) fn owner(slice: &Object) -> Option<String> {
    let metadata = slice.metadata();
    let label = |key: &str| metadata.labels.get(key);
    let (kind, name) = match label("multicluster.kubernetes.io/service-name") {
        Some(name) => ("serviceimport", name),
        None => ("service", label("kubernetes.io/service-name")?),
    };
    Some(format!(" {kind}/{}/{name}/", metadata.namespace))
}

/// A Gateway with one more listener.
pub(crate) fn with_listener(gateway: &Object) -> Object {
    let mut value = gateway.to_value().unwrap();
    let listeners = &mut value["spec"]["listeners"];
    let mut list = listeners.as_array().cloned().unwrap_or_default();
    list.push(json!({
        "name": "extra", "protocol": "HTTP", "port": 9999, "allowedRoutes": {"namespaces": {"from": "All"}},
    }));
    *listeners = json!(list);
    words::read(value)
}

/// A route with one more rule.
pub(crate) fn with_rule(route: &Object, rule: serde_json::Value, place: sample::Index) -> Object {
    let mut value = route.to_value().unwrap();
    let rules = &mut value["spec"]["rules"];
    let mut list = rules.as_array().cloned().unwrap_or_default();
    list.insert(place.index(list.len() + 1), rule);
    *rules = json!(list);
    words::read(value)
}
