//! Who of a cluster's hosts may be drawn now, and how often.
//!
//! Made of the configured groups and the health of the hosts, by Envoy's rules: a priority's health is its share
//! of healthy hosts times the overprovisioning factor, capped at 100; load goes to healthy hosts first, then to
//! degraded ones, and spills over to the next priority as far as these lack; a priority with too few of them panics and
//! uses all its hosts.

use std::sync::Arc;

use crate::config::endpoint::hashing::Table;
use crate::config::endpoint::{Group, Health, Host, LbSettings, Level};

/// See the module.
#[derive(Debug, Default)]
pub struct View {
    /// By priority; index 0 is the highest.
    pub priorities: Box<[Priority]>,
}

/// Those of one priority who may be drawn.
#[derive(Debug, Default)]
pub struct Priority {
    /// Its share of all load, in per cent, for its healthy hosts. All shares make 100 if there is a host.
    pub healthy_load: u32,
    /// The same for its degraded hosts.
    pub degraded_load: u32,
    /// How well it is.
    available: Availability,
    /// Its healthy hosts; in panic, all.
    pub healthy: Drawable,
    /// Its degraded hosts.
    pub degraded: Drawable,
    /// All hosts are used, as too few are healthy.
    pub panics: bool,
    /// Hosts by hash, where the policy asks for that.
    pub table: Option<Table>,
    /// Hosts by locality, where these are asked for; of the highest priority alone.
    pub zones: Box<[Zone]>,
}

/// Hosts of one locality, whatever it weighs.
#[derive(Debug)]
pub struct Zone {
    /// As [`Group::name`].
    pub name: Arc<str>,
    /// Its healthy hosts.
    pub healthy: Hosts,
    /// Its degraded hosts.
    pub degraded: Hosts,
}

impl Zone {
    /// Those who take a request.
    pub fn drawable(&self, fitness: Fitness) -> &Hosts {
        match fitness {
            Fitness::Healthy => &self.healthy,
            Fitness::Degraded => &self.degraded,
        }
    }
}

/// Hosts among which one is drawn.
#[derive(Debug, Default)]
pub struct Drawable {
    /// Of all localities.
    pub all: Hosts,
    /// By locality, for locality weighted balancing; empty when no locality has a weight.
    pub localities: Box<[Locality]>,
    /// Sum of [`Locality::effective_weight`].
    pub total_locality_weight: u64,
}

/// A list of hosts.
#[derive(Debug, Default)]
pub struct Hosts {
    /// Indexes into [`crate::config::endpoint::EndpointSet::hosts`].
    pub indexes: Box<[u32]>,
    /// True when every one has the same weight.
    pub equal_weights: bool,
}

/// Hosts of one locality.
#[derive(Debug)]
pub struct Locality {
    /// As configured.
    pub weight: u32,
    /// The configured weight, scaled down by how many of its hosts are fit.
    pub effective_weight: u64,
    /// Those who are fit.
    pub hosts: Hosts,
}

/// How well a priority is, in per cent of what it needs.
#[derive(Clone, Copy, Debug, Default)]
struct Availability {
    healthy: u64,
    degraded: u64,
}

impl View {
    /// The view of hosts by their health of now.
    pub fn new(hosts: &[Arc<Host>], levels: &[Level], lb_settings: &LbSettings) -> Self {
        let available: Vec<Availability> = levels
            .iter()
            .map(|level| availability(hosts, level, lb_settings))
            .collect();
        let total = total(&available);
        let panics: Vec<bool> = levels
            .iter()
            .map(|level| total < 100 && is_in_panic(hosts, level, lb_settings))
            .collect();
        let load = if panics.iter().all(|panics| *panics) {
            by_size(levels)
        } else {
            spread(&available, total)
        };
        let priorities = levels.iter().zip(panics).zip(load).zip(available).enumerate();
        let priorities = priorities.map(
            |(index, (((level, panics), (healthy_load, degraded_load)), available))| {
                let healthy = drawable(
                    hosts,
                    level,
                    lb_settings,
                    HostQuery {
                        health: Health::Healthy,
                        panics,
                    },
                );
                Priority {
                    healthy_load,
                    degraded_load,
                    available,
                    degraded: drawable(
                        hosts,
                        level,
                        lb_settings,
                        HostQuery {
                            health: Health::Degraded,
                            panics: false,
                        },
                    ),
                    panics,
                    zones: match index {
                        0 if lb_settings.by_zone => zones(hosts, level),
                        _ => Box::default(),
                    },
                    table: lb_settings
                        .hashing
                        .as_ref()
                        .map(|hashing| Table::new(hashing, hosts, &healthy)),
                    healthy,
                }
            },
        );
        Self {
            priorities: priorities.collect(),
        }
    }

