//! Configuration as people look at it: the shape of a proxy's `/config_dump`, made offline from a snapshot.
//!
//! A [`Dump`] serialises straight from the encoded resources, one at a time, into whatever format the caller writes.
//! Secrets are not part of any dump.

use crate::{
    bootstrap::{BootstrapSettings, default_bootstrap},
    json::{Codec, JsonError, Names, full_name},
    snapshot::{Body, Entry, ResourceType, Snapshot},
};
use edge_ir::FleetKey;
use envoy_types::pb::envoy::config::bootstrap::v3::Bootstrap;
use prost::Name;
use serde::{
    Serialize, Serializer,
    ser::{Error, SerializeMap},
};
use serde_json::Value;
use std::{collections::BTreeSet, str::FromStr, sync::Arc};

#[cfg(test)]
mod tests;

/// What a dump shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpKind {
    /// Everything.
    All,
    /// What the proxy starts with.
    Bootstrap,
    /// Endpoints.
    Endpoint,
    /// Clusters.
    Cluster,
    /// Listeners.
    Listener,
    /// Route configurations.
    Route,
}

impl DumpKind {
    /// All kinds.
    pub const EVERY: [Self; 6] = [
        Self::All,
        Self::Bootstrap,
        Self::Endpoint,
        Self::Cluster,
        Self::Listener,
        Self::Route,
    ];

    /// The name, as `resourceType` and as an argument.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Bootstrap => "bootstrap",
            Self::Endpoint => "endpoint",
            Self::Cluster => "cluster",
            Self::Listener => "listener",
            Self::Route => "route",
        }
    }
}

impl FromStr for DumpKind {
    type Err = UnknownDumpKind;

    fn from_str(text: &str) -> Result<Self, UnknownDumpKind> {
        Self::EVERY
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| UnknownDumpKind(text.to_owned()))
    }
}

/// Not the name of a dump.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of all, bootstrap, endpoint, cluster, listener, route")]
pub struct UnknownDumpKind(String);

/// A codec for these resources and these bootstraps: a fraction of the whole. Types that stand inside an `Any` are
/// found by their URLs, wherever these are in the bytes; a text that only looks like one costs nothing.
pub fn codec<'a>(
    bootstraps: impl IntoIterator<Item = &'a Value>,
    snapshots: impl IntoIterator<Item = &'a Snapshot>,
) -> Result<Codec, JsonError> {
    let of_resources = ResourceType::ALL.map(|kind| full_name(kind.type_url()).to_owned());
    let mut names = BTreeSet::from(of_resources);
    names.insert(Bootstrap::full_name());
    for bootstrap in bootstraps {
        let mut found = Vec::new();
        crate::json::collect_types(bootstrap, &mut found);
        names.extend(found);
    }
    for snapshot in snapshots {
        let sections = ResourceType::ALL.into_iter().map(|kind| snapshot.section(kind));
        for run in sections
            .flat_map(|section| section.entries())
            .flat_map(|entry| entry.body.runs())
        {
            collect_urls(run, &mut names);
        }
    }
    Codec::for_known(names.iter().map(String::as_str))
}

/// Adds the types whose URLs stand in an encoded message. What is behind a URL may be a letter as well, so its end is
/// told by its length, which is in front of it.
fn collect_urls(bytes: &[u8], names: &mut BTreeSet<String>) {
    const PREFIX: &[u8] = b"type.googleapis.com/";
    let mut at = 0;
    while let Some(next) = bytes[at..].iter().position(|byte| *byte == PREFIX[0]) {
        at += next;
        if bytes[at..].starts_with(PREFIX) {
            let length = match bytes[..at] {
                [.., low, high] if low >= 0x80 => usize::from(low & 0x7f) | usize::from(high) << 7,
                [.., length] => usize::from(length),
                [] => 0,
            };
            let name = bytes.get(at + PREFIX.len()..at + length).unwrap_or_default();
            if let Ok(name) = std::str::from_utf8(name)
                && !names.contains(name)
            {
                names.insert(name.to_owned());
            }
        }
        at += 1;
    }
}

/// The dump of a fleet whose proxies start with the usual bootstrap. Who dumps many keeps a [`codec`] for all of them.
pub fn show(kind: DumpKind, key: &FleetKey, snapshot: &Snapshot) -> Result<Value, JsonError> {
    let bootstrap = default_bootstrap(&BootstrapSettings::default());
    let codec = codec([&bootstrap], [snapshot])?;
    Dump::new(&codec, kind, key, snapshot, &bootstrap)?.to_value()
}

/// One fleet's configuration, ready to be written.
#[derive(Debug)]
pub struct Dump<'a> {
    codec: &'a Codec,
    kind: DumpKind,
    key: &'a FleetKey,
    snapshot: &'a Snapshot,
    bootstrap: Value,
}

