//! The health of hosts: who is probed when, and whom traffic has shown to be ill.
//!
//! Runs in the control half, once for all workers. Every cluster with a policy of health has a task that watches
//! over what traffic shows, and one for each host that is probed. What they find goes into the hosts' vitals; when that
//! changes anything, the view of the cluster's endpoints is made anew, which workers notice by its version.
//! A cluster whose hosts are probed is used once each of them has been probed once: [`Watches::is_warm`].

mod course;
mod detector;
mod events;
mod probe;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

use tokio::task::AbortHandle;

use crate::config::cluster::{Cluster, ClusterEntry};
use crate::config::endpoint::{EndpointSet, Host, HostId};
use crate::config::health::HealthCheck;
use crate::due;
use crate::health::course::{Course, Failure};
use crate::health::detector::Detector;
use crate::health::events::Event;
use crate::random::Random;
use crate::shared::Shared;
use crate::stats::WorkerIndex;
use crate::vitals::{Flag, Vitals};

/// Called when every host of a cluster has been probed once.
pub(crate) type Warmed = Rc<dyn Fn(&Arc<str>)>;

/// The clusters that are watched.
#[derive(Default)]
pub(crate) struct Watches {
    watched: RefCell<BTreeMap<Arc<str>, Vec<Rc<Watch>>>>,
}

impl std::fmt::Debug for Watches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watches").finish_non_exhaustive()
    }
}

/// What is watched of one version of a cluster.
struct Watch {
    shared: Arc<Shared>,
    cluster: Arc<Cluster>,
    endpoints: RefCell<Arc<EndpointSet>>,
    sessions: RefCell<BTreeMap<HostId, Session>>,
    detector: RefCell<Option<Detector>>,
    guard: RefCell<Option<AbortHandle>>,
    random: Random,
    warmed: Warmed,
}

/// The probes of one host.
struct Session {
    host: Arc<Host>,
    task: AbortHandle,
    /// It has been probed once.
    seen: Rc<Cell<bool>>,
}

impl Watches {
    /// Watches over these clusters and no others: what is in use, and what is to be.
    pub(crate) fn sync(&self, shared: &Arc<Shared>, entries: Vec<Arc<ClusterEntry>>, warmed: &Warmed) {
        let mut watched = self.watched.borrow_mut();
        let mut before = std::mem::take(&mut *watched);
        for entry in entries {
            let policy = &entry.cluster.health;
            if policy.check.is_none() && policy.outliers.is_none() {
                continue;
            }
            let name = &entry.cluster.name;
            let known = before.get_mut(name).and_then(|list| {
                let at = list
                    .iter()
                    .position(|watch| Arc::ptr_eq(&watch.cluster, &entry.cluster))?;
                Some(list.swap_remove(at))
            });
            let watch = known.unwrap_or_else(|| Watch::begin(shared, &entry, warmed));
            watch.follow(&entry.endpoints);
            watched.entry(name.clone()).or_default().push(watch);
        }
    }

    /// Whether every host of this version of a cluster has been probed once.
    pub(crate) fn is_warm(&self, cluster: &Arc<Cluster>) -> bool {
        let watched = self.watched.borrow();
        let list = watched.get(&cluster.name).map(Vec::as_slice).unwrap_or_default();
        list.iter()
            .any(|watch| Arc::ptr_eq(&watch.cluster, cluster) && watch.is_warm())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for session in self.sessions.get_mut().values() {
            session.task.abort();
        }
        if let Some(guard) = self.guard.get_mut().take() {
            guard.abort();
        }
    }
}

impl Watch {
    fn begin(shared: &Arc<Shared>, entry: &ClusterEntry, warmed: &Warmed) -> Rc<Self> {
        let cluster = &entry.cluster;
        let watch = Rc::new(Self {
            shared: shared.clone(),
            cluster: cluster.clone(),
            endpoints: RefCell::new(entry.endpoints.clone()),
            sessions: RefCell::default(),
            detector: RefCell::new(cluster.health.outliers.clone().map(Detector::new)),
            guard: RefCell::default(),
            random: Random::new(),
            warmed: warmed.clone(),
        });
        let guard = tokio::task::spawn_local(guard(Rc::downgrade(&watch), cluster.clone()));
        *watch.guard.borrow_mut() = Some(guard.abort_handle());
        watch
    }

