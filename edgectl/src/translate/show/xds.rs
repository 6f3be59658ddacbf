//! Dumps of what the proxies of a fleet are sent.

use crate::translate::Outcome;
use anyhow::Result;
use edge_ir::FleetKey;
use edge_xds::{
    json::{Codec, Names},
    snapshot::{Entry, ResourceType, Snapshot},
};
use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeMap, SerializeSeq},
};

/// Parts of xDS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum XdsPart {
    /// Everything below.
    All,
    /// What a proxy starts with.
    Bootstrap,
    /// Endpoints of clusters.
    Endpoint,
    /// Clusters.
    Cluster,
    /// Listeners.
    Listener,
    /// Route configurations.
    Route,
}

impl XdsPart {
    fn name(self) -> &'static str {
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

/// The dump of every fleet: one document, or a list where there are several.
pub struct Dumps<'a> {
    part: XdsPart,
    fleets: Vec<(&'a FleetKey, &'a Snapshot)>,
}

impl<'a> Dumps<'a> {
    /// Dumps of an outcome.
    pub fn new(outcome: &'a Outcome, part: XdsPart) -> Result<Self> {
        Ok(Self {
            part,
            fleets: outcome.snapshots.iter().collect(),
        })
    }
}

impl Serialize for Dumps<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let dumps: Vec<_> = self
            .fleets
            .iter()
            .map(|(key, snapshot)| Dump {
                key,
                snapshot,
                part: self.part,
            })
            .collect();
        match &dumps[..] {
            [dump] => dump.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

struct Dump<'a> {
    key: &'a FleetKey,
    snapshot: &'a Snapshot,
    part: XdsPart,
}

impl Serialize for Dump<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("configKey", &self.key.replace('/', "-"))?;
        let (list, inner, kind) = match self.part {
            XdsPart::Endpoint => ("dynamicEndpointConfigs", "endpointConfig", ResourceType::Endpoints),
            XdsPart::Cluster => ("dynamicActiveClusters", "cluster", ResourceType::Cluster),
            XdsPart::Listener => ("dynamicListeners", "listener", ResourceType::Listener),
            _ => ("dynamicRouteConfigs", "routeConfig", ResourceType::Routes),
        };
        map.serialize_entry(
            list,
            &Entries {
                entries: self.snapshot.section(kind).entries(),
                inner,
                kind,
            },
        )?;
        map.serialize_entry("resourceType", self.part.name())?;
        map.end()
    }
}

struct Entries<'a> {
    entries: &'a [std::sync::Arc<Entry>],
    inner: &'static str,
    kind: ResourceType,
}

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.entries.len()))?;
        for entry in self.entries {
            let value = Codec::cached()
                .and_then(|c| c.bytes_to_json(self.kind.type_url(), &entry.body.contiguous(), Names::Camel))
                .map_err(S::Error::custom)?;
            seq.serialize_element(&serde_json::json!({ self.inner: value }))?;
        }
        seq.end()
    }
}
