//! Responses, as entries of a snapshot until they are put on the wire.

use crate::{
    lookup::{HostForm, with_matchers},
    parts,
    snapshot::{Entry, ResourceType},
};
use envoy_types::pb::{
    envoy::service::discovery::v3::{DeltaDiscoveryResponse, Resource},
    google::protobuf::Any,
};
use prost::Message;
use std::{collections::BTreeMap, sync::Arc};

/// What is sent of one kind at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The kind of the resources.
    pub kind: ResourceType,
    /// Names this response on its stream.
    pub nonce: String,
    /// New and changed resources.
    pub resources: Vec<Arc<Entry>>,
    /// Resources that are gone, or never were.
    pub removed: Vec<Arc<str>>,
    /// Of some resources by name: the version that the proxy has, and by whose difference it is told.
    pub bases: BTreeMap<Arc<str>, Arc<Entry>>,
    /// How large virtual hosts are told.
    pub hosts: HostForm,
}

impl Response {
    /// Names of all resources that it speaks of.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.resources.iter().map(|entry| &entry.name).chain(&self.removed)
    }

    /// The message; copies every body, or what differs from its base.
    pub fn to_message(&self) -> DeltaDiscoveryResponse {
        let resource = |entry: &Arc<Entry>| Resource {
            name: entry.name.to_string(),
            version: entry.version_text(),
            resource: Some(self.content(entry)),
            ..Default::default()
        };
        DeltaDiscoveryResponse {
            type_url: self.kind.type_url().to_owned(),
            nonce: self.nonce.clone(),
            resources: self.resources.iter().map(resource).collect(),
            removed_resources: self.removed.iter().map(|name| name.to_string()).collect(),
            ..Default::default()
        }
    }

    fn content(&self, entry: &Entry) -> Any {
        let base = self.bases.get(&entry.name);
        match base.and_then(|base| parts::between(base, entry)) {
            Some(parts) => Any {
                type_url: parts::TYPE_URL.to_owned(),
                value: parts.encode_to_vec(),
            },
            None => Any {
                type_url: self.kind.type_url().to_owned(),
                value: match (self.kind, self.hosts) {
                    (ResourceType::Routes, HostForm::Matcher) => with_matchers(&entry.body).into(),
                    _ => entry.body.contiguous().into(),
                },
            },
        }
    }
}

/// Bytes that an entry takes in a response, roughly.
pub(super) fn size_of_entry(entry: &Entry) -> usize {
    entry.body.len() + entry.name.len() + 128
}
