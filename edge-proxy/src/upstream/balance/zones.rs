//! Which locality is asked, where that of the proxy comes first: Envoy's zone aware routing.
//!
//! Every locality has a share of the cluster's healthy hosts, and one of the proxies that send to them. Where the
//! hosts of the own locality are at least as large a share as its proxies, they take all that comes to this one; else
//! they take what they can, and the rest goes to localities that have more hosts than proxies, as far as they have.
//! Why a plan: it changes with hosts and proxies only, and a request costs a random number or two.

use std::sync::Arc;

use crate::config::endpoint::view::{Priority, Zone};
use crate::config::endpoint::{EndpointSet, Group, Health};
use crate::config::zones::{LocalProxies, ZoneAwareness};
use crate::random::Random;

/// All hosts, or all proxies, in the unit of shares.
const WHOLE: u64 = 10_000;

/// A plan, and what it was made of.
#[derive(Debug)]
pub(super) struct Zoned {
    proxies: Arc<EndpointSet>,
    /// Of [`LocalProxies`], and of the view of their health.
    versions: (u64, u64),
    plan: Plan,
}

/// Where a request goes.
#[derive(Debug, PartialEq)]
pub(super) enum Plan {
    /// Anywhere.
    Anywhere,
    /// Nowhere.
    Nowhere,
    /// To one locality.
    To(usize),
    /// To one with this share, else to others by what they can take, each with what those before it can.
    Shared(Option<(usize, u64)>, Box<[u64]>),
}

/// What is asked for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    /// Any host.
    Anybody,
    /// Those of a locality.
    In(usize),
    /// Nobody.
    Nobody,
}

impl Zoned {
    /// The plan of now, made anew if the proxies are others than those it was made of. A new view of the cluster's own
    /// hosts begins without one.
    pub(super) fn current<'a>(
        known: &'a mut Option<Self>,
        awareness: &ZoneAwareness,
        priority: &Priority,
        panic_threshold: u32,
        local: &LocalProxies,
    ) -> &'a Plan {
        let version = local.version();
        let is_current = |known: &Self| known.versions == (version, known.proxies.version());
        if !known.as_ref().is_some_and(is_current) {
            *known = None;
        }
        let zoned = known.get_or_insert_with(|| {
            let proxies = local.endpoints();
            let versions = (version, proxies.version());
            let around = Around::of(&proxies, &local.locality, panic_threshold);
            let plan = plan(awareness, &priority.zones, &around);
            Self {
                proxies,
                versions,
                plan,
            }
        });
        &zoned.plan
    }
}

/// The proxies around, by locality.
struct Around<'a> {
    own: &'a str,
    groups: Vec<&'a Group>,
    endpoints: &'a EndpointSet,
    /// Too few of them are healthy to go by their shares.
    panics: bool,
}

impl<'a> Around<'a> {
    fn of(endpoints: &'a EndpointSet, own: &'a str, panic_threshold: u32) -> Self {
        let groups = endpoints.levels.first().map_or(&[][..], |level| &level.groups);
        let groups: Vec<&Group> = groups.iter().filter(|group| !group.members.is_empty()).collect();
        let all = groups.iter().flat_map(|group| group.members.iter());
        let hosts = all.filter_map(|index| endpoints.hosts.get(*index as usize));
        let (mut fit, mut count) = (0, 0);
        for host in hosts.filter(|host| !host.is_excluded()) {
            count += 1;
            fit += u64::from(host.health() != Health::Unhealthy);
        }
        Self {
            own,
            groups,
            endpoints,
            panics: fit * 100 < u64::from(panic_threshold) * count || (count == 0 && panic_threshold > 0),
        }
    }

    fn has_own(&self) -> bool {
        self.groups.iter().any(|group| *group.name == *self.own)
    }

    fn healthy(&self, group: &Group) -> u64 {
        let hosts = group.members.iter();
        let hosts = hosts.filter_map(|index| self.endpoints.hosts.get(*index as usize));
        hosts.filter(|host| host.health() == Health::Healthy).count() as u64
    }

    /// The share of the proxies that are in a locality.
    fn share(&self, locality: &str) -> u64 {
        let all: u64 = self.groups.iter().map(|group| self.healthy(group)).sum();
        let there = self.groups.iter().filter(|group| *group.name == *locality);
        let there: u64 = there.map(|group| self.healthy(group)).sum();
        (WHOLE * there).checked_div(all).unwrap_or(0)
    }
}

fn plan(awareness: &ZoneAwareness, zones: &[Zone], around: &Around<'_>) -> Plan {
    let healthy = |zone: &Zone| zone.healthy.indexes.len() as u64;
    let all: u64 = zones.iter().map(healthy).sum();
    let knows_too_little = zones.len() < 2
        || (around.groups.len() < 2 && awareness.force.is_none())
        || !around.has_own()
        || all < awareness.min_cluster_size;
    if knows_too_little {
        return Plan::Anywhere;
    }
    if around.panics {
        return match awareness.fails_in_panic {
            true => Plan::Nowhere,
            false => Plan::Anywhere,
        };
    }
    // Of a locality without healthy hosts it doesn't matter how many proxies there are.
    let shares = zones.iter().map(|zone| match healthy(zone) {
        0 => (0, 0),
        there => (WHOLE * there / all, around.share(&zone.name)),
    });
    let shares: Vec<(u64, u64)> = shares.collect();
    let own = zones.iter().position(|zone| *zone.name == *around.own);
    if let Some(own) = own {
        let (hosts, proxies) = shares[own];
        let is_forced = |least: u32| healthy(&zones[own]) >= u64::from(least);
        if (hosts > 0 && hosts >= proxies) || awareness.force.is_some_and(is_forced) {
            return Plan::To(own);
        }
    }
    let kept = own.map(|own| {
        let (hosts, proxies) = shares[own];
        (own, (hosts * WHOLE).checked_div(proxies).unwrap_or(0))
    });
    let mut sum = 0;
    let spare = shares.iter().enumerate().map(|(index, (hosts, proxies))| {
        if Some(index) != own {
            sum += hosts.saturating_sub(*proxies);
        }
        sum
    });
    Plan::Shared(kept, spare.collect())
}

impl Plan {
    /// Whom to ask for a request.
    pub(super) fn choose(&self, awareness: &ZoneAwareness, random: &Random) -> Chosen {
        if *self == Self::Anywhere || random.next() % 100 >= u64::from(awareness.percent) {
            return Chosen::Anybody;
        }
        match self {
            Self::Anywhere => Chosen::Anybody,
            Self::Nowhere => Chosen::Nobody,
            Self::To(locality) => Chosen::In(*locality),
            Self::Shared(Some((own, share)), _) if random.next() % WHOLE < *share => Chosen::In(*own),
            Self::Shared(_, spare) => match spare.last() {
                // All shares were rounded down.
                None | Some(0) => Chosen::In(random.below(spare.len())),
                Some(all) => {
                    let wanted = random.next() % all;
                    Chosen::In(spare.partition_point(|sum| *sum <= wanted))
                }
            },
        }
    }
}

#[cfg(test)]
mod tests;
