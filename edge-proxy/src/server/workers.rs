//! The threads of the workers.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::mpsc;

use crate::control::Control;
use crate::shared::{Drain, Shared};
use crate::stats::WorkerIndex;

/// The threads, and which of them has gone.
pub(super) struct Workers {
    threads: Vec<JoinHandle<io::Result<()>>>,
    gone: mpsc::Receiver<usize>,
}

impl Workers {
    /// Starts them all.
    pub(super) fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let mut threads = Vec::with_capacity(shared.workers);
        // Each tells once.
        let (leave, gone) = mpsc::channel(shared.workers.max(1));
        for index in 0..shared.workers {
            let leaving = Leaving {
                index,
                gone: leave.clone(),
            };
            let shared = shared.clone();
            threads.push(start_worker(leaving, move || {
                crate::worker::run(shared, WorkerIndex(index))
            })?);
        }
        shared.stats.control().workers_started.set(1);
        Ok(Self { threads, gone })
    }

    /// Lets them serve until the process is to end, and waits for them to return. A worker that has gone before takes
    /// its share of the sockets along, and whoever comes there waits for ever: it is better to be started again.
    pub(super) async fn serve_until(
        mut self,
        end: impl Future<Output = anyhow::Result<()>>,
        control: &Rc<Control>,
    ) -> anyhow::Result<()> {
        let ended = tokio::select! {
            ended = end => ended,
            Some(worker) = self.gone.recv() => Err(anyhow::anyhow!("worker {worker} has ended before its time")),
        };
        control.drain(Drain::Stop);
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "a worker failed"),
                Err(_) => tracing::error!("a worker panicked"),
            }
        }
        ended
    }
}

fn start_worker<T: Send + 'static>(
    leaving: Leaving,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let builder = std::thread::Builder::new().name(format!("worker-{}", leaving.index));
    builder.spawn(move || {
        let _leaving = leaving;
        work()
    })
}

/// Says that a worker has gone, also when it has panicked.
struct Leaving {
    index: usize,
    gone: mpsc::Sender<usize>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        // Nobody may listen any more.
        let _ = self.gone.try_send(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_worker_that_panics_is_missed() {
        let (gone, mut ends) = mpsc::channel(1);
        let worker = start_worker(Leaving { index: 3, gone }, || Vec::<u8>::new().swap_remove(0)).unwrap();
        assert_eq!(ends.recv().await, Some(3));
        assert!(worker.join().is_err());
    }
}
