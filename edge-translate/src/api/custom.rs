//! Objects of kinds that only extension services know: the configuration names these kinds, and nobody here reads more
//! of them than their metadata and, of policies, whom they are for.

use crate::api::Text;
use crate::api::{Kind, Metadata};
use serde::Deserialize as _;
use serde_json::Value;
use std::sync::Arc;

/// A kind that the configuration names for extension services.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CustomKind {
    /// API group.
    pub group: Text,
    /// The version that is read.
    pub version: Text,
    /// Its name.
    pub kind: Text,
    /// What its objects are.
    pub role: CustomRole,
}

/// What objects of such a kind are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CustomRole {
    /// What routes refer to.
    Resource,
    /// Policies, which say themselves whom they are for.
    Policy,
}

impl CustomKind {
    /// The kind under which its objects are kept.
    pub fn kept_as(&self) -> Kind {
        match self.role {
            CustomRole::Resource => Kind::Custom,
            CustomRole::Policy => Kind::CustomPolicy,
        }
    }

    /// What tells an object of this name from those of other kinds: `<kind>.<group>/<name>`.
    pub fn key_name(&self, name: &str) -> String {
        key_name(&self.group, &self.kind, name)
    }

    /// The `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}

/// See [`CustomKind::key_name`].
pub(crate) fn key_name(group: &str, kind: &str, name: &str) -> String {
    format!("{kind}.{group}/{name}")
}

/// An object of such a kind.
#[derive(Clone, Debug)]
pub struct CustomObject {
    /// Name, labels and the like.
    pub metadata: Metadata,
    /// The object as extension services are shown it.
    pub content: Arc<edge_ir::CustomObject>,
    /// All of it, its status included.
    pub value: Arc<Value>,
}

/// A status is no wish, whoever writes it: it doesn't count.
impl PartialEq for CustomObject {
    fn eq(&self, other: &Self) -> bool {
        self.metadata == other.metadata && self.content == other.content
    }
}

impl CustomObject {
    /// Reads an object of a kind; in this namespace, where it names none.
    pub(crate) fn read(kind: &CustomKind, mut value: Value, namespace: &Arc<str>) -> Result<Self, String> {
        if let Some(fields) = value["metadata"].as_object_mut() {
            // What is null isn't there, as in objects of other kinds.
            fields.retain(|_, field| !field.is_null());
        }
        let mut metadata = Metadata::deserialize(&value["metadata"]).map_err(|error| format!("metadata: {error}"))?;
        if metadata.name.is_empty() {
            return Err("the field `metadata.name` is missing: give the resource a name".to_owned());
        }
        if metadata.namespace.is_empty() {
            metadata.namespace = Arc::clone(namespace);
            value["metadata"]["namespace"] = (**namespace).into();
        }
        metadata.uid = None;
        let content = edge_ir::CustomObject {
            group: (*kind.group).into(),
            kind: (*kind.kind).into(),
            namespace: Arc::clone(&metadata.namespace),
            name: Arc::clone(&metadata.name),
            json: shown(value.clone()).to_string().into(),
        };
        Ok(Self {
            metadata,
            content: Arc::new(content),
            value: Arc::new(value),
        })
    }

    /// What tells it from others in its namespace.
    pub(crate) fn key_name(&self) -> String {
        key_name(&self.content.group, &self.content.kind, &self.content.name)
    }
}

/// What of an object is its author's: a service must not be asked anew because somebody has written a status.
fn shown(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_is_shown_what_the_author_wrote() {
        let kind = CustomKind {
            group: "a.example".into(),
            version: "v1".into(),
            kind: "Cache".into(),
            role: CustomRole::Resource,
        };
        let value = json!({
            "apiVersion": "a.example/v1", "kind": "Cache",
            "metadata": {
                "name": "x", "annotations": null, "labels": null, "generation": 3, "resourceVersion": "7", "managedFields": [],
            },
            "spec": { "seconds": 60, "none": null }, "status": { "x": 1 },
        });
        let read = CustomObject::read(&kind, value, &"ns".into()).unwrap();
        assert_eq!(read.key_name(), "Cache.a.example/x");
        let shown: Value = serde_json::from_str(&read.content.json).unwrap();
        let expected = json!({
            "apiVersion": "a.example/v1", "kind": "Cache",
            "metadata": { "name": "x", "namespace": "ns", "generation": 3 },
            "spec": { "seconds": 60, "none": null },
        });
        assert_eq!(shown, expected);
    }
}
