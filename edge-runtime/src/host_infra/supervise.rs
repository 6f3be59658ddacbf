//! The supervisor of one fleet's process.
//!
//! At most two processes matter at a time: `current` serves, `next` is starting. A starting one that becomes ready
//! takes the place of the current one, which then leaves. Whatever ends too early, or doesn't become ready, is started
//! again after a pause that doubles, and is forgiven after a run that was long enough. One that serves is asked whether
//! it still does: it may have been told to end by somebody else, or hang. When what is wanted changes, or
//! a process was adopted, the question is always the same: would it be started like this today?

use super::{
    HostSettings, Reporter,
    launch::{self, identify, is_current, patience},
    log_file,
    process::{Fate, Problem, Process},
    proxy_admin::{Lost, WaitFor},
    proxy_ports::Listener,
    record::Phase,
};
use crate::{
    backoff::Backoff,
    due,
    metrics::{Counter, Metrics, Timer},
    state::Availability,
};
use edge_ir::{FleetKey, Infra};
use std::{future, pin::Pin, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{self, Instant},
};

/// The first and the longest pause before a process is started again.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));
/// How often the log's size is looked at.
const TRIM_EVERY: Duration = Duration::from_secs(30);
/// How often the proxy's certificate is looked at: it is renewed days before its end, but soon where the clock was
/// ahead when it was made.
const IDENTIFY_EVERY: Duration = Duration::from_secs(600);

/// What a fleet's process must be.
#[derive(Clone, Debug)]
pub(super) struct ProcessSpec {
    /// What the fleet asks for.
    pub(super) infra: Arc<Infra>,
    /// How processes are started.
    pub(super) settings: Arc<HostSettings>,
}

pub(super) struct Supervisor {
    wanted: ProcessSpec,
    reporter: Reporter,
    metrics: Arc<Metrics>,
    current: Option<Process>,
    next: Option<Process>,
    /// Resolves when the current one doesn't serve any more though it is there.
    loss: Pin<Box<dyn Future<Output = Lost> + Send>>,
    /// One that doesn't answer. It perhaps serves, so it stays until another one does.
    silent: Option<Process>,
    /// Processes on their way out, and small things to do meanwhile.
    aside: JoinSet<()>,
    /// What those on their way out are waited for.
    waiting: watch::Sender<WaitFor>,
    backoff: Backoff,
    /// When a process is to be started; `None`: none is wanted.
    start_at: Option<Instant>,
    /// Why the process isn't as it is wanted, by the last attempt.
    problem: Option<Problem>,
}

impl Supervisor {
    /// A supervisor that begins with the processes that are there already, the latest first.
    pub(super) fn new(wanted: ProcessSpec, reporter: Reporter, metrics: Arc<Metrics>, adopted: Vec<Process>) -> Self {
        let mut supervisor = Self {
            wanted,
            reporter,
            metrics,
            current: None,
            next: None,
            loss: Box::pin(future::pending()),
            silent: None,
            aside: JoinSet::new(),
            waiting: watch::Sender::new(WaitFor::Connections),
            backoff: PAUSES,
            start_at: Some(Instant::now()),
            problem: None,
        };
        adopted.into_iter().for_each(|process| supervisor.adopt(process));
        supervisor.watch();
        supervisor
    }

    /// Runs until nothing is wanted any more, and then takes the processes down. If nobody is left to want something,
    /// it returns and leaves them to the next controller.
    pub(super) async fn run(mut self, mut wanted: watch::Receiver<Option<ProcessSpec>>) -> FleetKey {
        self.report();
        self.follow();
        let mut trim = time::interval(TRIM_EVERY);
        let mut renewal = time::interval(IDENTIFY_EVERY);
        let patience = self.wanted.settings.ready_patience;
        loop {
            let before = self.current.as_ref().map(Process::listener);
            tokio::select! {
                changed = wanted.changed() => {
                    if changed.is_err() {
                        return self.reporter.key;
                    }
                    let Some(new) = wanted.borrow_and_update().clone() else { break };
                    self.wanted = new;
                    self.report();
                    self.follow();
                }
                fate = fate_of(&mut self.next, before, patience) => self.decided(fate),
                how = end_of(&mut self.current) => {
                    let ran = self.current.take().map(|process| process.started.elapsed());
                    self.watch();
                    self.backoff.ran(ran.unwrap_or_default());
                    self.failed(how);
                }
                lost = &mut self.loss => self.replace(lost),
                () = due::at(self.start_at) => self.start(),
                _ = self.aside.join_next(), if !self.aside.is_empty() => {}
                _ = trim.tick() => self.trim_log(),
                _ = renewal.tick() => self.identify(),
            }
        }
        self.shut_down().await
    }