    /// The priority for a random number, and those of it who take the request.
    pub fn pick(&self, random: u64) -> Option<(usize, &Priority, Fitness)> {
        if let [only] = &*self.priorities
            && only.healthy_load == 100
        {
            return Some((0, only, Fitness::Healthy));
        }
        self.pick_by(random, |_, one| (one.healthy_load, one.degraded_load))
    }

    /// The same where some priorities are left out, if others can take their load.
    pub fn pick_past(&self, random: u64, past: Passed) -> Option<(usize, &Priority, Fitness)> {
        if past == Passed::default() {
            return self.pick(random);
        }
        let available: Vec<_> = self.available_past(past).collect();
        match total(&available) {
            0 => self.pick(random),
            total => {
                let load = spread(&available, total);
                self.pick_by(random, |index, _| load[index])
            }
        }
    }

    /// Whether the priorities that aren't left out can take anything.
    pub fn can_pass(&self, past: Passed) -> bool {
        total(&self.available_past(past).collect::<Vec<_>>()) > 0
    }

    fn available_past(&self, past: Passed) -> impl Iterator<Item = Availability> {
        let priorities = self.priorities.iter().enumerate();
        priorities.map(move |(index, one)| match past.has(index) {
            true => Availability::default(),
            false => one.available,
        })
    }

    fn pick_by(
        &self,
        random: u64,
        load: impl Fn(usize, &Priority) -> (u32, u32),
    ) -> Option<(usize, &Priority, Fitness)> {
        let mut rest = (random % 100) as u32;
        for fitness in [Fitness::Healthy, Fitness::Degraded] {
            for (index, priority) in self.priorities.iter().enumerate() {
                let load = match (fitness, load(index, priority)) {
                    (Fitness::Healthy, (load, _)) | (Fitness::Degraded, (_, load)) => load,
                };
                if rest < load {
                    return Some((index, priority, fitness));
                }
                rest -= load;
            }
        }
        None
    }
}

/// Priorities that are left out, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed(u128);

impl Passed {
    /// Leaves out one more.
    pub fn add(&mut self, priority: usize) {
        self.0 |= u32::try_from(priority)
            .ok()
            .and_then(|at| 1_u128.checked_shl(at))
            .unwrap_or_default();
    }

    /// Leaves out those of another list as well.
    pub fn add_all(&mut self, others: Self) {
        self.0 |= others.0;
    }

    fn has(self, priority: usize) -> bool {
        u32::try_from(priority).is_ok_and(|at| at < u128::BITS && self.0 & (1 << at) != 0)
    }
}

fn total(available: &[Availability]) -> u64 {
    let sum: u64 = available.iter().map(|one| one.healthy + one.degraded).sum();
    sum.min(100)
}

/// Which hosts of a priority take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fitness {
    /// The healthy ones.
    Healthy,
    /// The degraded ones.
    Degraded,
}

impl Priority {
    /// Those who take a request.
    pub fn drawable(&self, fitness: Fitness) -> &Drawable {
        match fitness {
            Fitness::Healthy => &self.healthy,
            Fitness::Degraded => &self.degraded,
        }
    }
}

fn members(level: &Level) -> impl Iterator<Item = u32> {
    level.groups.iter().flat_map(|group| group.members.iter().copied())
}

/// Healthy, degraded and all hosts that count.
fn census(hosts: &[Arc<Host>], members: impl Iterator<Item = u32>) -> (u64, u64, u64) {
    let mut sum = (0, 0, 0);
    for host in members.filter_map(|index| hosts.get(index as usize)) {
        if host.is_excluded() {
            continue;
        }
        sum.2 += 1;
        match host.health() {
            Health::Healthy => sum.0 += 1,
            Health::Degraded => sum.1 += 1,
            Health::Unhealthy | Health::Draining => {}
        }
    }
    sum
}

fn availability(hosts: &[Arc<Host>], level: &Level, lb_settings: &LbSettings) -> Availability {
    let factor = u64::from(lb_settings.overprovisioning);
    match census(hosts, members(level)) {
        (_, _, 0) => Availability::default(),
        (healthy, degraded, all) => Availability {
            healthy: (factor * healthy / all).min(100),
            degraded: (factor * degraded / all).min(100),
        },
    }
}

