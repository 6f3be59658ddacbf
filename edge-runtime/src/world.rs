//! The world task: the one writer. Changes in, translations out.
//!
//! It owns the translator and one lowering a fleet, takes whatever has queued up, translates once, and publishes the
//! result: snapshots and infrastructure as the latest state through a watch channel, statuses into a ledger from which
//! their writer takes the latest of each. It waits for nobody. It runs on a thread of its own, because a translation of
//! a large world takes a while and must not hold up those who serve. Nothing is published until every provider has told
//! all that it had at its start, and for a while until what has to be fetched is: serving a part of it would take their
//! configuration from proxies.

use crate::{
    machine_ports::PortClaims,
    metrics::{Counter, Gauge, Metrics, Timer},
    state::{
        Coverage, Extensions, FetchNumbers, FleetState, Input, Ledger, ProviderName, Published, Rejections,
        StatusChanges,
    },
};
use edge_ir::{Executor, Fleet, FleetKey, Infra, PatchFailure};
use edge_threads::Cores;
use edge_translate::{
    Change, Fact, Fault, QuestionChanges, Settings, Translation, Translator,
    api::{Object, ObjectKey},
};
use edge_xds::{limits::RateLimits, lower::Lowering, snapshot::Snapshot};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant as StdInstant},
};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot, watch},
    time::{self, Instant},
};

mod clock;
mod hooked;
#[cfg(test)]
mod tests;
mod unanswered;

use clock::Clock;
use hooked::Hooking;
use unanswered::Unanswered;

/// Batches that wait for the world. When it is full, providers wait, and what they see meanwhile becomes one batch.
pub const QUEUE: usize = 64;

/// What the world begins with.
#[derive(Debug)]
pub struct WorldConfig {
    /// What translation depends on.
    pub settings: Settings,
    /// Whom to wait for before anything is published.
    pub providers: BTreeSet<ProviderName>,
    /// How long a change waits for others.
    pub pace: Pace,
}

/// How long a change waits for others that belong to it. A provider of files waits itself until they are whole; one of
/// many watches doesn't know what the others are about to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Quiet that ends the wait.
    pub quiet: Duration,
    /// The longest wait, counted from the first change.
    pub longest: Duration,
    /// How long the first publication waits for documents and modules that are fetched: where proxies may run already.
    pub fetches: Duration,
}

/// Where the world tells what it made of its input.
#[derive(Debug)]
pub struct Outputs {
    /// The latest state; `None` until the first translation of everything there is.
    pub published: watch::Sender<Option<Arc<Published>>>,
    /// What is said about each object.
    pub ledger: Arc<Ledger>,
    /// What translation wants fetched.
    pub fetches: watch::Sender<FetchNumbers>,
    /// What extension services are asked.
    pub extensions: watch::Sender<Extensions>,
    /// What isn't served, and why; of that, what extension services fail over.
    pub rejections: Arc<watch::Sender<Rejections>>,
    /// Measurements.
    pub metrics: Arc<Metrics>,
}

/// Translates until nobody sends any more. Blocks its thread, which must be one of a runtime.
pub fn run(terms: WorldConfig, mut inputs: mpsc::Receiver<Input>, outputs: Outputs) {
    let (runtime, pace) = (Handle::current(), terms.pace);
    let mut world = World::new(terms, outputs);
    loop {
        let input = match runtime.block_on(next(&mut inputs, world.wait())) {
            Next::Input(input) => input,
            Next::Time => {
                if world.learns() {
                    world.publish();
                }
                continue;
            }
            Next::End => return,
        };
        if let Input::ListObjects(reply) = input {
            world.list_objects(reply);
            continue;
        }
        let first = Instant::now();
        world.outputs.metrics.set(Gauge::ChangesWaiting, inputs.len() + 1);
        world.take(input);
        // What has queued up meanwhile, and what follows soon, belongs to the same translation.
        while let Some(input) = runtime.block_on(next_of_burst(&mut inputs, pace, first)) {
            world.take(input);
        }
        world.outputs.metrics.set(Gauge::ChangesWaiting, 0);
        let begun = StdInstant::now();
        world.publish();
        world.outputs.metrics.observe(Timer::Batch, begun.elapsed());
    }
}

