//! Tasks that somebody owns: each has a name, a signal to stop, and an end that is waited for.
//!
//! Nothing in this crate runs detached. A [`Task`] that is dropped stops too, because its [`Stop`] sees the owner go.
//! No task of the controller ends in silence: one that returns or panics without being asked is logged, counted, and
//! told by `/readyz` ([`Supervision`]). Those that can begin again do so after a pause; of the others, the controller
//! ends with the reason, and whoever runs it starts it again.

use crate::{
    backoff::Backoff,
    metrics::{Counter, Metrics},
};
use futures_util::FutureExt as _;
use std::{any::Any, collections::BTreeMap, future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{self, Instant},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long it may take from the end of those who feed a task to its own stop.
const STOPPING: Duration = Duration::from_secs(120);
/// The first and the longest pause before a task that failed begins again.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// The receiving end of a request to stop.
#[derive(Clone, Debug)]
pub struct Stop(CancellationToken);

impl Stop {
    /// Resolves when the owner asks to stop or is gone. May be awaited any number of times.
    pub async fn requested(&mut self) {
        self.0.cancelled().await;
    }

    /// Whether the owner has asked already.
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// The sending end of a request to stop. Dropping it asks too.
#[derive(Debug)]
pub struct StopSource(DropGuard);

impl StopSource {
    /// A source and the signal that listens to it.
    pub fn new() -> (Self, Stop) {
        let token = CancellationToken::new();
        (Self(token.clone().drop_guard()), Stop(token))
    }

    /// Asks everyone who listens to stop.
    pub fn stop(self) {
        drop(self.0);
    }
}

/// What is known about tasks that ended without being asked.
#[derive(Clone, Debug)]
pub struct Supervision {
    failures: Arc<watch::Sender<Failures>>,
    metrics: Arc<Metrics>,
}

/// Tasks that aren't running, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// By name: what their end was like.
    pub down: BTreeMap<&'static str, String>,
    /// The one without which the controller can't go on.
    pub fatal: Option<&'static str>,
}

impl Supervision {
    /// Nothing has failed yet.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            failures: Arc::default(),
            metrics,
        }
    }

    /// What has failed and isn't running.
    pub fn failures(&self) -> watch::Receiver<Failures> {
        self.failures.subscribe()
    }

    /// Resolves when the controller can't go on: the task, and how it ended.
    pub async fn fatal(&self) -> (&'static str, String) {
        let mut failures = self.failures();
        // The sender is ours, so this ends only with an answer.
        let found = failures.wait_for(|failures| failures.fatal.is_some()).await;
        let found = found.map(|failures| failures.clone()).unwrap_or_default();
        let name = found.fatal.unwrap_or_default();
        (name, found.down.get(name).cloned().unwrap_or_default())
    }

    fn failed(&self, name: &'static str, how: &str, remedy: &str) {
        self.metrics.count(Counter::TaskFailures);
        tracing::error!(task = name, "the task {how}; {remedy}");
        self.failures
            .send_modify(|failures| drop(failures.down.insert(name, how.to_owned())));
    }

    fn runs_again(&self, name: &'static str) {
        self.failures.send_modify(|failures| drop(failures.down.remove(name)));
    }
}

/// A running task.
#[derive(Debug)]
pub struct Task {
    name: &'static str,
    stop: StopSource,
    join: JoinHandle<()>,
}