fn is_in_panic(hosts: &[Arc<Host>], level: &Level, lb_settings: &LbSettings) -> bool {
    let (healthy, degraded, all) = census(hosts, members(level));
    // A level of nobody has 0 per cent, and panics unless there is no panic.
    (healthy + degraded) * 100 < u64::from(lb_settings.panic_threshold) * all
        || (all == 0 && lb_settings.panic_threshold > 0)
}

/// Everybody panics: load goes by the number of hosts.
fn by_size(levels: &[Level]) -> Vec<(u32, u32)> {
    let sizes: Vec<u64> = levels.iter().map(|level| members(level).count() as u64).collect();
    let all: u64 = sizes.iter().sum();
    let mut load: Vec<(u32, u32)> = sizes
        .iter()
        .map(|size| (size.saturating_mul(100).checked_div(all).unwrap_or(0) as u32, 0))
        .collect();
    let left = 100 - load.iter().map(|(healthy, _)| healthy).sum::<u32>();
    if let Some(first) = sizes.iter().position(|size| *size > 0) {
        load[first].0 += left;
    }
    load
}

fn spread(available: &[Availability], total: u64) -> Vec<(u32, u32)> {
    let mut load = vec![(0, 0); available.len()];
    if total == 0 {
        // Nobody can serve, and there is no panic: whoever asks the first priority finds nobody.
        if let Some(first) = load.first_mut() {
            first.0 = 100;
        }
        return load;
    }
    let mut left = 100_u64;
    for (share, one) in load.iter_mut().zip(available) {
        let part = (one.healthy * 100 / total).min(left);
        share.0 = part as u32;
        left -= part;
    }
    for (share, one) in load.iter_mut().zip(available) {
        let part = (one.degraded * 100 / total).min(left);
        share.1 = part as u32;
        left -= part;
    }
    // What rounding lost goes to the first that can serve at all.
    if let Some(first) = available.iter().position(|one| one.healthy > 0) {
        load[first].0 += left as u32;
    } else if let Some(first) = available.iter().position(|one| one.degraded > 0) {
        load[first].1 += left as u32;
    }
    load
}

/// Who is looked for.
#[derive(Clone, Copy)]
struct HostQuery {
    health: Health,
    /// Everybody.
    panics: bool,
}

fn drawable(hosts: &[Arc<Host>], level: &Level, lb_settings: &LbSettings, wanted: HostQuery) -> Drawable {
    let mut all = Vec::new();
    let mut localities = Vec::new();
    for group in &level.groups {
        let fit: Box<[u32]> = group
            .members
            .iter()
            .copied()
            .filter(|index| {
                wanted.panics
                    || hosts
                        .get(*index as usize)
                        .is_some_and(|host| host.health() == wanted.health)
            })
            .collect();
        all.extend_from_slice(&fit);
        // In panic all hosts are used alike.
        if !wanted.panics
            && let Some(weight) = group.weight.filter(|weight| *weight > 0 && !fit.is_empty())
        {
            localities.push(locality(hosts, group, lb_settings, weight, fit));
        }
    }
    Drawable {
        all: list(hosts, all.into()),
        total_locality_weight: localities.iter().map(|locality| locality.effective_weight).sum(),
        localities: localities.into(),
    }
}

fn zones(hosts: &[Arc<Host>], level: &Level) -> Box<[Zone]> {
    let there = level.groups.iter().filter(|group| !group.members.is_empty());
    let zones = there.map(|group| {
        let with = |health: Health| {
            let members = group.members.iter().copied();
            let fit = members.filter(|index| hosts.get(*index as usize).is_some_and(|host| host.health() == health));
            list(hosts, fit.collect())
        };
        Zone {
            name: Arc::clone(&group.name),
            healthy: with(Health::Healthy),
            degraded: with(Health::Degraded),
        }
    });
    zones.collect()
}

fn locality(hosts: &[Arc<Host>], group: &Group, lb_settings: &LbSettings, weight: u32, fit: Box<[u32]>) -> Locality {
    let (_, _, count) = census(hosts, group.members.iter().copied());
    let share = (u64::from(lb_settings.overprovisioning) * fit.len() as u64 / count.max(1)).min(100);
    Locality {
        weight,
        // In hundredths, so that a share of a small weight does not vanish.
        effective_weight: u64::from(weight) * share,
        hosts: list(hosts, fit),
    }
}

fn list(hosts: &[Arc<Host>], indexes: Box<[u32]>) -> Hosts {
    let weight = |index: u32| hosts.get(index as usize).map_or(1, |host| host.weight);
    Hosts {
        equal_weights: indexes.windows(2).all(|pair| weight(pair[0]) == weight(pair[1])),
        indexes,
    }
}