    /// Says how the fleet is doing.
    fn report(&self) {
        let (availability, admin) = match (&self.current, &self.problem) {
            (Some(process), None) => (Availability::Available(1), process.admin),
            // It serves, but not as it is asked to.
            (Some(process), Some(problem)) => {
                let told = format!("the proxy goes on as it was before, for a new one can't take its place: {problem}");
                (Availability::Failed(told.into()), process.admin)
            }
            (None, Some(problem)) => (Availability::Unavailable(problem.to_string().into()), None),
            (None, None) => (Availability::Starting, None),
        };
        self.reporter.report(&self.wanted.infra, availability, admin);
    }

    /// Takes in a process that an earlier controller has started.
    fn adopt(&mut self, process: Process) {
        let (fleet, pid) = (&self.reporter.key, process.id());
        let place = match process.phase() {
            Phase::Serving if self.current.is_none() => &mut self.current,
            Phase::Starting if self.next.is_none() => &mut self.next,
            _ => {
                tracing::info!(%fleet, pid, "a proxy of an earlier controller is on its way out");
                return self.dismiss(process);
            }
        };
        tracing::info!(%fleet, pid, "a proxy that an earlier controller has started is taken over");
        *place = Some(process);
    }

    /// Sees to it that the process is, or will be, started as is wanted now.
    fn follow(&mut self) {
        self.identify();
        let settings = |process: &Option<Process>| process.as_ref().map(|process| process.start_settings().clone());
        let (current, next) = (settings(&self.current), settings(&self.next));
        let is_current = |start| is_current(&self.wanted.settings, &self.wanted.infra, &start);
        // What can't be planned can't be started: that is told where it is tried.
        if next.is_some_and(|start| is_current(start) == Ok(true)) {
            self.start_at = None;
            return;
        }
        let is_right = current.is_some_and(|start| is_current(start) == Ok(true));
        self.dismiss_next();
        self.backoff.reset();
        self.start_at = (!is_right).then(Instant::now);
        if is_right && self.problem.take().is_some() {
            tracing::info!(fleet = %self.reporter.key, "the proxy that runs is as it is wanted again");
            self.report();
        }
        if !is_right && self.current.is_some() {
            tracing::info!(fleet = %self.reporter.key, "the proxy's start-up settings changed; a new process takes over");
        }
    }

    /// Sees to it that the running processes can prove whose they are.
    fn identify(&self) {
        for process in [&self.current, &self.next].into_iter().flatten() {
            if let Err(problem) = identify(&self.wanted.settings, &self.wanted.infra, process.start_settings()) {
                tracing::warn!(fleet = %self.reporter.key, "the certificate of the proxy can't be renewed: {problem}");
            }
        }
    }

