//! Follows a stream of changes on standard input, one JSON object a line as a watch of an API server tells them:
//! `{"type": "ADDED" | "MODIFIED" | "DELETED", "object": {…}}`. After each it writes what is another: a line for each
//! status, and for each resource that the proxies of a fleet are sent or lose.

use anyhow::{Context, Result};
use edge_ir::FleetKey;
use edge_translate::{Change, Settings, Translator, load};
use edge_xds::{
    lower::Lowering,
    snapshot::{ResourceType, Snapshot, diff},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{self, BufRead, Write},
};

/// A controller: what it knows, and what proxies were told last.
struct Controller {
    translator: Translator,
    fleets: BTreeMap<FleetKey, (Lowering, Snapshot)>,
}

fn main() -> Result<()> {
    let mut controller = Controller {
        translator: Translator::new(Settings::default()),
        fleets: BTreeMap::new(),
    };
    let mut out = io::stdout().lock();
    for (line, number) in io::stdin().lock().lines().zip(1..) {
        let event: Value = serde_json::from_str(&line?).with_context(|| format!("line {number} is no JSON"))?;
        match change(&event) {
            Ok(Some(change)) => controller.translator.apply(change),
            // Of a kind that nobody reads.
            Ok(None) => {}
            // What can't be read is said of this object; the others don't notice.
            Err(warning) => writeln!(out, "line {number}: {}", warning.message)?,
        }
        controller.publish(&mut out)?;
    }
    Ok(())
}

fn change(event: &Value) -> Result<Option<Change>, load::Warning> {
    let object = &event["object"];
    if event["type"] == "DELETED" {
        // What it last was may be unreadable, and an earlier form in force.
        return Ok(load::key_of(object).map(Change::Remove));
    }
    load::from_value(object).map(|(object, _)| Some(Change::Put(object)))
}

impl Controller {
    /// Writes what is another since last time. It costs what the change touched, however large the world is.
    fn publish(&mut self, out: &mut impl Write) -> Result<()> {
        let translation = self.translator.translate();
        for (object, status) in &translation.statuses {
            let problems = status.as_ref().map_or(0, |status| status.problems().len());
            writeln!(out, "status of {object}: {problems} problems")?;
        }
        self.fleets.retain(|key, _| translation.fleets.contains_key(key));
        for (key, fleet) in &translation.fleets {
            let (lowering, told) = self.fleets.entry(key.clone()).or_default();
            let snapshot = lowering.lower(fleet);
            for kind in ResourceType::ALL {
                let difference = diff(told.section(kind), snapshot.section(kind));
                for entry in &difference.changed {
                    writeln!(out, "{key}: send {kind:?} {}", entry.name)?;
                }
                for name in &difference.removed {
                    writeln!(out, "{key}: remove {kind:?} {name}")?;
                }
            }
            *told = snapshot;
        }
        Ok(())
    }
}
