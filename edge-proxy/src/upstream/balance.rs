//! Choosing a host of a cluster.
//!
//! Envoy's two steps: a priority (and, with locality weights, a locality), then a host in it by round robin,
//! least request, hash or at random. Positions are kept per worker and cluster and start anew with a new view of its
//! endpoints, which a worker notices by its version.
//! Why a schedule of deadlines for weights: it spreads a host's turns evenly and picks in O(log n). By least request
//! hosts of equal weight are compared, and those of other weights take turns, which come later the more requests a host
//! has.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering as Memory;
use std::time::Instant;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::config::cluster::{ALL, ClusterEntry, LbPolicy, SlowStart};
use crate::config::endpoint::view::{Drawable, Fitness, Hosts, Passed, Priority, View};
use crate::config::endpoint::{EndpointSet, Host, HostId};
use crate::config::{ClusterId, Snapshot};
use crate::random::Random;
use crate::upstream::limits::most_retries;
use reported::Reported;
use zones::{Chosen, Zoned};

mod reported;
mod zones;

#[cfg(test)]
mod tests;

/// The positions of all clusters.
#[derive(Debug, Default)]
pub(crate) struct Balancers {
    by_cluster: RefCell<Vec<Option<Place>>>,
    retries: Rc<RefCell<FxHashMap<ClusterId, u32>>>,
}

/// A retry in flight: from its back-off until its attempt has come to something.
#[derive(Debug)]
pub(crate) struct Retrying {
    retries: Rc<RefCell<FxHashMap<ClusterId, u32>>>,
    cluster: ClusterId,
}

impl Drop for Retrying {
    fn drop(&mut self) {
        if let Some(count) = self.retries.borrow_mut().get_mut(&self.cluster) {
            *count = count.saturating_sub(1);
        }
    }
}

/// What a worker remembers of a cluster.
#[derive(Debug)]
struct Place {
    endpoints: Arc<EndpointSet>,
    /// Of the view.
    version: u64,
    view: Arc<View>,
    /// Until then some hosts get less than their weight.
    slow_until: Option<Instant>,
    turns: SmallVec<[(GroupId, Turn); 1]>,
    /// Which locality is asked, where that of the proxy comes first.
    zoned: Option<Zoned>,
    /// Weights by what hosts report, where these count.
    reported: Option<Reported>,
}

/// A priority, which of its hosts and, where one is chosen, a locality.
type GroupId = (usize, Fitness, Option<usize>);

/// What a request asks of the host that it gets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choice<'a> {
    /// What hashing policies go by; a random number where the request has none.
    pub(crate) hash: Option<u64>,
    /// Not one of these, if further draws can help it.
    pub(crate) avoid: &'a [HostId],
    /// How many.
    pub(crate) draws: u32,
    /// Not of these priorities, if others can help it.
    pub(crate) past: Passed,
}

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

/// How finely first turns are spread.
const SHARES: u128 = 1024;

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

/// Weights as they are now: hosts that have just begun get less.
#[derive(Clone, Copy)]
struct Weights<'a> {
    endpoints: &'a EndpointSet,
    slow: Option<(SlowStart, Instant)>,
    /// In place of those of the configuration.
    reported: Option<&'a [u32]>,
    /// How much requests in flight take off a weight: its divisor is their number and one, to this power.
    bias: f64,
}

impl Weights<'_> {
    fn of(&self, index: u32) -> f64 {
        let Some(host) = self.endpoints.hosts.get(index as usize) else {
            return 1.0;
        };
        let reported = self.reported.and_then(|weights| weights.get(index as usize));
        let mut weight = f64::from(reported.copied().unwrap_or(host.weight).max(1));
        if self.bias > 0.0 {
            weight /= ((active(host) + 1) as f64).powf(self.bias);
        }
        match self.slow {
            None => weight,
            Some((slow, now)) => weight * slow.factor(host.vitals.age(now)),
        }
    }

    /// Whether hosts of equal weight are alike at all times.
    fn are_plain(&self) -> bool {
        self.slow.is_none() && self.reported.is_none()
    }
}

fn active(host: &Host) -> i64 {
    host.stats.rq_active.load(Memory::Relaxed).clamp(0, i64::MAX - 1)
}

