//! What the service of global rate limits is told: which requests it counts together, and up to how many.
//!
//! A domain is a listener, or the policy whose routes count together. In it stands what requests of a route, or under a
//! rule, are described by, entry within entry, with the limit at the last. The proxies describe requests in the same
//! words (`lower::filter`), which is why both are made from the same part of a fleet.

use crate::lower::described;
use bytes::Bytes;
use edge_ir::{FilterEffect, Fleet, FleetKey, GlobalRateLimit, RateLimit, RateLimitUnit, RouteTable, VirtualHost};
use envoy_types::pb::ratelimit::config::ratelimit::v3::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitUnit as Unit,
};
use prost::{Message, Name};
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};

/// What requests are described by, and the limit of those.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// A key.
    pub key: String,
    /// Its value; each counts for itself where there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The limit, where this is the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<RateLimit>,
    /// Counted, and never refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shadow: bool,
    /// What they are described by besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub descriptors: Vec<Descriptor>,
}

/// Descriptors by domain, in each sorted by key.
pub type Domains = BTreeMap<String, BTreeMap<String, Descriptor>>;

/// The domain in which limits of a route are counted.
pub(crate) fn domain<'a>(limits: &'a GlobalRateLimit, host: &'a VirtualHost) -> &'a str {
    match &*limits.owner {
        "" => host.listener(),
        owner => owner,
    }
}

/// The key under which all routes count for a rule; none where each counts for itself.
pub(crate) fn owner_key(limits: &GlobalRateLimit, rule: usize) -> Option<String> {
    (!limits.owner.is_empty()).then(|| format!("{}/rule/{rule}", limits.owner))
}

/// What the service is told of the successive states of all fleets.
#[derive(Debug, Default)]
pub struct RateLimits {
    fleets: BTreeMap<FleetKey, Kept>,
    resources: Arc<Resources>,
}

/// The resource of each domain, by name.
pub type Resources = BTreeMap<String, Bytes>;

/// What a fleet's tables came to.
#[derive(Debug)]
struct Kept {
    tables: Arc<Vec<Arc<RouteTable>>>,
    domains: Domains,
}

impl RateLimits {
    /// One that remembers nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// All domains.
    pub fn domains<'a>(&mut self, fleets: impl IntoIterator<Item = (&'a FleetKey, &'a Arc<Fleet>)>) -> Domains {
        self.follow(fleets);
        let mut all = Domains::new();
        for (domain, descriptors) in self.fleets.values().flat_map(|kept| &kept.domains) {
            // A policy that covers routes of several fleets says the same of them all.
            all.entry(domain.clone()).or_default().extend(descriptors.clone());
        }
        all
    }

    /// All resources; the same allocation as before where no fleet has other tables.
    pub fn resources<'a>(
        &mut self,
        fleets: impl IntoIterator<Item = (&'a FleetKey, &'a Arc<Fleet>)> + Clone,
    ) -> Arc<Resources> {
        if self.follow(fleets.clone()) {
            let resources = encode(&self.domains(fleets));
            if resources != *self.resources {
                self.resources = Arc::new(resources);
            }
        }
        Arc::clone(&self.resources)
    }

    /// Looks at the fleets that have other tables than before. Says whether there are any, or one has gone.
    fn follow<'a>(&mut self, fleets: impl IntoIterator<Item = (&'a FleetKey, &'a Arc<Fleet>)>) -> bool {
        let mut before = std::mem::take(&mut self.fleets);
        let mut differs = false;
        for (key, fleet) in fleets {
            let tables = &fleet.route_tables;
            let kept = before.remove(key).filter(|kept| Arc::ptr_eq(&kept.tables, tables));
            differs |= kept.is_none();
            let kept = kept.unwrap_or_else(|| Kept {
                tables: Arc::clone(tables),
                domains: of_tables(tables),
            });
            self.fleets.insert(key.clone(), kept);
        }
        differs || !before.is_empty()
    }
}

fn encode(domains: &Domains) -> Resources {
    let resource = |(domain, descriptors): (&String, &BTreeMap<String, Descriptor>)| {
        let config = RateLimitConfig {
            name: domain.clone(),
            domain: domain.clone(),
            descriptors: descriptors.values().map(lower).collect(),
        };
        (domain.clone(), config.encode_to_vec().into())
    };
    domains.iter().map(resource).collect()
}

/// The type of the resources.
pub fn type_url() -> String {
    RateLimitConfig::type_url()
}

fn of_tables(tables: &[Arc<RouteTable>]) -> Domains {
    let mut domains = Domains::new();
    for host in tables.iter().flat_map(|table| table.hosts.iter()) {
        let suffix = host.own_name();
        for route in &host.routes {
            for filter in route.effect.filters.iter() {
                if let FilterEffect::GlobalRateLimit(limits) = &filter.effect {
                    let into = domains.entry(domain(limits, host).to_owned()).or_default();
                    add(into, limits, &format!("{}/{suffix}", route.name));
                }
            }
        }
    }
    domains
}

fn add(into: &mut BTreeMap<String, Descriptor>, limits: &GlobalRateLimit, route: &str) {
    for of in &limits.rules {
        let key = owner_key(limits, of.number).unwrap_or_else(|| route.to_owned());
        let first = into.entry(key.clone()).or_insert_with(|| Descriptor {
            value: key.clone(),
            key,
            ..Descriptor::default()
        });
        let last = of.rule.entries.iter().fold(first, |within, entry| {
            let (key, value) = described(entry);
            child(&mut within.descriptors, key, value)
        });
        last.limit = Some(of.rule.limit);
        last.shadow = of.rule.shadow;
    }
}

fn child<'a>(list: &'a mut Vec<Descriptor>, key: &str, value: &str) -> &'a mut Descriptor {
    let known = list
        .iter()
        .position(|known| (&*known.key, &*known.value) == (key, value));
    let place = known.unwrap_or_else(|| {
        list.push(Descriptor {
            key: key.to_owned(),
            value: value.to_owned(),
            ..Descriptor::default()
        });
        list.len() - 1
    });
    &mut list[place]
}

fn lower(descriptor: &Descriptor) -> RateLimitDescriptor {
    RateLimitDescriptor {
        key: descriptor.key.clone(),
        value: descriptor.value.clone(),
        rate_limit: descriptor.limit.map(|limit| RateLimitPolicy {
            unit: unit(limit.unit).into(),
            requests_per_unit: limit.requests,
            ..Default::default()
        }),
        descriptors: descriptor.descriptors.iter().map(lower).collect(),
        shadow_mode: descriptor.shadow,
        ..Default::default()
    }
}

fn unit(unit: RateLimitUnit) -> Unit {
    match unit {
        RateLimitUnit::Second => Unit::Second,
        RateLimitUnit::Minute => Unit::Minute,
        RateLimitUnit::Hour => Unit::Hour,
        RateLimitUnit::Day => Unit::Day,
        RateLimitUnit::Week => Unit::Week,
        RateLimitUnit::Month => Unit::Month,
        RateLimitUnit::Year => Unit::Year,
    }
}
