//! The world task: the one writer. Changes in, translations out.
//!
//! It owns the translator and one lowering a fleet, takes whatever has queued up, translates once, and publishes the
//! result: snapshots and infrastructure as the latest state through a watch channel, statuses as the differences that
//! they are through a bounded queue. It runs on a thread of its own, because a translation of a large world takes a
//! while and must not hold up those who serve. It adds no debounce: a provider knows best when its input has settled.

use crate::{
    infra::host::ReadyPorts,
    metrics::{Counter, Gauge, Metrics, Timer},
    state::{FleetState, Input, Published, StatusMessage},
};
use edge_ir::{Fleet, FleetKey, Infra};
use edge_translate::{Platform, Settings, Translation, Translator};
use edge_xds::{lower::Lowering, snapshot::Snapshot};
use std::{collections::BTreeMap, sync::Arc, time::Instant as StdInstant};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

/// Batches that wait for the world. When it is full, providers wait, and what they see meanwhile becomes one batch.
pub const QUEUE: usize = 64;

/// Where the world tells what it made of its input.
#[derive(Debug)]
pub struct Outputs {
    /// The latest state; `None` until the first translation of everything there is.
    pub published: watch::Sender<Option<Arc<Published>>>,
    /// Statuses that changed.
    pub statuses: mpsc::Sender<StatusMessage>,
    /// Measurements.
    pub metrics: Arc<Metrics>,
}

/// Translates until nobody sends any more. Blocks its thread.
pub fn run(settings: Settings, mut inputs: mpsc::Receiver<Input>, outputs: Outputs) {
    let mut world = World::new(settings, outputs);
    while let Some(input) = inputs.blocking_recv() {
        let begun = StdInstant::now();
        world.outputs.metrics.set(Gauge::ChangesWaiting, inputs.len() + 1);
        world.take(input);
        // What has queued up meanwhile belongs to the same translation.
        while let Ok(input) = inputs.try_recv() {
            world.take(input);
        }
        world.outputs.metrics.set(Gauge::ChangesWaiting, 0);
        world.publish();
        world.outputs.metrics.observe(Timer::Batch, begun.elapsed());
    }
}

struct World {
    translator: Translator,
    outputs: Outputs,
    platform: Platform,
    ready_ports: ReadyPorts,
    fleets: BTreeMap<FleetKey, Lowered>,
    /// What each fleet runs on, for when its parameters can't be used.
    infra: BTreeMap<FleetKey, Arc<Infra>>,
    since: Option<Instant>,
    has_resources: bool,
}

struct Lowered {
    lowering: Lowering,
    /// What was lowered last.
    fleet: Arc<Fleet>,
    snapshot: Arc<Snapshot>,
}

impl World {
    fn new(settings: Settings, outputs: Outputs) -> Self {
        Self {
            platform: settings.platform,
            translator: Translator::new(settings),
            outputs,
            ready_ports: ReadyPorts::default(),
            fleets: BTreeMap::new(),
            infra: BTreeMap::new(),
            since: None,
            has_resources: false,
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Batch(batch) => {
                self.outputs.metrics.count(Counter::ChangeBatches);
                batch
                    .changes
                    .into_iter()
                    .for_each(|change| self.translator.apply(change));
                self.since = Some(self.since.map_or(batch.since, |since| since.min(batch.since)));
                self.has_resources = true;
            }
            Input::Settings(settings) => {
                self.platform = settings.platform;
                self.translator.set_settings(*settings);
                self.since.get_or_insert_with(Instant::now);
            }
        }
    }

    fn publish(&mut self) {
        // Before the first batch there is nothing to tell; serving that would take their configuration from proxies.
        if !self.has_resources {
            return;
        }
        let begun = StdInstant::now();
        let translation = self.translator.translate();
        let published = Published {
            fleets: self.lower(&translation),
            since: self.since.take(),
        };
        let metrics = &self.outputs.metrics;
        metrics.observe(Timer::Translate, begun.elapsed());
        metrics.set(Gauge::Fleets, published.fleets.len());
        metrics.count(Counter::Publications);
        tracing::debug!(fleets = published.fleets.len(), took = ?begun.elapsed(), "translated");
        self.outputs.published.send_replace(Some(Arc::new(published)));
        if !translation.statuses.is_empty() {
            // Nobody listens when the controller is about to end.
            let _ = self
                .outputs
                .statuses
                .blocking_send(StatusMessage::Statuses(translation.statuses));
        }
    }

    fn lower(&mut self, translation: &Translation) -> BTreeMap<FleetKey, FleetState> {
        self.fleets.retain(|key, _| translation.fleets.contains_key(key));
        self.ready_ports.retain(|key| translation.fleets.contains_key(key));
        let mut states = BTreeMap::new();
        let mut infra_in_use = BTreeMap::new();
        for (key, fleet) in &translation.fleets {
            // Parameters that can't be used change nothing: the fleet stays on what it has.
            let Some(infra) = translation.infra.get(key).or_else(|| self.infra.get(key)).cloned() else {
                continue;
            };
            let snapshot = self.snapshot(key, fleet);
            states.insert(
                key.clone(),
                FleetState {
                    snapshot,
                    infra: Arc::clone(&infra),
                },
            );
            infra_in_use.insert(key.clone(), infra);
        }
        self.infra = infra_in_use;
        states
    }

    fn snapshot(&mut self, key: &FleetKey, fleet: &Arc<Fleet>) -> Arc<Snapshot> {
        if let Some(known) = self.fleets.get(key)
            && Arc::ptr_eq(&known.fleet, fleet)
        {
            return Arc::clone(&known.snapshot);
        }
        let adapted = match self.platform {
            Platform::Host => self.ready_ports.adapt(fleet),
            Platform::Cluster => Arc::clone(fleet),
        };
        let metrics = &self.outputs.metrics;
        let lowered = self.fleets.entry(key.clone()).or_insert_with(|| {
            metrics.count(Counter::SnapshotsCreated);
            Lowered {
                lowering: Lowering::default(),
                fleet: Arc::clone(fleet),
                snapshot: Arc::default(),
            }
        });
        lowered.fleet = Arc::clone(fleet);
        let snapshot = lowered.lowering.lower(&adapted);
        if *lowered.snapshot != snapshot {
            metrics.count(Counter::SnapshotsUpdated);
            lowered.snapshot = Arc::new(snapshot);
        }
        Arc::clone(&lowered.snapshot)
    }
}
