//! Choosing a host of a cluster.
//!
//! What: Envoy's two steps: a priority (and, with locality weights, a locality), then a host in it by round robin,
//! least request or at random. Positions are kept per worker and cluster and start anew with a new set of endpoints.
//! Why a schedule of deadlines for weights: it spreads a host's turns evenly and picks in O(log n).

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::Ordering as Memory;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::config::cluster::{ClusterEntry, LbPolicy};
use crate::config::endpoint::{EndpointSet, Host, HostId, Priority};
use crate::config::{ClusterId, Snapshot};
use crate::random::Random;

#[cfg(test)]
mod tests;

/// The positions of all clusters.
#[derive(Debug, Default)]
pub(crate) struct Balancers {
    by_cluster: RefCell<Vec<Option<Positions>>>,
    retries: RefCell<FxHashMap<ClusterId, u32>>,
}

/// A retry in flight.
#[derive(Debug)]
pub(crate) struct Retrying<'a> {
    balancers: &'a Balancers,
    cluster: ClusterId,
}

impl Drop for Retrying<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.balancers.retries.borrow_mut().get_mut(&self.cluster) {
            *count = count.saturating_sub(1);
        }
    }
}

#[derive(Debug)]
struct Positions {
    endpoints: Arc<EndpointSet>,
    groups: SmallVec<[(GroupId, Turn); 1]>,
}

/// A priority and, with locality weights, a locality in it.
type GroupId = (usize, Option<usize>);

#[derive(Debug)]
enum Turn {
    /// Equal weights: one after the other.
    Next(usize),
    /// Earliest deadline first.
    Schedule(BinaryHeap<Slot>),
}

#[derive(Debug, PartialEq, Eq)]
struct Slot {
    /// In units of which a host of weight 1 takes [`TURN`] for a turn.
    deadline: u128,
    /// Breaks ties by who had fewer turns.
    order: u64,
    host: u32,
}

/// Large enough that no weight rounds to nothing, small enough that no proxy lives to see it overflow.
const TURN: u128 = 1 << 64;

impl Ord for Slot {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap gives the greatest; the earliest must come first.
        (other.deadline, other.order).cmp(&(self.deadline, self.order))
    }
}

impl PartialOrd for Slot {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The hosts among which one is drawn.
struct Group<'a> {
    id: GroupId,
    usable: &'a [u32],
    equal_weights: bool,
}

impl Balancers {
    /// A host for a request; not one of `avoid` if `attempts` further draws can help it.
    pub(crate) fn pick<'a>(
        &self,
        entry: &'a ClusterEntry,
        random: &Random,
        avoid: &[HostId],
        attempts: u32,
    ) -> Option<&'a Arc<Host>> {
        let mut host = self.draw(entry, random)?;
        if !avoid.is_empty() {
            for _ in 0..attempts {
                if !avoid.contains(&host.id) {
                    break;
                }
                host = self.draw(entry, random)?;
            }
        }
        Some(host)
    }

    fn draw<'a>(&self, entry: &'a ClusterEntry, random: &Random) -> Option<&'a Arc<Host>> {
        let endpoints = &entry.endpoints;
        let group = group(entry, random)?;
        let index = match (group.usable, entry.cluster.balancing.policy) {
            ([], _) => return None,
            ([only], _) => *only,
            (usable, LbPolicy::Random) if group.equal_weights => usable[random.below(usable.len())],
            (usable, LbPolicy::LeastRequest { choices }) => least_loaded(endpoints, usable, choices, random),
            (usable, LbPolicy::Random) => weighted(endpoints, usable, random),
            (_, LbPolicy::RoundRobin) => self.turn(entry, &group, random)?,
        };
        endpoints.hosts.get(index as usize)
    }

    fn turn(&self, entry: &ClusterEntry, group: &Group<'_>, random: &Random) -> Option<u32> {
        let mut by_cluster = self.by_cluster.borrow_mut();
        let at = entry.id.0 as usize;
        if by_cluster.len() <= at {
            by_cluster.resize_with(at + 1, || None);
        }
        let place = &mut by_cluster[at];
        if !place
            .as_ref()
            .is_some_and(|positions| Arc::ptr_eq(&positions.endpoints, &entry.endpoints))
        {
            *place = Some(Positions {
                endpoints: Arc::clone(&entry.endpoints),
                groups: SmallVec::new(),
            });
        }
        let positions = place.as_mut()?;
        let found = positions.groups.iter().position(|(id, _)| *id == group.id);
        let found = match found {
            Some(found) => found,
            None => {
                positions
                    .groups
                    .push((group.id, Turn::new(&entry.endpoints, group, random)));
                positions.groups.len() - 1
            }
        };
        positions.groups[found].1.next(&entry.endpoints, group.usable)
    }

    /// Counts a retry while the guard lives; `None` when too many are in flight. Every worker has its share of the
    /// limit, at least one: retries are rare, and not worth counters that all workers write.
    pub(crate) fn begin_retry(&self, entry: &ClusterEntry, workers: usize) -> Option<Retrying<'_>> {
        let share = (entry.cluster.limits.max_retries as usize).div_ceil(workers.max(1));
        let mut retries = self.retries.borrow_mut();
        let count = retries.entry(entry.id).or_default();
        if *count as usize >= share {
            return None;
        }
        *count += 1;
        Some(Retrying {
            balancers: self,
            cluster: entry.id,
        })
    }

    /// Forgets clusters that are gone, so that their endpoints are freed.
    pub(crate) fn follow(&self, snapshot: &Snapshot) {
        for (id, place) in self.by_cluster.borrow_mut().iter_mut().enumerate() {
            let current = snapshot.clusters.get(id).and_then(Option::as_ref);
            if let (Some(positions), current) = (&place, current)
                && !current.is_some_and(|entry| Arc::ptr_eq(&entry.endpoints, &positions.endpoints))
            {
                *place = None;
            }
        }
    }
}

