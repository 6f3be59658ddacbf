//! Tasks that somebody owns: each has a name, a signal to stop, and an end that is waited for.
//!
//! Nothing in this crate runs detached. A [`Task`] that is dropped stops too, because its [`Stop`] sees the owner go.

use std::{future::Future, time::Duration};
use tokio::{sync::watch, task::JoinHandle, time};

/// The receiving end of a request to stop.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Resolves when the owner asks to stop or is gone. May be awaited any number of times.
    pub async fn requested(&mut self) {
        // An error means that the owner was dropped: as good as a request.
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    /// Whether the owner has asked already.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

/// The sending end of a request to stop.
#[derive(Debug)]
pub struct StopSource(watch::Sender<bool>);

impl StopSource {
    /// A source and the signal that listens to it.
    pub fn new() -> (Self, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Stop(receiver))
    }

    /// Asks everyone who listens to stop.
    pub fn stop(&self) {
        self.0.send_replace(true);
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

    /// Asks the task to stop and waits for its end, at most `grace`; then it is cut off.
    pub async fn stop(mut self, grace: Duration) {
        self.stop.stop();
        match time::timeout(grace, &mut self.join).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(task = self.name, %error, "task failed"),
            Err(_) => {
                tracing::warn!(task = self.name, "task did not stop in time and is cut off");
                self.join.abort();
            }
        }
    }

    /// Resolves when the task ends on its own, which for most tasks is a fault.
    pub async fn ended(&mut self) {
        if let Err(error) = (&mut self.join).await {
            tracing::error!(task = self.name, %error, "task failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