impl Task {
    /// Starts a task that ends soon after its signal asks.
    pub fn spawn<F: Future<Output = ()> + Send + 'static>(name: &'static str, run: impl FnOnce(Stop) -> F) -> Self {
        let (stop, signal) = StopSource::new();
        Self {
            name,
            stop,
            join: tokio::spawn(run(signal)),
        }
    }

    /// Starts a task that begins again whenever it ends without being asked.
    pub fn lasting<F>(
        name: &'static str,
        supervision: &Supervision,
        mut begin: impl FnMut(Stop) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let supervision = supervision.clone();
        Self::spawn(name, move |mut stop| async move {
            let mut backoff = PAUSES;
            loop {
                let begun = Instant::now();
                let how = end_of(begin(stop.clone())).await;
                if stop.is_requested() {
                    return;
                }
                backoff.ran(begun.elapsed());
                let pause = backoff.pause();
                supervision.failed(name, &how, &format!("it begins again in {pause:?}"));
                tokio::select! {
                    () = stop.requested() => return,
                    () = time::sleep(pause) => {}
                }
                supervision.runs_again(name);
            }
        })
    }

    /// Starts a task without which the controller can't go on.
    pub fn vital<F>(name: &'static str, supervision: &Supervision, run: impl FnOnce(Stop) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let supervision = supervision.clone();
        Self::spawn(name, move |stop| {
            let task = run(stop.clone());
            async move {
                let how = end_of(task).await;
                if !stop.is_requested() {
                    supervision.failed(name, &how, "the controller can't go on without it and ends");
                    supervision.failures.send_modify(|failures| failures.fatal = Some(name));
                }
            }
        })
    }

    /// The same for work that blocks a thread and ends when its input does.
    pub fn vital_blocking(name: &'static str, supervision: &Supervision, run: impl FnOnce() + Send + 'static) -> Self {
        Self::vital(name, supervision, |mut stop| async move {
            if let Err(error) = tokio::task::spawn_blocking(run).await
                && let Ok(panic) = error.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
            // Its input ends with those who feed it, and they are asked to stop before. Without that, it has failed.
            let _ = time::timeout(STOPPING, stop.requested()).await;
        })
    }

    /// Whether it hasn't ended.
    pub fn is_running(&self) -> bool {
        !self.join.is_finished()
    }

    /// Asks the task to stop and waits for its end, at most `grace`; then it is cut off.
    pub async fn stop(self, grace: Duration) {
        let Self { name, stop, mut join } = self;
        stop.stop();
        match time::timeout(grace, &mut join).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(task = name, %error, "task failed"),
            Err(_) => {
                tracing::warn!(task = name, "task did not stop in time and is cut off");
                join.abort();
            }
        }
    }
}

/// Runs a task to its end, and says what that was like. A task shares nothing with others that a panic could leave half
/// done: what it owns goes with it, and channels stay whole.
pub async fn end_of(task: impl Future<Output = ()>) -> String {
    match attempt(task).await {
        Ok(()) => "has ended without being asked".to_owned(),
        Err(bug) => format!("has failed by {bug}"),
    }
}

/// Runs a part of a task that may begin again: a panic in it is a bug, which costs this attempt and is told in words.
pub async fn attempt<T>(part: impl Future<Output = T>) -> Result<T, String> {
    let ended = AssertUnwindSafe(part).catch_unwind().await;
    ended.map_err(|panic| format!("a bug: {}", words(&*panic)))
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without words")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn a_stopped_task_has_ended() {
        let (sender, ended) = oneshot::channel();
        let task = Task::spawn("test", |mut stop| async move {
            stop.requested().await;
            sender.send(()).unwrap();
        });
        task.stop(Duration::from_secs(5)).await;
        assert_eq!(ended.await, Ok(()));
    }

    #[tokio::test]
    async fn a_dropped_task_stops() {
        let (sender, ended) = oneshot::channel();
        drop(Task::spawn("test", |mut stop| async move {
            stop.requested().await;
            sender.send(()).unwrap();
        }));
        assert_eq!(ended.await, Ok(()));
    }

    #[tokio::test]
    async fn a_lasting_task_that_fails_is_told_counted_and_begins_again() {
        let metrics = Arc::new(Metrics::default());
        let supervision = Supervision::new(Arc::clone(&metrics));
        let mut failures = supervision.failures();
        let runs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        let task = Task::lasting("test", &supervision, move |mut stop| {
            let run = counted.fetch_add(1, Ordering::Relaxed);
            async move {
                assert!(run > 0, "the first run has a bug");
                if run > 1 {
                    stop.requested().await;
                }
            }
        });
        let down = |text: &'static str| move |f: &Failures| f.down.get("test").is_some_and(|how| how.contains(text));
        failures.wait_for(down("a bug: the first run")).await.unwrap();
        failures.wait_for(down("without being asked")).await.unwrap();
        failures.wait_for(|failures| failures.down.is_empty()).await.unwrap();
        assert_eq!(metrics.counted(Counter::TaskFailures), 2);
        while runs.load(Ordering::Relaxed) < 3 {
            tokio::task::yield_now().await;
        }
        task.stop(Duration::from_secs(5)).await;
        assert_eq!(*failures.borrow(), Failures::default(), "a stop is no failure");
    }

    #[tokio::test]
    async fn a_vital_task_that_fails_ends_the_controller_with_its_reason() {
        let supervision = Supervision::new(Arc::default());
        let _task = Task::vital_blocking("world", &supervision, || panic!("out of ideas"));
        let (name, how) = supervision.fatal().await;
        assert_eq!((name, &*how), ("world", "has failed by a bug: out of ideas"));
    }
}
