//! Showing parts of an [`Outcome`]: statuses on their objects, the intermediate representation, xDS dumps.
//!
//! Everything is written to the output as it is serialised; only the statuses pass through JSON values, because they
//! are laid over objects of all kinds.

use super::{Outcome, Target};
use crate::cli::OutputFormat;
use anyhow::Result;
use edge_ir::{Fleet, FleetKey, Infra};
use edge_xds::{
    dump::DumpKind,
    limits::{Domains, RateLimits},
};
use serde::Serialize;
use serde_json::{Map, Value};
use std::{collections::BTreeMap, io::Write};

mod resources;
mod xds;

pub use resources::status_of;
pub use xds::Dumps;

/// Everything that was asked for, in one document.
#[derive(Serialize)]
struct Shown<'a> {
    /// The resources, at the top.
    #[serde(flatten)]
    resources: Option<Map<String, Value>>,
    #[serde(rename = "xdsIR", skip_serializing_if = "Option::is_none")]
    fleets: Option<BTreeMap<&'a FleetKey, &'a Fleet>>,
    #[serde(rename = "infraIR", skip_serializing_if = "Option::is_none")]
    infra: Option<BTreeMap<&'a FleetKey, &'a Infra>>,
    #[serde(rename = "rateLimits", skip_serializing_if = "Domains::is_empty")]
    limits: Domains,
    #[serde(skip_serializing_if = "Option::is_none")]
    xds: Option<Dumps<'a>>,
}

/// Writes what was asked for. xDS alone stands at the top; among others it has a key of its own.
pub fn write(
    outcome: &Outcome,
    targets: &[Target],
    part: DumpKind,
    format: OutputFormat,
    out: &mut impl Write,
) -> Result<()> {
    let xds = || Dumps::new(outcome, part);
    if targets.iter().all(|target| *target == Target::Xds) {
        return write_value(&xds()?, format, out);
    }
    let wants = |target| targets.contains(&target);
    let shown = Shown {
        resources: wants(Target::GatewayApi)
            .then(|| resources::with_statuses(outcome))
            .transpose()?,
        fleets: wants(Target::Ir).then(|| fleets(outcome)),
        infra: wants(Target::Ir).then(|| infra(outcome)),
        limits: if wants(Target::Ir) {
            limits(outcome)
        } else {
            Domains::default()
        },
        xds: wants(Target::Xds).then(xds).transpose()?,
    };
    write_value(&shown, format, out)
}

/// What each fleet does.
pub fn fleets(outcome: &Outcome) -> BTreeMap<&FleetKey, &Fleet> {
    outcome
        .translation
        .fleets
        .iter()
        .map(|(key, fleet)| (key, &**fleet))
        .collect()
}

/// What must exist around each fleet.
pub fn infra(outcome: &Outcome) -> BTreeMap<&FleetKey, &Infra> {
    outcome
        .translation
        .infra
        .iter()
        .map(|(key, infra)| (key, &**infra))
        .collect()
}

/// What the service of global rate limits is told.
pub fn limits(outcome: &Outcome) -> Domains {
    RateLimits::new().domains(&outcome.translation.fleets)
}

/// Writes one document.
pub fn write_value(value: &impl Serialize, format: OutputFormat, out: &mut impl Write) -> Result<()> {
    match format {
        OutputFormat::Yaml => {
            // Long values stay on their line: that is easier to search, to compare, and to read back.
            let options = serde_yaml::ser_options! { folded_wrap_chars: usize::MAX };
            serde_yaml::to_io_writer_with_options(out, value, options)?;
        }
        OutputFormat::Json => {
            serde_json::to_writer_pretty(&mut *out, value)?;
            writeln!(out)?;
        }
    }
    Ok(())
}
