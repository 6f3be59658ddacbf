//! Dumps of what the proxies of each fleet start with and are sent.

use crate::translate::Outcome;
use anyhow::{Context as _, Result};
use edge_ir::{FleetKey, ProxySettings};
use edge_xds::{
    bootstrap::{BootstrapSettings, bootstrap},
    dump::{self, Dump, DumpKind},
    json::Codec,
    snapshot::Snapshot,
};
use serde::{Serialize, Serializer, ser::Error as _};
use serde_json::Value;

/// The dump of every fleet: one document, or a list where there are several. It is made while it is written.
pub struct Dumps<'a> {
    kind: DumpKind,
    codec: Codec,
    fleets: Vec<FleetDump<'a>>,
}

struct FleetDump<'a> {
    key: &'a FleetKey,
    snapshot: &'a Snapshot,
    bootstrap: Value,
}

impl<'a> Dumps<'a> {
    /// Dumps of an outcome.
    pub fn new(outcome: &'a Outcome, kind: DumpKind) -> Result<Self> {
        let fleets: Vec<FleetDump<'_>> = outcome
            .snapshots
            .iter()
            .map(|(key, snapshot)| {
                Ok(FleetDump {
                    key,
                    snapshot,
                    bootstrap: bootstrap_of(outcome, key)?,
                })
            })
            .collect::<Result<_>>()?;
        let codec = dump::codec(
            fleets.iter().map(|fleet| &fleet.bootstrap),
            fleets.iter().map(|fleet| fleet.snapshot),
        )?;
        Ok(Self { kind, codec, fleets })
    }

    fn dump<E: serde::ser::Error>(&'a self, fleet: &'a FleetDump<'a>) -> Result<Dump<'a>, E> {
        Dump::new(&self.codec, self.kind, fleet.key, fleet.snapshot, &fleet.bootstrap).map_err(E::custom)
    }
}

/// What the proxies of a fleet start with, the controller under its short name. A fleet without infrastructure has a
/// Gateway whose EdgeProxy is refused, as its condition says: what it would start with anew is the default.
fn bootstrap_of(outcome: &Outcome, key: &FleetKey) -> Result<Value> {
    let default = ProxySettings {
        prometheus: true,
        ..ProxySettings::default()
    };
    let infra = outcome.translation.infra.get(key);
    let proxy = infra.map_or(&default, |infra| &*infra.proxy);
    let settings = BootstrapSettings::at(outcome.start_place, key, proxy);
    bootstrap(&settings, proxy).with_context(|| format!("the bootstrap of {key} can't be made"))
}

impl Serialize for Dumps<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.fleets[..] {
            [fleet] => self.dump(fleet)?.serialize(serializer),
            fleets => {
                let dumps = fleets
                    .iter()
                    .map(|fleet| self.dump(fleet))
                    .collect::<Result<Vec<_>, S::Error>>();
                dumps.map_err(S::Error::custom)?.serialize(serializer)
            }
        }
    }
}