impl Turn {
    fn new(endpoints: &EndpointSet, group: &Group<'_>, random: &Random) -> Self {
        if group.equal_weights {
            // Workers start at different hosts, else a small load would all meet the first.
            return Self::Next(random.below(group.usable.len()));
        }
        let mut schedule = BinaryHeap::with_capacity(group.usable.len());
        for (order, host) in (0..).zip(group.usable) {
            let deadline = TURN / u128::from(weight_of(endpoints, *host));
            schedule.push(Slot {
                deadline,
                order,
                host: *host,
            });
        }
        Self::Schedule(schedule)
    }

    fn next(&mut self, endpoints: &EndpointSet, usable: &[u32]) -> Option<u32> {
        match self {
            Self::Next(next) => {
                let at = *next % usable.len();
                *next = at + 1;
                usable.get(at).copied()
            }
            Self::Schedule(schedule) => {
                let mut first = schedule.peek_mut()?;
                let host = first.host;
                first.deadline += TURN / u128::from(weight_of(endpoints, host));
                first.order += usable.len() as u64;
                Some(host)
            }
        }
    }
}

fn weight_of(endpoints: &EndpointSet, host: u32) -> u32 {
    endpoints.hosts.get(host as usize).map_or(1, |host| host.weight.max(1))
}

fn group<'a>(entry: &'a ClusterEntry, random: &Random) -> Option<Group<'a>> {
    let priority = entry.endpoints.pick_priority(random.next())?;
    let at = entry
        .endpoints
        .priorities
        .iter()
        .position(|one| std::ptr::eq(one, priority))
        .unwrap_or(0);
    if entry.cluster.balancing.locality_weighted
        && let Some(group) = locality(priority, at, random)
    {
        return Some(group);
    }
    Some(Group {
        id: (at, None),
        usable: &priority.usable,
        equal_weights: priority.equal_weights,
    })
}

fn locality<'a>(priority: &'a Priority, at: usize, random: &Random) -> Option<Group<'a>> {
    if priority.total_locality_weight == 0 {
        return None;
    }
    let mut rest = random.next() % priority.total_locality_weight;
    for (index, locality) in priority.localities.iter().enumerate() {
        if rest < locality.effective_weight {
            let id = (at, Some(index));
            return Some(Group {
                id,
                usable: &locality.usable,
                equal_weights: locality.equal_weights,
            });
        }
        rest -= locality.effective_weight;
    }
    None
}

/// The better of some random hosts: fewest requests in flight for its weight.
fn least_loaded(endpoints: &EndpointSet, usable: &[u32], choices: u32, random: &Random) -> u32 {
    // (requests + 1) / weight, compared without division.
    let load = |index: u32| {
        let host = endpoints.hosts.get(index as usize);
        host.map_or((i64::MAX / 2, 1), |host| {
            (
                host.stats.rq_active.load(Memory::Relaxed).max(0) + 1,
                i64::from(host.weight.max(1)),
            )
        })
    };
    let mut best = usable[random.below(usable.len())];
    let mut best_load = load(best);
    for _ in 1..choices.max(2) {
        let other = usable[random.below(usable.len())];
        let other_load = load(other);
        if other_load.0.saturating_mul(best_load.1) < best_load.0.saturating_mul(other_load.1) {
            (best, best_load) = (other, other_load);
        }
    }
    best
}

fn weighted(endpoints: &EndpointSet, usable: &[u32], random: &Random) -> u32 {
    let total: u64 = usable.iter().map(|host| u64::from(weight_of(endpoints, *host))).sum();
    let mut rest = random.next() % total.max(1);
    for host in usable {
        let weight = u64::from(weight_of(endpoints, *host));
        if rest < weight {
            return *host;
        }
        rest -= weight;
    }
    usable[0]
}
