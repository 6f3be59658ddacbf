//! The threads on which the programs run what the pure crates can split.
//!
//! They live for as long as there is something to run: starting one takes a tenth of a millisecond at most, and only
//! what takes longer is split. A pool would keep threads for the few moments in which a controller translates much.

use edge_ir::Executor;
use std::{
    num::NonZero,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// All cores of the machine that this process may use.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    count: usize,
}

impl Cores {
    /// Those that there are now.
    pub fn available() -> Self {
        Self {
            count: thread::available_parallelism().map_or(1, NonZero::get),
        }
    }
}

impl Executor for Cores {
    fn width(&self) -> usize {
        self.count
    }

    /// A panic in a job goes on in who called.
    fn run(&self, count: usize, job: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < count);
        let work = || {
            while let Some(n) = take() {
                job(n);
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.count.min(count) {
                // Where no thread is to be had, this one does it all.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_runs_once() {
        for count in [0, 1, 2, 1000] {
            let ran: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            let cores = Cores { count: 3 };
            cores.run(count, &|n| {
                ran[n].fetch_add(1, Ordering::Relaxed);
            });
            assert!(ran.iter().all(|ran| ran.load(Ordering::Relaxed) == 1));
        }
        assert!(Cores::available().width() >= 1);
    }
}
