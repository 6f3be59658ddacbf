//! What is done with the objects of fleets in a cluster, by kind: the same series as those of proxy processes, which
//! stand before them on the page. A kind of which nothing was done has none.

use super::{Buckets, Counter, Page, Timer};
use edge_infra::ObjectKind;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// What is done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It is created or changed.
    Apply,
    /// It is deleted.
    Delete,
}

/// How that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is done.
    Success,
    /// It isn't.
    Failure,
}

/// Deeds by kind of object.
#[derive(Debug)]
pub(super) struct Objects([[Deeds; 2]; ObjectKind::ALL.len()]);

/// One deed with one kind: how often it succeeded and failed, and how long it took.
#[derive(Debug, Default)]
struct Deeds {
    ends: [AtomicU64; 2],
    took: Buckets,
}

impl Default for Objects {
    fn default() -> Self {
        Self(std::array::from_fn(|_| std::array::from_fn(|_| Deeds::default())))
    }
}

impl Objects {
    pub(super) fn record(&self, kind: ObjectKind, (deed, end): (Deed, End), took: Duration) {
        let deeds = &self.0[kind as usize][deed as usize];
        deeds.ends[end as usize].fetch_add(1, Ordering::Relaxed);
        if end == End::Success {
            deeds.took.observe(took);
        }
    }

    /// Puts what belongs to the name of a counter behind it.
    pub(super) fn follow_counter(&self, counter: Counter, page: &mut Page) {
        let deed = match counter {
            Counter::ProxiesFailed => Deed::Apply,
            Counter::ProxiesStopped => Deed::Delete,
            _ => return,
        };
        let (name, ..) = counter.series();
        for (kind, deeds) in self.of(deed) {
            for (end, status) in [(End::Success, "success"), (End::Failure, "failure")] {
                let count = deeds.ends[end as usize].load(Ordering::Relaxed);
                page.value(name, &format!("kind=\"{}\",status=\"{status}\"", kind.as_str()), &count);
            }
        }
    }

    /// Puts what belongs to the name of a timer behind it.
    pub(super) fn follow_timer(&self, timer: Timer, page: &mut Page) {
        let deed = match timer {
            Timer::ProxyStart => Deed::Apply,
            Timer::ProxyStop => Deed::Delete,
            _ => return,
        };
        let (name, ..) = timer.series();
        for (kind, deeds) in self.of(deed) {
            page.histogram(name, &format!("kind=\"{}\"", kind.as_str()), &deeds.took);
        }
    }

    /// Kinds with which it was done or tried.
    fn of(&self, deed: Deed) -> impl Iterator<Item = (ObjectKind, &Deeds)> {
        let kinds = ObjectKind::ALL.into_iter().zip(&self.0);
        let deeds = kinds.map(move |(kind, deeds)| (kind, &deeds[deed as usize]));
        deeds.filter(|(_, deeds)| deeds.ends.iter().any(|count| count.load(Ordering::Relaxed) > 0))
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::{Deed, End, Metrics};
    use edge_infra::ObjectKind;
    use std::time::Duration;

    #[test]
    fn deeds_stand_under_the_names_that_processes_have_and_only_of_kinds_that_there_are() {
        let metrics = Metrics::default();
        metrics.record(
            ObjectKind::Service,
            (Deed::Apply, End::Success),
            Duration::from_millis(2),
        );
        metrics.record(
            ObjectKind::Service,
            (Deed::Apply, End::Failure),
            Duration::from_millis(2),
        );
        metrics.record(
            ObjectKind::Budget,
            (Deed::Delete, End::Success),
            Duration::from_millis(2),
        );
        let page = metrics.render();
        for line in [
            "resource_apply_total{kind=\"Service\",status=\"success\"} 1",
            "resource_apply_total{kind=\"Service\",status=\"failure\"} 1",
            "resource_apply_duration_seconds_count{kind=\"Service\"} 1",
            "resource_delete_total{kind=\"PodDisruptionBudget\",status=\"success\"} 1",
            "resource_delete_duration_seconds_count{kind=\"PodDisruptionBudget\"} 1",
        ] {
            assert!(page.contains(&format!("\n{line}\n")), "{line} isn't in\n{page}");
        }
        assert!(!page.contains("kind=\"Deployment\""), "{page}");
        // The lines of a name stand together: the format asks for it.
        let mut names: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        let applied: Vec<usize> = page
            .lines()
            .enumerate()
            .filter(|(_, line)| line.starts_with("resource_apply_total"))
            .map(|(n, _)| n)
            .collect();
        assert!(applied.windows(2).all(|pair| pair[1] == pair[0] + 1), "{page}");
    }
}
