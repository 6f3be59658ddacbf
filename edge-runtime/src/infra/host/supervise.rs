//! The supervisor of one fleet's process.
//!
//! At most two processes matter at a time: `current` serves, `next` is starting. A starting one that becomes ready
//! takes the place of the current one, which then drains. Whatever ends too early is started again after a pause that
//! doubles, and is forgiven after a run that was long enough.

use super::{HostSettings, Reporter, launch, process::Fate, process::Process};
use crate::{
    guard::GuardMessage,
    metrics::{Counter, Metrics, Timer},
    state::Availability,
    task::Stop,
};
use edge_ir::Infra;
use std::{future, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{self, Instant},
};

/// First pause before a process is started again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A process that ran this long has done nothing wrong.
const STABLE: Duration = Duration::from_secs(30);
/// How often the log's size is looked at.
const TRIM_EVERY: Duration = Duration::from_secs(30);

pub(super) struct Supervisor {
    settings: Arc<HostSettings>,
    infra: watch::Receiver<Arc<Infra>>,
    reporter: Reporter,
    metrics: Arc<Metrics>,
    guard: mpsc::Sender<GuardMessage>,
    current: Option<Process>,
    next: Option<Process>,
    draining: JoinSet<()>,
    pause: Pause,
    /// When a process is to be started; `None`: none is wanted.
    start_at: Option<Instant>,
    /// The last problem that was logged, so that the same one isn't logged at every attempt.
    problem: Option<String>,
}

impl Supervisor {
    pub(super) fn new(
        settings: Arc<HostSettings>,
        infra: watch::Receiver<Arc<Infra>>,
        reporter: Reporter,
        metrics: Arc<Metrics>,
        guard: mpsc::Sender<GuardMessage>,
    ) -> Self {
        Self {
            settings,
            infra,
            reporter,
            metrics,
            guard,
            current: None,
            next: None,
            draining: JoinSet::new(),
            pause: Pause::default(),
            start_at: Some(Instant::now()),
            problem: None,
        }
    }

    pub(super) async fn run(mut self, mut stop: Stop) {
        self.reporter.report(Availability::Starting, None);
        let mut trim = time::interval(TRIM_EVERY);
        loop {
            tokio::select! {
                () = stop.requested() => break,
                changed = self.infra.changed() => match changed {
                    Ok(()) => self.replace(),
                    Err(_) => break,
                },
                fate = fate_of(&mut self.next) => match fate {
                    Fate::Ready => self.promote(),
                    Fate::Ended(how) => {
                        self.next = None;
                        self.failed(how);
                    }
                },
                how = end_of(&mut self.current) => {
                    let ran = self.current.take().map(|process| process.started.elapsed());
                    self.pause.after(ran.unwrap_or_default());
                    self.failed(how);
                }
                () = moment(self.start_at) => self.start(),
                _ = self.draining.join_next(), if !self.draining.is_empty() => {}
                _ = trim.tick() => if let Some(process) = &self.current {
                    process.trim_log();
                },
            }
        }
        self.shut_down().await;
    }

    /// Something that the process was started with has changed.
    fn replace(&mut self) {
        tracing::info!(fleet = %self.reporter.key, "the proxy's start-up settings changed; a new process takes over");
        // A process that never served may go at once.
        if let Some(process) = self.next.take() {
            self.draining.spawn(process.stop(future::pending()));
        }
        self.pause = Pause::default();
        self.start_at = Some(Instant::now());
    }

    fn start(&mut self) {
        self.start_at = None;
        let infra = Arc::clone(&self.infra.borrow());
        let started = launch::prepare(&self.settings, &infra).and_then(|launch| Process::start(launch, &self.guard));
        match started {
            Ok(process) => {
                let (fleet, admin) = (&self.reporter.key, process.admin.map(tracing::field::display));
                // A proxy that fails again and again is told about once.
                match self.problem {
                    None => tracing::info!(%fleet, pid = process.id(), admin, "proxy started"),
                    Some(_) => tracing::debug!(%fleet, pid = process.id(), admin, "proxy started again"),
                }
                self.next = Some(process);
            }
            Err(problem) => self.failed(problem),
        }
    }