/// What the world waits for.
enum Next {
    Input(Input),
    /// A time may have come that translation asked for, or at which ports are looked at again.
    Time,
    /// Nobody sends any more.
    End,
}

async fn next(inputs: &mut mpsc::Receiver<Input>, wait: Option<Duration>) -> Next {
    let input = match wait {
        Some(wait) => time::timeout(wait, inputs.recv()).await,
        None => Ok(inputs.recv().await),
    };
    match input {
        Ok(Some(input)) => Next::Input(input),
        Ok(None) => Next::End,
        Err(_) => Next::Time,
    }
}

/// The next input that belongs to a burst, if the burst goes on.
async fn next_of_burst(inputs: &mut mpsc::Receiver<Input>, pace: Pace, first: Instant) -> Option<Input> {
    if let Ok(input) = inputs.try_recv() {
        return Some(input);
    }
    let due = (first + pace.longest).min(Instant::now() + pace.quiet);
    time::timeout_at(due, inputs.recv()).await.ok().flatten()
}

struct World {
    translator: Translator,
    /// Who runs what translating and lowering split.
    executor: Arc<dyn Executor>,
    clock: Clock,
    ports: PortClaims,
    outputs: Outputs,
    fleets: BTreeMap<FleetKey, Lowered>,
    since: Option<Instant>,
    /// How much was to be fetched so far.
    n_fetches: u64,
    /// Providers that haven't told everything yet.
    awaited: BTreeSet<ProviderName>,
    /// Providers that couldn't read everything there is.
    partial: BTreeSet<ProviderName>,
    /// Bugs that have been told.
    faults: Vec<Fault>,
    /// What the service of global rate limits is told, where there shall be one.
    limits: Option<RateLimits>,
    /// What extension services make of fleets.
    hooking: Hooking,
    /// What was asked to be fetched and isn't answered.
    unanswered: Unanswered,
    /// Statuses that wait for the first publication.
    unsaid: StatusChanges,
}

struct Lowered {
    lowering: Lowering,
    /// What was lowered last.
    fleet: Arc<Fleet>,
    /// What it was lowered to.
    built: Arc<Snapshot>,
    /// What is served of that.
    snapshot: Arc<Snapshot>,
    /// The latest infrastructure that could be used.
    infra: Option<Arc<Infra>>,
    /// What translation knows of patches that could not be applied.
    told: Option<Arc<Vec<PatchFailure>>>,
}

impl World {
    fn new(terms: WorldConfig, outputs: Outputs) -> Self {
        let limits = terms.settings.rate_limit.as_ref().map(|_| RateLimits::new());
        let hooking = Hooking::new(&terms.settings);
        let executor: Arc<dyn Executor> = Arc::new(Cores::available());
        Self {
            translator: Translator::new(terms.settings).run_by(Arc::clone(&executor)),
            executor,
            clock: Clock::default(),
            ports: PortClaims::default(),
            outputs,
            fleets: BTreeMap::new(),
            since: None,
            n_fetches: 0,
            awaited: terms.providers,
            partial: BTreeSet::new(),
            faults: Vec::new(),
            limits,
            hooking,
            unanswered: Unanswered::new(terms.pace.fetches),
            unsaid: StatusChanges::new(),
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Batch(batch) => {
                self.outputs.metrics.count(Counter::ChangeBatches);
                self.outputs.ledger.locate(batch.places);
                batch
                    .changes
                    .into_iter()
                    .for_each(|change| self.translator.apply(change));
                self.since = Some(self.since.map_or(batch.since, |since| since.min(batch.since)));
            }
            Input::Synced(provider, coverage) => {
                self.awaited.remove(&provider);
                match coverage {
                    Coverage::Whole => self.partial.remove(&provider),
                    Coverage::Partial => self.partial.insert(provider),
                };
                self.since.get_or_insert_with(Instant::now);
            }
            Input::Settings(settings) => {
                let wanted = settings.rate_limit.is_some();
                self.limits = wanted.then(|| self.limits.take().unwrap_or_default());
                self.hooking.follow(&settings);
                self.translator.set_settings(*settings);
                self.since.get_or_insert_with(Instant::now);
            }
            Input::ListObjects(reply) => self.list_objects(reply),
            Input::Proxies(proxies) => {
                let answers = self.ports.change_own(proxies);
                self.learn(answers);
                self.since.get_or_insert_with(Instant::now);
            }
            Input::Facts(facts) => {
                self.learn(facts);
                self.since.get_or_insert_with(Instant::now);
            }
            Input::Answers(answers) => {
                self.hooking.take(answers);
                self.since.get_or_insert_with(Instant::now);
            }
        }
    }