    fn start(&mut self) {
        self.start_at = None;
        let ProcessSpec { infra, settings } = &self.wanted;
        let started = launch::prepare(settings, infra).and_then(|launch| Process::start(launch, &self.reporter.key));
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
            Err(problem) => self.failed(problem.into()),
        }
    }

    /// It is known what becomes of the starting process.
    fn decided(&mut self, fate: Fate) {
        match fate {
            Fate::Ready => self.promote(),
            Fate::Ended(how) => {
                self.next = None;
                self.failed(how);
            }
            Fate::Late(how) => {
                if let Some(process) = self.next.take() {
                    self.aside.spawn(process.end());
                }
                self.failed(how);
            }
        }
    }

    /// The starting process is ready: it serves from now on, and its predecessor may go.
    fn promote(&mut self) {
        let Some(mut process) = self.next.take() else { return };
        self.metrics.count(Counter::ProxiesStarted);
        self.metrics.observe(Timer::ProxyStart, process.started.elapsed());
        tracing::info!(fleet = %self.reporter.key, pid = process.id(), "proxy is ready");
        self.problem = None;
        process.set_phase(Phase::Serving);
        let old = self.current.replace(process);
        self.watch();
        self.give_up();
        self.report();
        if let Some(old) = old {
            self.dismiss(old);
        }
    }

    /// Looks after the process that serves now, if there is one.
    fn watch(&mut self) {
        let patience = self.wanted.settings.answer_patience;
        self.loss = match &self.current {
            Some(process) => Box::pin(process.lost(patience)),
            None => Box::pin(future::pending()),
        };
    }

    /// The current process is there but doesn't serve: another one is to take its place.
    fn replace(&mut self, lost: Lost) {
        let process = self.current.take();
        self.watch();
        let Some(process) = process else { return };
        self.backoff.ran(process.started.elapsed());
        let problem = process.tell(lost);
        match lost {
            Lost::Leaving => self.dismiss(process),
            Lost::Silent(_) => {
                self.give_up();
                self.silent = Some(process);
            }
        }
        self.failed(problem);
    }

    /// Another process serves, or nobody is to: nothing is lost with one that doesn't answer.
    fn give_up(&mut self) {
        if let Some(process) = self.silent.take() {
            let patience = patience(&self.wanted.infra);
            self.aside.spawn(process.give_up(self.waiting.subscribe(), patience));
        }
    }

    /// This process may finish what it has.
    fn dismiss(&mut self, process: Process) {
        let patience = patience(&self.wanted.infra);
        self.aside.spawn(process.leave(self.waiting.subscribe(), patience));
    }

    /// The starting process isn't wanted any more. It may serve already: that it is ready is known only when it was
    /// asked.
    fn dismiss_next(&mut self) {
        if let Some(process) = self.next.take() {
            self.dismiss(process);
        }
    }

    /// A process has ended, isn't ready, or could not be started: it will be tried again.
    fn failed(&mut self, problem: Problem) {
        self.metrics.count(Counter::ProxiesFailed);
        let pause = self.backoff.pause();
        if self.next.is_none() {
            self.start_at = Some(Instant::now() + pause);
        }
        let fleet = &self.reporter.key;
        // The same one isn't told again at every attempt.
        match self.problem.as_ref().is_none_or(|told| problem.is_news_beside(told)) {
            true => tracing::warn!(%fleet, ?pause, "{problem}; trying again"),
            false => tracing::debug!(%fleet, ?pause, "{problem}"),
        }
        self.problem = Some(problem);
        self.report();
    }

    /// Keeps the log at a sensible size.
    fn trim_log(&mut self) {
        let Some(path) = self.current.as_ref().map(|process| process.log().to_owned()) else {
            return;
        };
        self.aside.spawn_blocking(move || {
            if let Err(error) = log_file::trim(&path, log_file::LIMIT) {
                tracing::debug!(path = %path.display(), %error, "can't cut a log");
            }
        });
    }

    /// Takes everything down; how long that may take is the fleet's to say.
    async fn shut_down(mut self) -> FleetKey {
        let begun = Instant::now();
        // Also of those that were replaced: nobody serves any more, so there is no time for idle connections.
        self.waiting.send_replace(WaitFor::Work);
        self.dismiss_next();
        self.give_up();
        if let Some(process) = self.current.take() {
            self.dismiss(process);
            self.metrics.count(Counter::ProxiesStopped);
        }
        self.watch();
        while self.aside.join_next().await.is_some() {}
        self.metrics.observe(Timer::ProxyStop, begun.elapsed());
        tracing::info!(fleet = %self.reporter.key, "proxy stopped");
        self.reporter.key
    }
}

async fn fate_of(process: &mut Option<Process>, before: Option<Listener>, patience: Duration) -> Fate {
    match process {
        Some(process) => process.starting(before, patience).await,
        None => future::pending().await,
    }
}

async fn end_of(process: &mut Option<Process>) -> Problem {
    match process {
        Some(process) => process.ended().await,
        None => future::pending().await,
    }
}