    /// The starting process is ready: it serves from now on, and its predecessor may go.
    fn promote(&mut self) {
        let Some(process) = self.next.take() else { return };
        self.metrics.count(Counter::ProxiesStarted);
        self.metrics.observe(Timer::ProxyStart, process.started.elapsed());
        tracing::info!(fleet = %self.reporter.key, pid = process.id(), "proxy is ready");
        self.problem = None;
        self.reporter.report(Availability::Available(1), process.admin);
        if let Some(old) = self.current.replace(process) {
            let seconds = self
                .infra
                .borrow()
                .proxy
                .drain_timeout_seconds
                .unwrap_or(launch::DEFAULT_DRAIN_SECONDS);
            self.draining.spawn(old.drain(Duration::from_secs(seconds.into())));
        }
    }

    /// A process has ended or could not be started: it will be tried again.
    fn failed(&mut self, problem: String) {
        self.metrics.count(Counter::ProxiesFailed);
        let pause = self.pause.next();
        if self.next.is_none() {
            self.start_at = Some(Instant::now() + pause);
        }
        let fleet = &self.reporter.key;
        // The times in the message differ at every attempt; what is new is the kind of problem.
        if self.problem.as_ref().is_some_and(|known| same_problem(known, &problem)) {
            tracing::debug!(%fleet, ?pause, "{problem}");
        } else {
            tracing::warn!(%fleet, ?pause, "{problem}; trying again");
        }
        if self.current.is_none() {
            self.reporter
                .report(Availability::Unavailable(problem.as_str().into()), None);
        }
        self.problem = Some(problem);
    }

    async fn shut_down(mut self) {
        let begun = Instant::now();
        for process in [self.next.take(), self.current.take()].into_iter().flatten() {
            self.draining.spawn(process.stop(future::pending()));
            self.metrics.count(Counter::ProxiesStopped);
        }
        // What drained for a replacement has no time left either.
        let patient = time::timeout(super::STOP_GRACE * 2, async {
            while self.draining.join_next().await.is_some() {}
        });
        if patient.await.is_err() {
            self.draining.shutdown().await;
        }
        self.metrics.observe(Timer::ProxyStop, begun.elapsed());
        tracing::info!(fleet = %self.reporter.key, "proxy stopped");
    }
}

/// Whether two messages about a failure differ in nothing but times.
fn same_problem(a: &str, b: &str) -> bool {
    let words = |text: &str| -> String { text.chars().filter(|c| !c.is_ascii_digit()).collect() };
    words(a) == words(b)
}

async fn fate_of(process: &mut Option<Process>) -> Fate {
    match process {
        Some(process) => process.starting().await,
        None => future::pending().await,
    }
}

async fn end_of(process: &mut Option<Process>) -> String {
    match process {
        Some(process) => process.ended().await,
        None => future::pending().await,
    }
}

async fn moment(at: Option<Instant>) {
    match at {
        Some(at) => time::sleep_until(at).await,
        None => future::pending().await,
    }
}

/// The pause before the next attempt.
#[derive(Debug)]
struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Pause {
    fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 2).min(LONGEST_PAUSE);
        now
    }

    fn after(&mut self, ran: Duration) {
        if ran >= STABLE {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_a_stable_run_is_rewarded() {
        let mut pause = Pause::default();
        let list: Vec<u128> = (0..9).map(|_| pause.next().as_millis()).collect();
        assert_eq!(list, [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
        pause.after(Duration::from_secs(1));
        assert_eq!(pause.next(), LONGEST_PAUSE);
        pause.after(STABLE);
        assert_eq!(pause.next(), FIRST_PAUSE);
    }
}