    fn list_objects(&self, reply: oneshot::Sender<BTreeMap<ObjectKey, Object>>) {
        // Who asked may be gone.
        let _ = reply.send(self.translator.objects());
    }

    fn publish(&mut self) {
        if !self.awaited.is_empty() {
            return;
        }
        let begun = StdInstant::now();
        self.translator.apply(Change::Fact(self.clock.tell()));
        let mut translation = self.translator.translate();
        let mut statuses = std::mem::take(&mut translation.statuses);
        // Ports are looked at before anybody is told to bind them.
        while self.follow(&translation.wanted) {
            translation = self.translator.translate();
            statuses.append(&mut translation.statuses);
        }
        self.lower(&translation);
        if self.tell_patches() {
            let mut after = self.translator.translate();
            statuses.append(&mut after.statuses);
            self.follow(&after.wanted);
        }
        self.unsaid.append(&mut statuses);
        let is_first = self.outputs.published.borrow().is_none();
        let is_hooked = self.hook();
        if is_first {
            self.unanswered.advance();
        }
        if (is_first && self.unanswered.is_waiting()) || !is_hooked {
            return;
        }
        self.unanswered.end();
        let fleets = self.states(&translation);
        let limits = self.limits.as_mut();
        let published = Published {
            limits: limits
                .map(|limits| limits.resources(&translation.fleets))
                .unwrap_or_default(),
            fleets,
            coverage: match self.partial.is_empty() {
                true => Coverage::Whole,
                false => Coverage::Partial,
            },
            since: self.since.take(),
        };
        let metrics = &self.outputs.metrics;
        metrics.observe(Timer::Translate, begun.elapsed());
        metrics.set(Gauge::Fleets, published.fleets.len());
        metrics.count(Counter::Publications);
        tracing::debug!(fleets = published.fleets.len(), took = ?begun.elapsed(), "translated");
        self.tell_faults(&translation.faults);
        // First, so that who hears of the state finds in the ledger what is said about it.
        self.outputs.ledger.put(std::mem::take(&mut self.unsaid));
        self.outputs.published.send_replace(Some(Arc::new(published)));
    }

    /// Follows what translation asks of the outside. Says whether an answer is there that changes something.
    fn follow(&mut self, wanted: &QuestionChanges) -> bool {
        self.clock.follow(wanted);
        self.ask_for_fetches(wanted);
        let answers = self.ports.follow(wanted);
        self.learn(answers)
    }

    /// Says what is to be fetched. Who fetches it tells what came of it, when it has.
    fn ask_for_fetches(&mut self, wanted: &QuestionChanges) {
        self.unanswered.follow(wanted);
        let fetches = &self.outputs.fetches;
        for question in wanted.removed.iter().filter(|question| question.is_fetched()) {
            fetches.send_modify(|asked| _ = asked.remove(question));
        }
        for question in wanted.added.iter().filter(|question| question.is_fetched()) {
            self.n_fetches += 1;
            fetches.send_modify(|asked| _ = asked.insert(question.clone(), self.n_fetches));
        }
    }

    /// How long until there may be another answer to what translation asks.
    fn wait(&self) -> Option<Duration> {
        let waits = [
            self.clock.wait(),
            self.ports.wait(),
            self.hooking.wait(),
            self.unanswered.wait(),
        ];
        waits.into_iter().flatten().min()
    }

    /// Whether there is another answer to what translation asks.
    fn learns(&mut self) -> bool {
        let answers = self.ports.look_again();
        let is_other_port = self.learn(answers);
        is_other_port || self.clock.is_due() || self.hooking.is_due() || self.unanswered.is_due()
    }

    fn learn(&mut self, answers: Vec<Fact>) -> bool {
        let is_news = !answers.is_empty();
        for answer in answers {
            self.unanswered.take(&answer);
            self.translator.apply(Change::Fact(answer));
        }
        is_news
    }