    fn is_warm(&self) -> bool {
        self.sessions.borrow().values().all(|session| session.seen.get())
    }

    /// Begins to probe hosts that have come, and ends with those that have gone.
    fn follow(self: &Rc<Self>, endpoints: &Arc<EndpointSet>) {
        *self.endpoints.borrow_mut() = endpoints.clone();
        if let Some(check) = &self.cluster.health.check {
            let mut sessions = self.sessions.borrow_mut();
            let mut before = std::mem::take(&mut *sessions);
            for host in endpoints.hosts.iter() {
                if host.check.as_ref().is_some_and(|check| check.disabled) {
                    // It may have been checked before.
                    if host.vitals.clear(Flag::FailedCheck) | host.vitals.clear(Flag::PendingCheck) {
                        endpoints.refresh();
                    }
                    continue;
                }
                // A host that is described anew is the same host if it is probed in the same way.
                let known = before.remove(&host.id);
                let session = match known {
                    Some(known) if known.host.check == host.check && known.host.hostname == host.hostname => known,
                    Some(known) => {
                        known.task.abort();
                        self.session(check, host, known.seen)
                    }
                    None => self.session(check, host, Rc::default()),
                };
                sessions.insert(host.id, session);
            }
            for session in before.into_values() {
                session.task.abort();
            }
        }
        if let Some(detector) = &mut *self.detector.borrow_mut() {
            detector.follow(&endpoints.hosts);
        }
        self.count();
    }

    fn session(self: &Rc<Self>, check: &Arc<HealthCheck>, host: &Arc<Host>, seen: Rc<Cell<bool>>) -> Session {
        let task = tokio::task::spawn_local(probe_host(
            Rc::downgrade(self),
            check.clone(),
            host.clone(),
            seen.clone(),
        ));
        Session {
            host: host.clone(),
            task: task.abort_handle(),
            seen,
        }
    }

    /// Whoever draws hosts of this cluster must look anew.
    fn changed(&self) {
        self.endpoints.borrow().refresh();
        self.count();
    }

    fn count(&self) {
        let endpoints = self.endpoints.borrow();
        endpoints.count(&self.cluster.stats);
        let cells = self.cluster.stats.control();
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        if self.cluster.health.check.is_some() {
            let passing = endpoints
                .hosts
                .iter()
                .filter(|host| !host.vitals.has(Flag::FailedCheck));
            cells.health_check_healthy.set(number(passing.count()));
            let degraded = endpoints
                .hosts
                .iter()
                .filter(|host| host.vitals.has(Flag::DegradedCheck));
            cells.health_check_degraded.set(number(degraded.count()));
        }
        let ejected = endpoints.hosts.iter().filter(|host| host.vitals.has(Flag::Ejected));
        cells.outlier_ejections_active.set(number(ejected.count()));
    }

    /// Tells who wants to know what became of a probe.
    fn tell(&self, check: &HealthCheck, host: &Host, event: Event) {
        let text = events::line(&check.probe, &self.cluster.name, host, event);
        for file in &check.events.files {
            let batch = crate::log_files::writer::Batch {
                file: file.clone(),
                text: text.clone(),
                lines: 1,
            };
            let cells = self.shared.stats.control();
            match self.shared.logs.take(batch) {
                Ok(()) => cells.access_log_buffered.inc(),
                Err(_) => cells.access_log_dropped.inc(),
            }
        }
    }

    /// Whether workers have ever sent anything to the cluster.
    fn has_traffic(&self) -> bool {
        let stats = &self.cluster.stats;
        (0..self.shared.workers).any(|worker| stats.cells(WorkerIndex(worker)).upstream_cx_total.get() > 0)
    }

