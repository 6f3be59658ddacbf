//! Who runs work that can be split: the crates that are pure have no threads, and are passed someone who has.
//!
//! What comes out never depends on it. Without one, everything runs where it is called.

use std::{fmt, sync::OnceLock};

/// Runs independent jobs.
pub trait Executor: fmt::Debug + Send + Sync {
    /// How many jobs run at the same time, at most.
    fn width(&self) -> usize;

    /// How many small pieces of work, of some microseconds each, are worth a job. Where there is less than two jobs
    /// nobody is asked to run them.
    fn least(&self) -> usize {
        64
    }

    /// Calls `job` once with each number below `count`, in any order and on any threads, and returns when all calls
    /// have.
    fn run(&self, count: usize, job: &(dyn Fn(usize) + Sync));
}

/// Everything where it is called, one after another.
#[derive(Clone, Copy, Debug, Default)]
pub struct InPlace;

impl Executor for InPlace {
    fn width(&self) -> usize {
        1
    }

    fn run(&self, count: usize, job: &(dyn Fn(usize) + Sync)) {
        (0..count).for_each(job);
    }
}

/// Shares for each job that may run at a time: who is done with one takes the next, so that no one waits long for
/// others.
const SHARES: usize = 8;

/// Whether so many small pieces of work are worth more than one job.
pub fn is_worth_sharing(executor: &dyn Executor, pieces: usize) -> bool {
    executor.width() > 1 && pieces > 1 && pieces >= executor.least().saturating_mul(2)
}

/// What `work` makes of runs of a list, in the order of the list; of all of it at once where it isn't worth more than
/// one job. Each element is `weight` small pieces of work.
pub fn in_shares<T: Sync, R: Send + Sync>(
    executor: &dyn Executor,
    list: &[T],
    weight: usize,
    work: impl Fn(&[T]) -> R + Sync,
) -> Vec<R> {
    let weight = weight.max(1);
    if list.len() < 2 || !is_worth_sharing(executor, list.len().saturating_mul(weight)) {
        return vec![work(list)];
    }
    let least = executor.least().div_ceil(weight).max(1);
    let size = list.len().div_ceil(executor.width() * SHARES).max(least);
    let shares: Vec<&[T]> = list.chunks(size).collect();
    let done: Vec<OnceLock<R>> = shares.iter().map(|_| OnceLock::new()).collect();
    executor.run(shares.len(), &|n| {
        if let (Some(share), Some(done)) = (shares.get(n), done.get(n)) {
            done.get_or_init(|| work(share));
        }
    });
    // One that was left out is done here: an executor can cost time, and nothing else.
    let shares = shares.iter().zip(done);
    shares
        .map(|(share, done)| done.into_inner().unwrap_or_else(|| work(share)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that says it has four threads, and does what it likes.
    #[derive(Debug)]
    struct Wayward(fn(usize) -> Vec<usize>);

    impl Executor for Wayward {
        fn width(&self) -> usize {
            4
        }

        fn least(&self) -> usize {
            10
        }

        fn run(&self, count: usize, job: &(dyn Fn(usize) + Sync)) {
            (self.0)(count).into_iter().for_each(job);
        }
    }

    #[test]
    fn shares_make_up_the_list_whoever_runs_them() {
        let list: Vec<usize> = (0..1000).collect();
        let executors: [&dyn Executor; 5] = [
            &InPlace,
            &Wayward(|count| (0..count).collect()),
            &Wayward(|count| (0..count).rev().collect()),
            &Wayward(|_| Vec::new()),
            &Wayward(|count| (0..2 * count).chain(0..count).collect()),
        ];
        for executor in executors {
            let shares = in_shares(executor, &list, 1, <[usize]>::to_vec);
            assert_eq!(shares.concat(), list, "{executor:?}");
            assert_eq!(shares.len() > 1, executor.width() > 1);
            assert_eq!(in_shares(executor, &list[..19], 1, <[usize]>::len), [19]);
            assert_eq!(
                in_shares(executor, &list[..2], 10, <[usize]>::len).len(),
                executor.width().min(2)
            );
            assert_eq!(in_shares(executor, &[], 0, <[usize]>::len), [0]);
        }
    }
}
