//! Objects as they come from the API server: any JSON at all, trimmed at once to what is read of them.
//!
//! Nothing of an object but that it is JSON decides whether a watch goes on. What can't be read as its kind is said of
//! that object alone.

use super::references::references;
use crate::{
    cluster::ReadKind,
    state::{Finalizers, Malformed, ObservedStatus},
};
use edge_translate::{
    api::{Kind, Object, ObjectKey, ParentReference},
    load::{custom_from_value, from_value},
    status::has_status,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    core::{ApiResource, DynamicResourceScope},
};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::{borrow::Cow, fmt};

/// What `kubectl apply` leaves on every object: a copy of it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object as it came; `PARTIAL`: its metadata alone was asked for.
#[derive(Clone)]
pub(super) struct Arrived<const PARTIAL: bool> {
    /// Name, namespace, version, and what it waits for before it goes; no more is filled in.
    meta: ObjectMeta,
    value: Value,
}

/// What is kept of an object.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) key: ObjectKey,
    /// Tells this state of the object from others.
    pub(super) version: Box<str>,
    pub(super) content: Content,
    /// Secrets and ConfigMaps that it may name.
    pub(super) references: Box<[ObjectKey]>,
    /// Its status, if it is of a kind into which statuses are written.
    pub(super) seen: Option<ObservedStatus>,
}

/// What an object holds.
#[derive(Debug)]
pub(super) enum Content {
    /// All that is read of it.
    Object(Object),
    /// It is there; what it holds was not asked for.
    Unread,
    /// It can't be read.
    Malformed(Malformed),
}

impl<const PARTIAL: bool> fmt::Debug for Arrived<PARTIAL> {
    /// The name alone: it may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Arrived").field(&self.meta.name).finish()
    }
}

impl<'de, const PARTIAL: bool> Deserialize<'de> for Arrived<PARTIAL> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        let metadata = &mut value["metadata"];
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("managedFields");
        }
        if let Some(annotations) = metadata["annotations"].as_object_mut() {
            annotations.remove(LAST_APPLIED);
        }
        let text = |field: &str| metadata[field].as_str().map(str::to_owned);
        let meta = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            resource_version: text("resourceVersion"),
            finalizers: Option::deserialize(&metadata["finalizers"]).unwrap_or_default(),
            deletion_timestamp: Option::deserialize(&metadata["deletionTimestamp"]).unwrap_or_default(),
            ..ObjectMeta::default()
        };
        Ok(Self { meta, value })
    }
}

impl<const PARTIAL: bool> Resource for Arrived<PARTIAL> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn metadata_api() -> bool {
        PARTIAL
    }

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

impl<const PARTIAL: bool> Arrived<PARTIAL> {
    /// Its identity, as an object of this kind.
    pub(super) fn key(&self, kind: &ReadKind) -> ObjectKey {
        let text = |text: &'_ Option<String>| text.clone().unwrap_or_default();
        kind.key(&text(&self.meta.namespace), &text(&self.meta.name))
    }

    /// Reads it as an object of this kind.
    pub(super) fn take(mut self, kind: &ReadKind, resource: &ApiResource) -> Taken {
        let version: Box<str> = self.meta.resource_version.as_deref().unwrap_or_default().into();
        let key = self.key(kind);
        let seen = self.take_status(kind.kept_as(), &version);
        let is_unread = PARTIAL && kind.kept_as() != Kind::Namespace;
        let (content, references) = match is_unread {
            true => (Content::Unread, Box::default()),
            false => self.read(&key, kind, resource),
        };
        Taken {
            key,
            version,
            content,
            references,
            seen,
        }
    }

    /// The status is no wish of anybody's: whoever writes statuses reads it, and translation never does.
    fn take_status(&mut self, kind: Kind, version: &str) -> Option<ObservedStatus> {
        let status = self.value.as_object_mut().and_then(|object| object.remove("status"));
        has_status(kind).then(|| ObservedStatus {
            version: version.into(),
            status: status.filter(Value::is_object).map(|status| status.to_string().into()),
            finalizers: Finalizers::of(kind, &self.meta),
        })
    }

    fn read(mut self, key: &ObjectKey, kind: &ReadKind, resource: &ApiResource) -> (Content, Box<[ObjectKey]>) {
        let references = references(key, &self.value);
        let generation = self.value["metadata"]["generation"].as_i64().unwrap_or_default();
        let parents = parents(&self.value);
        // Items of a list don't say what they are, and of an object of which only the metadata came that is all it
        // says.
        self.value["apiVersion"] = resource.api_version.as_str().into();
        self.value["kind"] = resource.kind.as_str().into();
        let known = kind.versions();
        let read = match kind {
            // At another version the same words may mean something else.
            _ if !known.contains(&&*resource.version) => {
                let (served, known) = (&resource.version, known.join(", "));
                Err(format!("it is served as {served}, and read as {known}"))
            }
            ReadKind::Known(_) => from_value(&self.value).map_err(|fault| fault.message),
            ReadKind::Custom(kind) => custom_from_value(kind, &self.value)
                .map(|object| (object, Vec::new()))
                .map_err(|fault| fault.message),
        };
        match read {
            Ok((object, remarks)) => {
                for remark in remarks {
                    tracing::debug!(object = %key, "{}", remark.message);
                }
                (Content::Object(object), references)
            }
            Err(message) => {
                let malformed = Malformed {
                    message: message.into(),
                    generation,
                    parents: parents.into(),
                };
                (Content::Malformed(malformed), references)
            }
        }
    }
}

/// What a route says it belongs to, as far as that can be read.
fn parents(value: &Value) -> Vec<ParentReference> {
    let list = value["spec"]["parentRefs"].as_array().into_iter().flatten();
    list.filter_map(|parent| serde_json::from_value(parent.clone()).ok())
        .collect()
}