impl<'a> Dump<'a> {
    /// A dump of a fleet. The bootstrap is read strictly, as it is when a proxy starts.
    pub fn new(
        codec: &'a Codec,
        kind: DumpKind,
        key: &'a FleetKey,
        snapshot: &'a Snapshot,
        bootstrap: &Value,
    ) -> Result<Self, JsonError> {
        let shown = matches!(kind, DumpKind::All | DumpKind::Bootstrap);
        let bootstrap = if shown {
            let message: Bootstrap = codec.from_json(bootstrap.clone())?;
            codec.to_json(&message, Names::Camel)?
        } else {
            Value::Null
        };
        Ok(Self {
            codec,
            kind,
            key,
            snapshot,
            bootstrap,
        })
    }

    /// The dump as a value.
    pub fn to_value(&self) -> Result<Value, JsonError> {
        let message = |error: serde_json::Error| error.to_string();
        serde_json::to_value(self).map_err(|error| JsonError::Malformed {
            name: self.kind.as_str().to_owned(),
            message: message(error),
        })
    }

    fn part(&self, kind: DumpKind) -> Part<'_> {
        Part { dump: self, kind }
    }
}

impl Serialize for Dump<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("configKey", &dashed(self.key))?;
        if self.kind == DumpKind::All {
            let kinds = [
                DumpKind::Bootstrap,
                DumpKind::Endpoint,
                DumpKind::Cluster,
                DumpKind::Listener,
                DumpKind::Route,
            ];
            map.serialize_entry("configs", &kinds.map(|kind| self.part(kind)))?;
        } else {
            self.part(self.kind).serialize_fields(&mut map)?;
        }
        map.serialize_entry("resourceType", self.kind.as_str())?;
        map.end()
    }
}

/// The dump of one kind, without the frame.
struct Part<'a> {
    dump: &'a Dump<'a>,
    kind: DumpKind,
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.serialize_fields(&mut map)?;
        map.end()
    }
}

impl Part<'_> {
    fn serialize_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let (message, list, field, kind) = match self.kind {
            DumpKind::Endpoint => (
                "EndpointsConfigDump",
                "dynamicEndpointConfigs",
                "endpointConfig",
                ResourceType::Endpoints,
            ),
            DumpKind::Cluster => (
                "ClustersConfigDump",
                "dynamicActiveClusters",
                "cluster",
                ResourceType::Cluster,
            ),
            DumpKind::Listener => (
                "ListenersConfigDump",
                "dynamicListeners",
                "listener",
                ResourceType::Listener,
            ),
            DumpKind::Route => (
                "RoutesConfigDump",
                "dynamicRouteConfigs",
                "routeConfig",
                ResourceType::Routes,
            ),
            DumpKind::All | DumpKind::Bootstrap => {
                map.serialize_entry("@type", "type.googleapis.com/envoy.admin.v3.BootstrapConfigDump")?;
                return map.serialize_entry("bootstrap", &self.dump.bootstrap);
            }
        };
        map.serialize_entry("@type", &format!("type.googleapis.com/envoy.admin.v3.{message}"))?;
        let entries = self.dump.snapshot.section(kind).entries();
        let item = |entry| Item {
            codec: self.dump.codec,
            kind,
            field,
            entry,
        };
        let items: Vec<Item<'_>> = entries.iter().map(item).collect();
        // A list without elements is a default, and defaults are left out.
        if items.is_empty() {
            Ok(())
        } else {
            map.serialize_entry(list, &items)
        }
    }
}

/// An element of a part's list.
struct Item<'a> {
    codec: &'a Codec,
    kind: ResourceType,
    field: &'static str,
    entry: &'a Arc<Entry>,
}

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let resource = Resource {
            codec: self.codec,
            kind: self.kind,
            entry: self.entry,
        };
        if self.kind == ResourceType::Listener {
            map.serialize_entry("name", &*self.entry.name)?;
            map.serialize_entry("activeState", &ActiveState { listener: resource })?;
        } else {
            map.serialize_entry(self.field, &resource)?;
        }
        map.end()
    }
}

/// The frame around a listener that takes connections.
#[derive(Serialize)]
struct ActiveState<'a> {
    listener: Resource<'a>,
}

/// An encoded resource.
struct Resource<'a> {
    codec: &'a Codec,
    kind: ResourceType,
    entry: &'a Arc<Entry>,
}

impl Serialize for Resource<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (url, names) = (self.kind.type_url(), Names::Camel);
        let renamed = || dashed(&self.entry.name);
        if let (ResourceType::Routes, Body::Rope(rope)) = (self.kind, &self.entry.body) {
            return self.codec.serialize_rope(url, rope, names, &renamed(), serializer);
        }
        let body = self.entry.body.contiguous();
        match self.kind {
            ResourceType::Routes => self
                .codec
                .serialize_any(url, &body, names, Some(&renamed()), serializer),
            ResourceType::Listener => {
                let mut value = self
                    .codec
                    .serialize_any(url, &body, names, None, serde_json::value::Serializer);
                value.iter_mut().for_each(dash_table_names);
                value.map_err(S::Error::custom)?.serialize(serializer)
            }
            _ => self.codec.serialize_any(url, &body, names, None, serializer),
        }
    }
}

/// Names of route configurations are printed with dashes, wherever they stand.
fn dash_table_names(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(name) if key == "routeConfigName" => *name = dashed(name),
                    value => dash_table_names(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(dash_table_names),
        _ => {}
    }
}

fn dashed(name: &str) -> String {
    name.replace('/', "-")
}