impl Balancers {
    /// A host for a request.
    pub(crate) fn pick<'a>(
        &self,
        entry: &'a ClusterEntry,
        random: &Random,
        choice: Choice<'_>,
    ) -> Option<&'a Arc<Host>> {
        let mut by_cluster = self.by_cluster.borrow_mut();
        let at = entry.id.0 as usize;
        if by_cluster.len() <= at {
            by_cluster.resize_with(at + 1, || None);
        }
        let place = Place::current(&mut by_cluster[at], entry);
        let hosts = &entry.endpoints.hosts;
        if let LbPolicy::Hash = entry.cluster.balancing.policy {
            let index = place.by_hash(choice.hash.unwrap_or_else(|| random.next()), hosts, choice)?;
            return hosts.get(index as usize);
        }
        let mut host = hosts.get(place.draw(entry, random, choice.past)? as usize)?;
        if !choice.avoid.is_empty() {
            for _ in 0..choice.draws {
                if !choice.avoid.contains(&host.id) {
                    break;
                }
                host = hosts.get(place.draw(entry, random, choice.past)? as usize)?;
            }
        }
        Some(host)
    }

    /// Counts a retry while the guard lives; `None` when too many are in flight. Every worker has its share of the
    /// limit, at least one: retries are rare, and not worth counters that all workers write.
    pub(crate) fn begin_retry(&self, entry: &ClusterEntry, workers: usize) -> Option<Retrying> {
        let share = most_retries(&entry.cluster, workers).div_ceil(workers.max(1));
        let mut retries = self.retries.borrow_mut();
        let count = retries.entry(entry.id).or_default();
        if *count as usize >= share {
            return None;
        }
        *count += 1;
        Some(Retrying {
            retries: Rc::clone(&self.retries),
            cluster: entry.id,
        })
    }

    /// Forgets clusters that are gone, so that their endpoints are freed.
    pub(crate) fn follow(&self, snapshot: &Snapshot) {
        for (id, place) in self.by_cluster.borrow_mut().iter_mut().enumerate() {
            let current = snapshot.clusters.get(id).and_then(Option::as_ref);
            if let Some(known) = &place
                && !current.is_some_and(|entry| Arc::ptr_eq(&entry.endpoints, &known.endpoints))
            {
                *place = None;
            }
        }
    }
}

impl Place {
    /// The place of a cluster, made anew if its hosts are others than those remembered.
    fn current<'a>(place: &'a mut Option<Self>, entry: &ClusterEntry) -> &'a mut Self {
        let (endpoints, version) = (&entry.endpoints, entry.endpoints.version());
        let is_current = place
            .as_ref()
            .is_some_and(|known| known.version == version && Arc::ptr_eq(&known.endpoints, endpoints));
        if !is_current {
            *place = None;
        }
        place.get_or_insert_with(|| Self {
            endpoints: Arc::clone(endpoints),
            version,
            view: endpoints.view(),
            slow_until: entry
                .cluster
                .balancing
                .slow_start
                .and_then(|slow| slow_until(endpoints, slow)),
            turns: SmallVec::new(),
            zoned: None,
            reported: None,
        })
    }

    fn by_hash(&self, hash: u64, hosts: &[Arc<Host>], choice: Choice<'_>) -> Option<u32> {
        let (_, priority, _) = self.view.pick_past(hash, choice.past)?;
        let table = priority.table.as_ref()?;
        let mut index = table.host(hash, 0)?;
        if !choice.avoid.is_empty() {
            for attempt in 1..=choice.draws {
                if !hosts
                    .get(index as usize)
                    .is_some_and(|host| choice.avoid.contains(&host.id))
                {
                    break;
                }
                index = table.host(hash, attempt)?;
            }
        }
        Some(index)
    }

    fn draw(&mut self, entry: &ClusterEntry, random: &Random, past: Passed) -> Option<u32> {
        let slow = self.slow(entry);
        if let Some(settings) = &entry.cluster.loads
            && Reported::renew(&mut self.reported, settings, &entry.endpoints.hosts)
        {
            self.turns.clear();
        }
        let Self {
            view,
            turns,
            zoned,
            reported,
            ..
        } = self;
        let policy = entry.cluster.balancing.policy;
        let weights = Weights {
            endpoints: &entry.endpoints,
            slow,
            reported: reported.as_ref().map(|reported| &*reported.weights),
            bias: match policy {
                LbPolicy::LeastRequest { bias, .. } => bias,
                _ => 0.0,
            },
        };
        let (at, priority, fitness) = view.pick_past(random.next(), past)?;
        let drawable = priority.drawable(fitness);
        let (locality, hosts) = match by_zone(zoned, entry, (at, priority), random) {
            Chosen::Nobody => return None,
            Chosen::In(zone) => (Some(zone), priority.zones.get(zone)?.drawable(fitness)),
            Chosen::Anybody if entry.cluster.balancing.locality_weighted => match locality(drawable, random) {
                Some(locality) => (Some(locality), &drawable.localities.get(locality)?.hosts),
                None => (None, &drawable.all),
            },
            Chosen::Anybody => (None, &drawable.all),
        };
        Some(match (&*hosts.indexes, policy) {
            ([], _) => return None,
            ([only], _) => *only,
            // At random no host has a weight, as in Envoy.
            (indexes, LbPolicy::Random | LbPolicy::Hash) => indexes[random.below(indexes.len())],
            (indexes, LbPolicy::LeastRequest { choices, .. }) if hosts.equal_weights && weights.are_plain() => {
                least_loaded(&entry.endpoints.hosts, indexes, choices, random)
            }
            (_, LbPolicy::RoundRobin | LbPolicy::Reported | LbPolicy::LeastRequest { .. }) => {
                turn(turns, (at, fitness, locality), hosts, weights, random)?
            }
        })
    }

    /// How new hosts come to their weight, while there are some.
    fn slow(&mut self, entry: &ClusterEntry) -> Option<(SlowStart, Instant)> {
        let slow = entry
            .cluster
            .balancing
            .slow_start
            .zip(self.slow_until)
            .and_then(|(slow, until)| {
                let now = Instant::now();
                (now < until).then_some((slow, now))
            });
        if slow.is_none() && self.slow_until.take().is_some() {
            // From now on by plain weights.
            self.turns.clear();
        }
        slow
    }
}

