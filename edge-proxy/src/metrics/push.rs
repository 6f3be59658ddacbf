//! Pushes metrics to collectors.
//!
//! A task for each sink. At each interval it gathers what has been used so far, compares it with what was told
//! before ([`Memory`]), and makes calls, one after the other. A call that fails is made again, as those of other
//! observations are; meanwhile counters go on, so that the next call tells more.

use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use rustc_hash::FxHashSet;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::calls::reports::{FAREWELL, deliver};
use crate::config::metrics::{Kept, Sink};
use crate::local::Local;
use crate::metrics::each;
use crate::metrics::memory::Memory;
use crate::metrics::otlp::{self, Times};
use crate::outbox::Entries;
use crate::shared::Shared;
use crate::stats::WorkerIndex;
use crate::upstream::{Upstreams, sweep};

/// A call has about so many bytes at most: collectors take four times as many.
const MOST_BYTES: usize = 1 << 20;

/// What pushes, as long as the process runs.
#[derive(Debug)]
pub(crate) struct Pushing {
    is_over: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Pushing {
    /// Begins, on the control thread.
    pub(crate) fn begin(shared: &Arc<Shared>, kept: &Arc<Kept>, sinks: Vec<Sink>, begun: SystemTime) -> Self {
        let (is_over, end) = watch::channel(false);
        if sinks.is_empty() {
            let tasks = Vec::new();
            return Self { is_over, tasks };
        }
        // Its slot of the counters is the one behind those of the workers.
        let local = Local::new(Arc::clone(shared), WorkerIndex(shared.workers));
        let upstreams = Upstreams::new(Rc::clone(&local));
        tokio::task::spawn_local(Rc::clone(&local.clock).drive());
        tokio::task::spawn_local(sweep(Rc::clone(&upstreams)));
        let tasks = sinks.into_iter().map(|sink| {
            let push = Push {
                upstreams: Rc::clone(&upstreams),
                kept: Arc::clone(kept),
                sink,
                memory: Memory::default(),
                begun,
                before: begun,
            };
            tokio::task::spawn_local(push.drive(end.clone()))
        });
        let tasks = tasks.collect();
        Self { is_over, tasks }
    }

    /// What there is at the end still goes, but nobody is waited for long.
    pub(crate) async fn finish(self) {
        self.is_over.send_replace(true);
        let all = async {
            for task in self.tasks {
                // One that has panicked has nothing to tell.
                let _ = task.await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL, all).await;
    }
}

/// A sink, and what it was told.
struct Push {
    upstreams: Rc<Upstreams>,
    kept: Arc<Kept>,
    sink: Sink,
    memory: Memory,
    begun: SystemTime,
    before: SystemTime,
}

impl Push {
    async fn drive(mut self, mut end: watch::Receiver<bool>) {
        let mut ticks = interval_at(Instant::now() + self.sink.interval, self.sink.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_last = tokio::select! {
                _ = ticks.tick() => false,
                _ = end.changed() => true,
            };
            for batch in self.gather() {
                deliver(&self.upstreams, &self.sink.collector, &mut None, &batch).await;
            }
            if is_last {
                return;
            }
        }
    }

    /// What is to be told now.
    fn gather(&mut self) -> Vec<Entries> {
        let local = &self.upstreams.worker;
        let snapshot = local.snapshot();
        // Nobody here leaves with routes of before.
        local.forget_routes(&FxHashSet::default());
        self.upstreams.follow(&snapshot);
        let now = SystemTime::now();
        let times = Times {
            begun: self.begun,
            before: mem::replace(&mut self.before, now),
            now,
        };
        let mut batches = Vec::new();
        let (sink, memory) = (&self.sink, &mut self.memory);
        memory.begin();
        each(&local.shared, &snapshot, &self.kept, &mut |sample| {
            if let Some(told) = memory.told(sink, &sample) {
                put(&mut batches, sink, |bytes| {
                    otlp::write(sink, &sample, &told, &times, bytes);
                });
            }
        });
        memory.end();
        batches
    }
}

/// Adds an entry to the last batch, or to another where that is full.
fn put(batches: &mut Vec<Entries>, sink: &Sink, write: impl FnOnce(&mut Vec<u8>)) {
    let most = sink.most.map_or(u64::MAX, |most| most.get() as u64);
    let has_room = |batch: &Entries| batch.bytes.len() < MOST_BYTES && batch.count < most;
    if !batches.last().is_some_and(has_room) {
        batches.push(Entries::default());
    }
    if let Some(batch) = batches.last_mut() {
        write(&mut batch.bytes);
        batch.count += 1;
    }
}
