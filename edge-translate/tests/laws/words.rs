//! The few words that generated worlds are made of, so that everything collides with everything.
//!
//! Objects are written as JSON, as an API server would send them, and read by the loader: what the laws see is what a
//! user can write. An absent field is `null` while generating and taken out before reading.

use edge_translate::{
    api::{CustomKind, CustomRole, Object},
    load,
};
use proptest::{option, prelude::*, sample};
use serde_json::{Value, json};

/// One of a few words.
pub(crate) fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> + Clone {
    sample::select(words)
}

/// One of a few numbers.
pub(crate) fn number(numbers: &'static [u32]) -> impl Strategy<Value = u32> + Clone {
    sample::select(numbers)
}

/// A word, or nothing.
pub(crate) fn maybe(words: &'static [&'static str]) -> impl Strategy<Value = Option<&'static str>> + Clone {
    option::of(sample::select(words))
}

pub(crate) const NAMESPACES: &[&str] = &["a", "b"];
pub(crate) const GATEWAYS: &[&str] = &["g0", "g1"];
pub(crate) const CLASSES: &[&str] = &["plain", "plain", "plain", "merged", "merged", "missing"];
pub(crate) const LISTENERS: &[&str] = &["l0", "l1", "l2", "l3"];
pub(crate) const SERVICES: &[&str] = &["s0", "s1"];
pub(crate) const BACKENDS: &[&str] = &["b0", "b1"];
pub(crate) const SECRETS: &[&str] = &["c0", "c1", "c2"];
/// Names of objects that only extension services know.
pub(crate) const CUSTOM: &[&str] = &["q0", "q1"];
/// Names of ListenerSets.
pub(crate) const SETS: &[&str] = &["t0", "t1"];
/// Names of ConfigMaps with certificates of authorities.
pub(crate) const AUTHORITIES: &[&str] = &["ca0", "ca1"];
pub(crate) const PROXIES: &[&str] = &["p0", "p1"];
pub(crate) const HOSTNAMES: &[&str] = &[
    "example.com",
    "a.example.com",
    "A.Example.Com",
    "b.a.example.com",
    "*.example.com",
    "*.a.example.com",
    "*.com",
];
/// 10080 is where port 80 is bound.
pub(crate) const LISTENER_PORTS: &[u32] = &[80, 80, 80, 443, 443, 8080, 8443, 10080];
pub(crate) const SERVICE_PORTS: &[u32] = &[80, 81];

/// Metadata of an object in one of the namespaces. Creation times tie often.
pub(crate) fn metadata(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    (
        one_of(NAMESPACES),
        one_of(names),
        maybe(&["2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"]),
        0..3_i64,
        option::weighted(0.2, one_of(&["gateway.edge/note", "example.com/note"])),
        maybe(&["x", "x", "y"]),
    )
        .prop_map(|(namespace, name, created, generation, annotation, team)| {
            let annotations = annotation.map(|key| json!({ key: "x" }));
            let labels = team.map(|team| json!({"team": team}));
            json!({
                "namespace": namespace, "name": name, "creationTimestamp": created, "generation": generation,
                "annotations": annotations, "labels": labels,
            })
        })
}

/// Takes absent fields out.
pub(crate) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// The group of kinds that only extension services know.
pub(crate) const CUSTOM_GROUP: &str = "sample.example.com";

/// The kind that an object is of, if only extension services know it.
fn custom(value: &Value) -> Option<CustomKind> {
    let (group, version) = value["apiVersion"].as_str()?.split_once('/')?;
    let kind = value["kind"].as_str().filter(|_| group == CUSTOM_GROUP)?;
    Some(CustomKind {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        role: CustomRole::Resource,
    })
}

/// Reads a generated object. What can't be read at all is a mistake of the generator.
pub(crate) fn read(value: Value) -> Object {
    let value = without_nulls(value);
    let read = match custom(&value) {
        Some(kind) => load::custom_from_value(&kind, &value),
        None => load::from_value(&value).map(|(object, _)| object),
    };
    read.unwrap_or_else(|warning| panic!("{}: {value}", warning.message))
}
