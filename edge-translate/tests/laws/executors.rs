//! Who runs units, and in which order, shows nowhere.

use super::{
    cases,
    history::{Configuration, Edit, Engine, history},
};
use edge_ir::Executor;
use edge_translate::Translator;
use proptest::prelude::*;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// One that runs the smallest jobs that there are here, in an order that is made of a number.
#[derive(Debug)]
struct Shuffled(u64);

impl Executor for Shuffled {
    fn width(&self) -> usize {
        2
    }

    fn least(&self) -> usize {
        1
    }

    fn run(&self, count: usize, job: &(dyn Fn(usize) + Sync)) {
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|n| (*n as u64 + 1).wrapping_mul(self.0 | 1).rotate_left(29));
        order.into_iter().for_each(job);
    }
}

/// One that runs them on four threads.
#[derive(Debug)]
struct Threads;

impl Executor for Threads {
    fn width(&self) -> usize {
        4
    }

    fn least(&self) -> usize {
        1
    }

    #[allow(clippy::disallowed_methods, reason = "threads are what it is about")]
    fn run(&self, count: usize, job: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..self.width() {
                scope.spawn(|| {
                    while let Some(n) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < count) {
                        job(n);
                    }
                });
            }
        });
    }
}

/// An engine whose units run there.
fn engine_by(executor: impl Executor + 'static) -> Engine {
    let translator = Translator::new(Configuration::Cluster.settings());
    Engine::of(translator.run_by(Arc::new(executor)))
}

/// What two engines say differently of their last translation, or remember.
fn difference(mine: &Engine, other: &Engine) -> Option<String> {
    let (a, b) = (&mine.translation, &other.translation);
    if a.statuses != b.statuses {
        return Some(format!("statuses {:?} against {:?}", a.statuses, b.statuses));
    }
    if a.wanted != b.wanted {
        return Some(format!("wanted {:?} against {:?}", a.wanted, b.wanted));
    }
    let cost = |engine: &Engine| {
        let translator = &engine.translator;
        (
            engine.translation.runs.clone(),
            translator.memo_size(),
            translator.names(),
        )
    };
    if cost(mine) != cost(other) {
        return Some(format!("cost {:?} against {:?}", cost(mine), cost(other)));
    }
    mine.difference(other)
}

proptest! {
    #![proptest_config(cases(60))]

    /// Law 2: whoever runs the units, and in whichever order, gives the same after each batch of edits.
    #[test]
    fn translation_does_not_depend_on_who_runs_it(
        edits in history(0..30),
        batch in prop_oneof![Just(1usize), 2..12usize, Just(100)],
        order in any::<u64>(),
    ) {
        let mut engine = Engine::new(Configuration::Cluster);
        let mut others = [engine_by(Shuffled(order)), engine_by(Threads)];
        for edits in edits.chunks(batch) {
            for engine in std::iter::once(&mut engine).chain(&mut others) {
                edits.iter().for_each(|edit: &Edit| engine.take(edit));
                engine.translate();
            }
            for other in &others {
                prop_assert_eq!(difference(other, &engine), None);
                prop_assert_eq!(other.fleet_text(), engine.fleet_text());
            }
        }
    }
}