    /// Bugs of our own: each is told once, with the object that brought it out.
    fn tell_faults(&mut self, faults: &[Fault]) {
        self.outputs.metrics.set(Gauge::TranslationFaults, faults.len());
        for fault in faults.iter().filter(|fault| !self.faults.contains(fault)) {
            self.outputs.metrics.count(Counter::TranslationPanics);
            let Fault { object, unit, message } = fault;
            tracing::error!(%object, unit, "a bug in the translation: {message}; what was made before stays in force");
        }
        self.faults = faults.to_vec();
    }

    /// Tells translation what became of patches; says whether that is news.
    fn tell_patches(&mut self) -> bool {
        let mut is_news = false;
        for (key, lowered) in &mut self.fleets {
            let is_patched = !lowered.fleet.patches.is_empty();
            let failures = is_patched.then(|| Arc::clone(lowered.lowering.failures()));
            if failures != lowered.told {
                lowered.told.clone_from(&failures);
                self.translator
                    .apply(Change::Fact(Fact::Patched(key.clone(), failures)));
                is_news = true;
            }
        }
        is_news
    }

    fn lower(&mut self, translation: &Translation) {
        let translator = &mut self.translator;
        self.fleets.retain(|key, lowered| {
            let stays = translation.fleets.contains_key(key);
            if !stays && lowered.told.is_some() {
                translator.apply(Change::Fact(Fact::Patched(key.clone(), None)));
            }
            stays
        });
        for (key, fleet) in &translation.fleets {
            self.lower_fleet(key, fleet);
        }
    }

    fn lower_fleet(&mut self, key: &FleetKey, fleet: &Arc<Fleet>) {
        let metrics = &self.outputs.metrics;
        let lowered = self.fleets.entry(key.clone()).or_insert_with(|| {
            metrics.count(Counter::SnapshotsCreated);
            let mut lowering = Lowering::default().run_by(Arc::clone(&self.executor));
            Lowered {
                built: Arc::new(lowering.lower(fleet)),
                lowering,
                fleet: Arc::clone(fleet),
                snapshot: Arc::default(),
                infra: None,
                told: None,
            }
        });
        if !Arc::ptr_eq(&lowered.fleet, fleet) {
            lowered.fleet = Arc::clone(fleet);
            let built = lowered.lowering.lower(fleet);
            if *lowered.built != built {
                lowered.built = Arc::new(built);
            }
        }
    }

    /// Lets extension services change what fleets were lowered to. Says whether there is something to publish: not
    /// before they have answered for the first time, for what they do would be taken from proxies that run.
    fn hook(&mut self) -> bool {
        let is_first = self.outputs.published.borrow().is_none();
        let fleets = self.fleets.iter();
        let fleets = fleets.map(|(key, lowered)| (key, (&lowered.fleet, &lowered.built, &lowered.snapshot)));
        let hooked = self.hooking.apply(fleets, &self.translator);
        self.hooking.tell(&self.outputs);
        if is_first && hooked.must_wait {
            tracing::info!("nothing is published until the extension services have answered");
            return false;
        }
        for (key, snapshot) in hooked.snapshots {
            if let Some(lowered) = self.fleets.get_mut(&key)
                && *lowered.snapshot != *snapshot
            {
                self.outputs.metrics.count(Counter::SnapshotsUpdated);
                lowered.snapshot = snapshot;
            }
        }
        true
    }

    fn states(&mut self, translation: &Translation) -> BTreeMap<FleetKey, FleetState> {
        let fleets = self.fleets.iter_mut().map(|(key, lowered)| {
            let infra = translation.infra.get(key).cloned();
            lowered.infra = infra.clone().or(lowered.infra.take());
            let home = match lowered.infra {
                Some(_) => None,
                None => self.translator.settings().home(key),
            };
            let alternatives = match infra {
                Some(_) => Vec::new(),
                None => self.translator.alternatives(key),
            };
            let state = FleetState {
                snapshot: Arc::clone(&lowered.snapshot),
                infra,
                last_infra: lowered.infra.clone(),
                home,
                alternatives,
            };
            (key.clone(), state)
        });
        fleets.collect()
    }
}
