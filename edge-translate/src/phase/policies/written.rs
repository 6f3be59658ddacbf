//! What a policy says besides what it is for, as it was written, with the home of each reference.

use super::merge;
use crate::api::{Generic, Kind, MergeType};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Fields that hold references, or lists of them.
pub(super) const REFERENCES: [&str; 9] = [
    "backendRef",
    "backendRefs",
    "caCertificateRef",
    "clientIDRef",
    "clientSecret",
    "credentialRefs",
    "pullSecretRef",
    "users",
    "valueRef",
];

/// Fields whose values are handed on as they are.
const FREE: [&str; 2] = ["config", "filterContext"];

/// Where a reference says in which namespace it was written.
pub(super) const HOME: &str = "~home";

/// What a policy says besides what it is for. Each reference says in which namespace it was written, so that it leads
/// to the same object and needs the same permission wherever it is merged into.
pub(super) fn homed(policy: &Generic) -> Map<String, Value> {
    let mut fields = match &policy.spec {
        Value::Object(fields) => fields.clone(),
        Value::Null => Map::new(),
        // Read as what it isn't, and refused for that.
        other => Map::from_iter([("spec".to_owned(), other.clone())]),
    };
    fields.retain(|field, _| !merge::OWN.contains(&field.as_str()));
    fields
        .values_mut()
        .for_each(|value| settle(value, &policy.metadata.namespace));
    fields
}

/// Whose filters are those of a policy.
pub(super) fn owner(kind: Kind, policy: &Generic) -> Arc<str> {
    let (kind, metadata) = (kind.as_str().to_ascii_lowercase(), &policy.metadata);
    format!("{kind}/{}/{}", metadata.namespace, metadata.name).into()
}

/// What a policy says laid over that of a parent, and whose filters those of both are.
pub(super) fn merged(kind: Kind, above: &Generic, below: &Generic, how: &MergeType) -> (Map<String, Value>, Arc<str>) {
    let mut both = homed(below);
    merge::lay(&mut both, homed(above), how);
    (both, format!("{}+{}", owner(kind, above), owner(kind, below)).into())
}

/// Whether a policy refers to nothing, so that it says the same wherever it stands.
pub(super) fn is_free(policy: &Generic) -> bool {
    policy.spec.is_object() && !refers(&policy.spec)
}

/// What a policy says besides what it is for, as it stands there.
pub(super) fn own_fields(policy: &Generic) -> impl Iterator<Item = (&String, &Value)> {
    let fields = policy.spec.as_object().into_iter().flatten();
    fields.filter(|(field, _)| !merge::OWN.contains(&field.as_str()))
}

fn refers(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            let mut bound = fields.iter().filter(|(name, _)| !FREE.contains(&name.as_str()));
            bound.any(|(name, value)| match value {
                Value::Object(_) | Value::Array(_) => REFERENCES.contains(&name.as_str()) || refers(value),
                _ => false,
            })
        }
        Value::Array(list) => list.iter().any(refers),
        _ => false,
    }
}

fn settle(value: &mut Value, home: &str) {
    match value {
        Value::Object(fields) => {
            let bound = fields.iter_mut().filter(|(name, _)| !FREE.contains(&name.as_str()));
            for (name, value) in bound {
                if REFERENCES.contains(&name.as_str()) {
                    let references = match &mut *value {
                        Value::Array(list) => list.as_mut_slice(),
                        one => std::slice::from_mut(one),
                    };
                    let references = references.iter_mut().filter_map(Value::as_object_mut);
                    references.for_each(|fields| {
                        fields.insert(HOME.to_owned(), home.into());
                    });
                }
                settle(value, home);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| settle(value, home)),
        _ => {}
    }
}