/// When the last host has its full weight; `None` when all have.
fn slow_until(endpoints: &EndpointSet, slow: SlowStart) -> Option<Instant> {
    let now = Instant::now();
    let rest = endpoints
        .hosts
        .iter()
        .map(|host| slow.window.saturating_sub(host.vitals.age(now)));
    rest.max().filter(|rest| !rest.is_zero()).map(|rest| now + rest)
}

fn turn(
    turns: &mut SmallVec<[(GroupId, Turn); 1]>,
    id: GroupId,
    hosts: &Hosts,
    weights: Weights<'_>,
    random: &Random,
) -> Option<u32> {
    let found = turns.iter().position(|(known, _)| *known == id);
    let found = found.unwrap_or_else(|| {
        turns.push((id, Turn::new(hosts, weights, random)));
        turns.len() - 1
    });
    turns[found].1.next(hosts, weights)
}

/// How long until a host of weight 1 has its next turn. A host that has hardly begun has some all the same.
fn pause(weight: f64) -> u128 {
    (TURN as f64 / weight.max(1e-6)) as u128
}

impl Turn {
    fn new(hosts: &Hosts, weights: Weights<'_>, random: &Random) -> Self {
        if hosts.equal_weights && weights.are_plain() {
            // Workers start at different hosts, else a small load would all meet the first.
            return Self::Next(random.below(hosts.indexes.len()));
        }
        // Schedules begin anew with every change, and the heaviest would always come first: so whose turn it is is left
        // to chance, by weight, and where in their rounds the others are as well.
        let first = heavy(hosts, weights, random);
        let slots = (0..).zip(&hosts.indexes).map(|(order, host)| Slot {
            deadline: match first == Some(*host) {
                true => 0,
                false => pause(weights.of(*host)) / SHARES * random.below(SHARES as usize) as u128,
            },
            order,
            host: *host,
        });
        Self::Schedule(slots.collect())
    }

    fn next(&mut self, hosts: &Hosts, weights: Weights<'_>) -> Option<u32> {
        match self {
            Self::Next(next) => {
                let at = *next % hosts.indexes.len();
                *next = at + 1;
                hosts.indexes.get(at).copied()
            }
            Self::Schedule(schedule) => {
                let mut first = schedule.peek_mut()?;
                let host = first.host;
                first.deadline += pause(weights.of(host));
                first.order += hosts.indexes.len() as u64;
                Some(host)
            }
        }
    }
}

/// Anybody, by weight.
fn heavy(hosts: &Hosts, weights: Weights<'_>, random: &Random) -> Option<u32> {
    let total: f64 = hosts.indexes.iter().map(|host| weights.of(*host)).sum();
    let mut rest = total * (random.next() as f64 / u64::MAX as f64);
    let mut found = None;
    for host in &hosts.indexes {
        found = Some(*host);
        rest -= weights.of(*host);
        if rest < 0.0 {
            break;
        }
    }
    found
}

/// Whom zones let a request ask.
fn by_zone(
    zoned: &mut Option<Zoned>,
    entry: &ClusterEntry,
    (at, priority): (usize, &Priority),
    random: &Random,
) -> Chosen {
    let Some(awareness) = &entry.cluster.balancing.zones else {
        return Chosen::Anybody;
    };
    if priority.panics && awareness.fails_in_panic {
        return Chosen::Nobody;
    }
    match &entry.proxies {
        Some(local) if at == 0 && !priority.panics => {
            let threshold = entry.endpoints.lb_settings.panic_threshold;
            Zoned::current(zoned, awareness, priority, threshold, local).choose(awareness, random)
        }
        _ => Chosen::Anybody,
    }
}

fn locality(drawable: &Drawable, random: &Random) -> Option<usize> {
    if drawable.total_locality_weight == 0 {
        return None;
    }
    let mut rest = random.next() % drawable.total_locality_weight;
    drawable.localities.iter().position(|locality| {
        let found = rest < locality.effective_weight;
        rest = rest.saturating_sub(locality.effective_weight);
        found
    })
}

/// The better of some random hosts of equal weight: fewest requests in flight.
fn least_loaded(hosts: &[Arc<Host>], indexes: &[u32], choices: u32, random: &Random) -> u32 {
    let load = |index: u32| hosts.get(index as usize).map_or(i64::MAX, |host| active(host));
    let start = random.below(indexes.len());
    let mut best = indexes[start];
    let mut best_load = load(best);
    let mut compare = |other: u32| {
        let other_load = load(other);
        if other_load < best_load {
            (best, best_load) = (other, other_load);
        }
    };
    if choices == ALL {
        (1..indexes.len()).for_each(|step| compare(indexes[(start + step) % indexes.len()]));
    } else {
        (1..choices.max(2)).for_each(|_| compare(indexes[random.below(indexes.len())]));
    }
    best
}
