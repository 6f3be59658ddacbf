//! Which Secrets and ConfigMaps an object may name.
//!
//! Read off the raw object by its shape, not kind by kind: what is found too much costs a look into a table, what was
//! missed would be a certificate that nobody finds. So every mapping with a `name` counts, unless it says that it is
//! about another kind, or stands where only other kinds do.

use edge_translate::api::{Kind, ObjectKey};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Fields under which a `name` never is a Secret's or a ConfigMap's unless it says so.
const OTHERS: [&str; 12] = [
    "backendRef",
    "backendRefs",
    "extensionRef",
    "filters",
    "headers",
    "listeners",
    "matches",
    "metadata",
    "parametersRef",
    "parentRef",
    "parentRefs",
    "rules",
];

/// The Secrets and ConfigMaps that an object may name, sorted.
pub(super) fn references(key: &ObjectKey, value: &Value) -> Box<[ObjectKey]> {
    let mut found = BTreeSet::new();
    if !matches!(
        key.kind,
        Kind::Secret
            | Kind::ConfigMap
            | Kind::EndpointSlice
            | Kind::Service
            | Kind::Namespace
            | Kind::ReferenceGrant
            // What these say is for extension services alone.
            | Kind::Custom
            | Kind::CustomPolicy
    ) {
        walk(&key.namespace, "", value, &mut found);
    }
    found.into_iter().collect()
}

fn walk(namespace: &str, field: &str, value: &Value, found: &mut BTreeSet<ObjectKey>) {
    match value {
        Value::Object(map) => {
            found.extend(named(namespace, field, map));
            for (field, value) in map {
                walk(namespace, field, value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(namespace, field, item, found)),
        _ => {}
    }
}

fn named(own: &str, field: &str, map: &Map<String, Value>) -> Vec<ObjectKey> {
    let text = |field: &str| map.get(field).and_then(Value::as_str);
    let Some(name) = text("name") else {
        return Vec::new();
    };
    let kinds: &[Kind] = match text("kind") {
        Some("Secret") => &[Kind::Secret],
        Some("ConfigMap") => &[Kind::ConfigMap],
        Some(_) => &[],
        None if OTHERS.contains(&field) => &[],
        None => &[Kind::Secret, Kind::ConfigMap],
    };
    let namespace = text("namespace").unwrap_or(own);
    kinds
        .iter()
        .map(|kind| ObjectKey::new(*kind, namespace, name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(kind: Kind, value: &Value) -> Vec<String> {
        let key = ObjectKey::new(kind, "ns", "x");
        references(&key, value).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn certificates_and_authorities_are_found_wherever_they_stand() {
        let gateway = json!({ "metadata": { "name": "x" }, "spec": {
            "listeners": [{ "name": "https", "tls": { "certificateRefs": [
                { "name": "own" }, { "kind": "Secret", "name": "other", "namespace": "certs" }] } }],
            "tls": { "frontend": { "default": { "validation": { "caCertificateRefs": [
                { "group": "", "kind": "ConfigMap", "name": "ca" }] } } } },
        } });
        let expected = [
            "Secret/certs/other",
            "Secret/ns/own",
            "ConfigMap/ns/ca",
            "ConfigMap/ns/own",
        ];
        assert_eq!(of(Kind::Gateway, &gateway), expected);
        let policy = json!({ "spec": { "oidc": { "clientSecret": { "name": "s" } } } });
        assert_eq!(of(Kind::SecurityPolicy, &policy), ["Secret/ns/s", "ConfigMap/ns/s"]);
    }

    #[test]
    fn a_plain_route_names_none() {
        let route = json!({ "metadata": { "name": "x" }, "spec": {
            "parentRefs": [{ "name": "gw" }],
            "rules": [{ "name": "r", "backendRefs": [{ "name": "svc", "port": 80 }],
                "matches": [{ "headers": [{ "name": "x-a", "value": "b" }] }],
                "filters": [{ "type": "ExtensionRef", "extensionRef": { "group": "gateway.edge", "kind": "HTTPRouteFilter", "name": "f" } }] }],
        } });
        assert_eq!(of(Kind::HttpRoute, &route), [""; 0]);
    }
}
