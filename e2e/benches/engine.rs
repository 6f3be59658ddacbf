//! The engine in one process: objects to encoded xDS, one edit in a running engine, memory. Prints a Markdown table;
//! `cargo xtask bench translate` puts it into docs/performance.md.

use anyhow::{Context, Result};
use e2e::world::{self, Spread, Version, Where};
use edge_ir::{Executor, FleetKey, InPlace};
use edge_threads::Cores;
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
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

/// Runs of a whole translation; the fastest counts.
const RUNS: usize = 5;
/// Edits of a running engine; the median counts.
const EDITS: usize = 200;

/// What a process of its own measures the memory of, by its argument.
const PLAIN: &str = "--memory=plain";
const COVERED: &str = "--memory=covered";

fn main() -> Result<()> {
    let mut out = std::io::stdout();
    for argument in std::env::args() {
        let text = match argument.as_str() {
            PLAIN => world::yaml(10_000),
            COVERED => world_with(10_000, Spread::Gateway),
            _ => continue,
        };
        return Ok(write!(out, "{}", memory(&text, 10_000)?)?);
    }
    writeln!(out, "| what | HTTPRoutes | figure |\n|---|--:|--:|")?;
    for (what, kind) in [
        ("resident memory of objects, engine and snapshot, a route", PLAIN),
        ("the same with a policy of each kind on the Gateway", COVERED),
    ] {
        writeln!(out, "| {what} | 10000 | {:.1} kB |", memory_in_a_process(kind)? / 1e3)?;
    }
    for routes in [1_000, 5_000, 10_000] {
        for (cores, executor) in [("all cores", cores()), ("one core", Arc::new(InPlace))] {
            let time = from_scratch(&world::yaml(routes), &executor);
            writeln!(
                out,
                "| objects → IR → encoded xDS, from scratch, {cores} | {routes} | {:.1} ms |",
                millis(time)
            )?;
        }
    }
    for routes in [1_000, 10_000] {
        let time = one_edit(routes)?;
        writeln!(
            out,
            "| one HTTPRoute edited → new snapshot, engine running | {routes} | {:.3} ms |",
            millis(time)
        )?;
    }
    with_policies(&mut out)
}

/// What policies cost.
fn with_policies(out: &mut impl Write) -> Result<()> {
    for (what, spread) in [
        ("the Gateway", Spread::Gateway),
        (
            "the Gateway, each route and a rule of each, all saying the same",
            Spread::Alike,
        ),
        (
            "the Gateway, each route and a rule of each, no two saying the same",
            Spread::Unlike,
        ),
    ] {
        writeln!(
            out,
            "| from scratch with a policy of each kind on {what} | 1000 | {:.1} ms |",
            millis(from_scratch(&world_with(1_000, spread), &cores()))
        )?;
    }
    let alike = world::yaml(1_000) + &world::alike(1_000);
    writeln!(
        out,
        "| from scratch with a BackendTrafficPolicy and a SecurityPolicy on each route that all say the same | 1000 | {:.1} ms |",
        millis(from_scratch(&alike, &cores()))
    )?;
    for (what, place) in [("one route", Where::Route(4_711)), ("all routes", Where::Gateway)] {
        writeln!(
            out,
            "| one policy edited that covers {what} → new snapshot | 10000 | {:.3} ms |",
            millis(one_policy(10_000, place)?)
        )?;
    }
    Ok(())
}

/// A world with policies.
fn world_with(routes: usize, spread: Spread) -> String {
    world::yaml(routes) + &world::policies(routes, spread)
}

/// Edits of one policy.
fn one_policy(routes: usize, place: Where) -> Result<Duration> {
    let mut engine = Engine::new(&cores());
    engine.put(objects(&world_with(routes, Spread::Gateway)));
    engine.put(objects(&world::policy(place, Version::First)));
    edits(&mut engine, 40, |edit| {
        world::policy(place, [Version::Second, Version::First][edit % 2])
    })
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn objects(text: &str) -> Vec<LoadedObject> {
    load(&Source { name: "world", text }, &Limits::default()).objects
}

/// What the programs pass in.
fn cores() -> Arc<dyn Executor> {
    Arc::new(Cores::available())
}

/// A translator and what follows it, as the controller has them.
struct Engine {
    executor: Arc<dyn Executor>,
    translator: Translator,
    lowerings: BTreeMap<FleetKey, Lowering>,
}

impl Engine {
    fn new(executor: &Arc<dyn Executor>) -> Self {
        Self {
            executor: Arc::clone(executor),
            translator: Translator::new(Settings::default()).run_by(Arc::clone(executor)),
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
            .map(|(key, fleet)| {
                let lowering = lowerings.entry(key.clone());
                let lowering = lowering.or_insert_with(|| Lowering::new().run_by(Arc::clone(&self.executor)));
                lowering.lower(fleet)
            })
            .collect()
    }
}

fn from_scratch(text: &str, executor: &Arc<dyn Executor>) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..RUNS {
        let objects = objects(text);
        let start = Instant::now();
        let mut engine = Engine::new(executor);
        engine.put(objects);
        let snapshots = black_box(engine.snapshots());
        best = best.min(start.elapsed());
        drop(snapshots);
    }
    best
}

fn one_edit(routes: usize) -> Result<Duration> {
    let mut engine = Engine::new(&cores());
    engine.put(objects(&world::yaml(routes)));
    edits(&mut engine, EDITS, |edit| {
        let version = if edit % 2 == 0 { Version::Second } else { Version::First };
        world::route_yaml(edit / 2 * 37 % routes, version)
    })
}

/// The median time from a changed object to the new snapshot.
fn edits(engine: &mut Engine, count: usize, text: impl Fn(usize) -> String) -> Result<Duration> {
    let mut before = engine.snapshots();
    let mut times = Vec::with_capacity(count);
    for edit in 0..count {
        let changed = objects(&text(edit));
        let start = Instant::now();
        engine.put(changed);
        let after = black_box(engine.snapshots());
        times.push(start.elapsed());
        anyhow::ensure!(after != before, "edit {edit} changed nothing");
        before = after;
    }
    times.sort_unstable();
    Ok(times[count / 2])
}

/// The same in a process of its own, where nothing that was freed before can be used again.
fn memory_in_a_process(kind: &str) -> Result<f64> {
    let output = Command::new(std::env::current_exe()?).arg(kind).output()?;
    let figure = String::from_utf8(output.stdout)?;
    figure
        .parse()
        .with_context(|| format!("no figure: {figure:?} {}", String::from_utf8_lossy(&output.stderr)))
}

/// Growth of the resident set for each route, in bytes.
fn memory(text: &str, routes: usize) -> Result<f64> {
    let before = resident()?;
    let mut engine = Engine::new(&cores());
    engine.put(objects(text));
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
