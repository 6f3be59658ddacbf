//! Responses, as entries of a snapshot until they are put on the wire.

use crate::{
    snapshot::{Entry, ResourceType},
    wire::{put_bytes, put_message, put_str},
};
use bytes::Bytes;
use envoy_types::pb::{
    envoy::service::discovery::v3::{DeltaDiscoveryResponse, Resource},
    google::protobuf::Any,
};
use std::sync::Arc;

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
}

impl Response {
    /// Names of all resources that it speaks of.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.resources.iter().map(|entry| &entry.name).chain(&self.removed)
    }

    /// The message as a struct; copies every body.
    pub fn to_message(&self) -> DeltaDiscoveryResponse {
        let resource = |entry: &Arc<Entry>| Resource {
            name: entry.name.to_string(),
            version: entry.version_text(),
            resource: Some(Any {
                type_url: self.kind.type_url().to_owned(),
                value: entry.body.contiguous().into(),
            }),
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

    /// The encoded message; copies every body once.
    pub fn encode(&self) -> Bytes {
        let size: usize = self.resources.iter().map(|entry| size_of_entry(entry)).sum();
        let mut out = Vec::with_capacity(size + 256);
        for entry in &self.resources {
            put_message(&mut out, RESOURCES, |out| {
                put_str(out, RESOURCE_VERSION, &entry.version_text());
                put_message(out, RESOURCE_BODY, |out| {
                    put_str(out, ANY_TYPE_URL, self.kind.type_url());
                    put_bytes(out, ANY_VALUE, &entry.body.contiguous());
                });
                put_str(out, RESOURCE_NAME, &entry.name);
            });
        }
        put_str(&mut out, TYPE_URL, self.kind.type_url());
        put_str(&mut out, NONCE, &self.nonce);
        self.removed.iter().for_each(|name| put_str(&mut out, REMOVED, name));
        out.into()
    }
}

/// Bytes that an entry takes in a response, roughly.
pub(super) fn size_of_entry(entry: &Entry) -> usize {
    entry.body.len() + entry.name.len() + 128
}

/// Fields of `DeltaDiscoveryResponse`.
const RESOURCES: u32 = 2;
const TYPE_URL: u32 = 4;
const NONCE: u32 = 5;
const REMOVED: u32 = 6;
/// Fields of `Resource`.
const RESOURCE_VERSION: u32 = 1;
const RESOURCE_BODY: u32 = 2;
const RESOURCE_NAME: u32 = 3;
/// Fields of `google.protobuf.Any`.
const ANY_TYPE_URL: u32 = 1;
const ANY_VALUE: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Body;
    use prost::Message;

    #[test]
    fn the_encoding_reads_back_as_the_message() {
        let entry = |name: &str, body: &'static str| {
            Arc::new(Entry::new(
                name,
                Body::Whole(Bytes::from_static(body.as_bytes())),
                [].into(),
            ))
        };
        let response = Response {
            kind: ResourceType::Cluster,
            nonce: "7".to_owned(),
            resources: vec![entry("a", "short"), entry("b", "")],
            removed: vec!["c".into()],
        };
        let decoded = DeltaDiscoveryResponse::decode(response.encode()).unwrap();
        assert_eq!(decoded, response.to_message());
        assert_eq!(decoded.resources[0].version.len(), 16);
    }
}
