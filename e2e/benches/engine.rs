//! The engine in one process: objects to encoded xDS, one edit in a running engine, memory. Prints a Markdown table;
//! `cargo xtask bench translate` puts it into docs/performance.md.

use anyhow::{Context, Result};
use e2e::world::{self, Version};
use edge_ir::FleetKey;
use edge_translate::{
    Change, Settings, Translator,
    load::{Limits, LoadedObject, Source, load},
};
use edge_xds::{lower::Lowering, snapshot::Snapshot};
use std::{
    collections::BTreeMap,
    fs,
    hint::black_box,
    io::Write,
    time::{Duration, Instant},
};

/// Runs of a whole translation; the fastest counts.
const RUNS: usize = 5;
/// Edits of a running engine; the median counts.
const EDITS: usize = 200;

fn main() -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "| what | HTTPRoutes | figure |\n|---|--:|--:|")?;
    // Memory first, while nothing that was freed can be used again.
    let bytes = memory(10_000)?;
    writeln!(
        out,
        "| resident memory of objects, engine and snapshot, a route | 10000 | {:.1} kB |",
        bytes / 1e3
    )?;
    for routes in [1_000, 5_000, 10_000] {
        let time = from_scratch(routes);
        writeln!(
            out,
            "| objects → IR → encoded xDS, from scratch | {routes} | {:.1} ms |",
            millis(time)
        )?;
    }
    for routes in [1_000, 10_000] {
        let time = one_edit(routes)?;
        writeln!(
            out,
            "| one HTTPRoute edited → new snapshot, engine running | {routes} | {:.3} ms |",
            millis(time)
        )?;
    }
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn objects(text: &str) -> Vec<LoadedObject> {
    load(&Source { name: "world", text }, &Limits::default()).objects
}

/// A translator and what follows it, as the controller has them.
struct Engine {
    translator: Translator,
    lowerings: BTreeMap<FleetKey, Lowering>,
}

impl Engine {
    fn new() -> Self {
        Self {
            translator: Translator::new(Settings::default()),
            lowerings: BTreeMap::new(),
        }
    }

    fn put(&mut self, objects: Vec<LoadedObject>) {
        for loaded in objects {
            self.translator.apply(Change::Put(loaded.object));
        }
    }

    fn snapshots(&mut self) -> Vec<Snapshot> {
        let translation = self.translator.translate();
        let lowerings = &mut self.lowerings;
        translation
            .fleets
            .iter()
            .map(|(key, fleet)| lowerings.entry(key.clone()).or_default().lower(fleet))
            .collect()
    }
}

fn from_scratch(routes: usize) -> Duration {
    let text = world::yaml(routes);
    let mut best = Duration::MAX;
    for _ in 0..RUNS {
        let objects = objects(&text);
        let start = Instant::now();
        let mut engine = Engine::new();
        engine.put(objects);
        let snapshots = black_box(engine.snapshots());
        best = best.min(start.elapsed());
        drop(snapshots);
    }
    best
}

fn one_edit(routes: usize) -> Result<Duration> {
    let mut engine = Engine::new();
    engine.put(objects(&world::yaml(routes)));
    let mut before = engine.snapshots();
    let mut times = Vec::with_capacity(EDITS);
    for edit in 0..EDITS {
        let version = if edit % 2 == 0 { Version::Second } else { Version::First };
        let changed = objects(&world::route_yaml(edit / 2 * 37 % routes, version));
        let start = Instant::now();
        engine.put(changed);
        let after = black_box(engine.snapshots());
        times.push(start.elapsed());
        anyhow::ensure!(after != before, "edit {edit} changed nothing");
        before = after;
    }
    times.sort_unstable();
    Ok(times[EDITS / 2])
}

/// Growth of the resident set for each route, in bytes.
fn memory(routes: usize) -> Result<f64> {
    let before = resident()?;
    let mut engine = Engine::new();
    engine.put(objects(&world::yaml(routes)));
    let snapshots = engine.snapshots();
    let after = resident()?;
    drop((engine, snapshots));
    Ok((after - before) / routes as f64)
}

fn resident() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
}