    /// A worker has rung: a host asked to be left out, or failed too often in a row.
    fn heed(&self) {
        let endpoints = self.endpoints.borrow().clone();
        let mut changed = false;
        let now = Instant::now();
        for host in endpoints.hosts.iter() {
            if let Some(check) = &self.cluster.health.check
                && host.vitals.has(Flag::Excluded)
                && host.vitals.set(Flag::FailedCheck)
            {
                self.cluster.stats.control().health_check_passive_failure.inc();
                self.tell(check, host, Event::Ejected(Failure::PASSIVE));
                changed = true;
            }
            if let Some(detector) = &mut *self.detector.borrow_mut() {
                for streak in host.vitals.suspicions() {
                    changed |= detector.suspect(host, streak, now, &self.random, &self.cluster.stats);
                }
            }
        }
        if changed {
            self.changed();
        }
    }

    /// Time for what is looked at together.
    fn look(&self) {
        let endpoints = self.endpoints.borrow().clone();
        let changed = match &mut *self.detector.borrow_mut() {
            Some(detector) => detector.look(&endpoints.hosts, Instant::now(), &self.random, &self.cluster.stats),
            None => false,
        };
        if changed {
            self.changed();
        }
    }

    /// What a probe that passes means beyond checks.
    fn passed(&self, vitals: &Vitals, id: HostId) -> bool {
        match &mut *self.detector.borrow_mut() {
            Some(detector) if detector.ends_with_check() && !vitals.has(Flag::FailedCheck) => {
                detector.restore(id, vitals, Instant::now())
            }
            _ => false,
        }
    }
}

/// Follows what workers see of a cluster, as long as it is watched.
async fn guard(watch: Weak<Watch>, cluster: Arc<Cluster>) {
    let interval = cluster.health.outliers.as_ref().map(|outliers| outliers.interval);
    let mut next = interval.map(|interval| tokio::time::Instant::now() + interval);
    loop {
        let is_time = tokio::select! {
            () = cluster.health.bell.notified() => false,
            () = due::at(next) => true,
        };
        let Some(watch) = watch.upgrade() else { return };
        if is_time {
            watch.look();
            next = interval.map(|interval| tokio::time::Instant::now() + interval);
        } else {
            watch.heed();
        }
    }
}

/// Probes a host for ever; whoever forgets it aborts this.
async fn probe_host(watch: Weak<Watch>, check: Arc<HealthCheck>, host: Arc<Host>, seen: Rc<Cell<bool>>) {
    let mut course = Course::new(!seen.get());
    let mut prober = probe::Prober::default();
    let first = {
        let Some(watch) = watch.upgrade() else { return };
        course::jitter(check.intervals.initial_jitter, &watch.random)
    };
    tokio::time::sleep(first).await;
    loop {
        let (cluster, admin) = {
            let Some(watch) = watch.upgrade() else { return };
            watch.cluster.stats.control().health_check_attempt.inc();
            (watch.cluster.clone(), watch.shared.admin_address)
        };
        let outcome = match tokio::time::timeout(check.timeout, prober.probe(&check, &cluster, &host, admin)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                prober.forget();
                Err(Failure::TIMEOUT)
            }
        };
        let Some(watch) = watch.upgrade() else { return };
        let pause = settle(&watch, &check, &host, &mut course, outcome);
        if !seen.replace(true) && watch.is_warm() {
            (watch.warmed)(&watch.cluster.name);
        }
        drop(watch);
        tokio::time::sleep(pause).await;
    }
}

/// Draws the consequences of a probe; how long until the next.
fn settle(
    watch: &Watch,
    check: &HealthCheck,
    host: &Host,
    course: &mut Course,
    outcome: Result<probe::Passed, Failure>,
) -> std::time::Duration {
    let cells = watch.cluster.stats.control();
    let verdict = match outcome {
        Ok(passed) => {
            cells.health_check_success.inc();
            course.passed(check, &host.vitals, passed.degraded)
        }
        Err(failure) => {
            cells.health_check_failure.inc();
            if failure.is_network() {
                cells.health_check_network_failure.inc();
            }
            course.failed(check, &host.vitals, failure)
        }
    };
    for event in verdict.events.iter().flatten() {
        watch.tell(check, host, *event);
    }
    let restored = outcome.is_ok() && watch.passed(&host.vitals, host.id);
    if verdict.transition == course::Transition::Changed || restored {
        watch.changed();
    }
    let pause = course::pause(
        &check.intervals,
        outcome.is_ok(),
        verdict.transition,
        watch.has_traffic(),
    );
    course::with_jitter(pause, &check.intervals, &watch.random)
}
