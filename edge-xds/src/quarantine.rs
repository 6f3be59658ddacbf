//! What proxies of a fleet refuse, kept back alone.
//!
//! A proxy takes a route table as a whole or not at all, but the table belongs to many people. So what a proxy refuses
//! is cut out of it: a rule, else a virtual host. A [`Quarantine`] remembers what was found (by trial, see
//! [`delta`](crate::delta)) and [applies](Quarantine::apply) it to the snapshots of the fleet, so that a proxy that
//! starts meanwhile is sent the rest at once. Each entry holds for exactly the bytes that were refused: when the
//! culprit changes, it is let out and tried again.
//!
//! What is kept back must not open what was closed. A rule keeps its match and answers 500 in the place of its action,
//! so that its requests don't fall to a broader rule with fewer guards. Only where the match itself is what is refused
//! the rule goes, and only where the domain is, the host.

use crate::{
    lower::{encode_host_alone, replace_hosts, table_of_name},
    snapshot::{Entry, ResourceType, Section, Snapshot, Source},
};
use edge_ir::{Origin, Origins, Route, RouteAction, RouteEffect, VirtualHost};
use std::{collections::BTreeMap, sync::Arc};

/// A piece of a route table that can be kept back alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// All routes of a rule, by its name: `httproute/<namespace>/<name>/rule/<i>`.
    Rule(Arc<str>),
    /// A virtual host, by its name.
    Host(Arc<str>),
}

/// What is left of a part that is kept back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// What it matches answers 500.
    Closed,
    /// Nothing.
    Absent,
}

/// A part that is kept back, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantinedPart {
    /// The table.
    pub table: Arc<str>,
    /// The virtual host.
    pub host: Arc<str>,
    /// The name of the rule in it; none: the host itself.
    pub rule: Option<Arc<str>>,
    /// What is left of it.
    pub form: Form,
    /// Hash of what was refused.
    pub fingerprint: u64,
    /// What the proxy said.
    pub detail: Arc<str>,
    /// The objects that it came from.
    pub origins: Origins,
}

/// Parts of a virtual host by the name of the rule; none: the host itself.
type ByRule = BTreeMap<Option<Arc<str>>, QuarantinedPart>;

/// All parts of a fleet's tables that are kept back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quarantine {
    /// By table, then by virtual host.
    tables: BTreeMap<Arc<str>, BTreeMap<Arc<str>, ByRule>>,
}

impl Quarantine {
    /// Nothing is kept back.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Keeps a part back; what was known of it before is replaced.
    pub fn hold(&mut self, held: QuarantinedPart) {
        let hosts = self.tables.entry(Arc::clone(&held.table)).or_default();
        let rules = hosts.entry(Arc::clone(&held.host)).or_default();
        rules.insert(held.rule.clone(), held);
    }

    /// Everything that is kept back.
    pub fn held(&self) -> impl Iterator<Item = &QuarantinedPart> {
        let hosts = self.tables.values().flat_map(BTreeMap::values);
        hosts.flat_map(BTreeMap::values)
    }

    /// Lets out what is not, or not any more, in a snapshot as it was refused. Tells whether there was any.
    pub fn release(&mut self, snapshot: &Snapshot) -> bool {
        let all: Vec<&QuarantinedPart> = self.held().collect();
        let kept: Vec<QuarantinedPart> = all
            .iter()
            .filter(|held| is_in(snapshot, held))
            .map(|held| QuarantinedPart::clone(held))
            .collect();
        if kept.len() == all.len() {
            return false;
        }
        self.tables.clear();
        kept.into_iter().for_each(|held| self.hold(held));
        true
    }

    /// The snapshot without what is kept back. Costs nothing while nothing is.
    pub fn apply(&self, snapshot: &Snapshot) -> Snapshot {
        let section = snapshot.section(ResourceType::Routes);
        let mut changed: BTreeMap<Arc<str>, Arc<Entry>> = BTreeMap::new();
        for (table, hosts) in &self.tables {
            // What was found behind other guards holds for the table behind those of now.
            let Some(entry) = table_of_name(section, table) else {
                continue;
            };
            let entry = changed.get(&entry.name).unwrap_or(entry);
            if let Some(other) = Self::apply_to_table(hosts, entry) {
                changed.insert(Arc::clone(&other.name), other);
            }
        }
        if changed.is_empty() {
            return snapshot.clone();
        }
        let entries = section.entries().iter();
        let entries = entries.map(|entry| Arc::clone(changed.get(&*entry.name).unwrap_or(entry)));
        let section = Section::new(entries.collect());
        snapshot.clone().with(ResourceType::Routes, Arc::new(section))
    }

    fn apply_to_table(hosts: &BTreeMap<Arc<str>, ByRule>, entry: &Arc<Entry>) -> Option<Arc<Entry>> {
        let mut forms = Forms::default();
        for rules in hosts.values() {
            for held in rules.values().filter(|held| is_in_table(entry, held)) {
                let host = Some(Arc::clone(&held.host));
                match &held.rule {
                    Some(rule) => forms.set_rule(host, rule, held.form),
                    None => forms.set_host(&held.host, held.form),
                }
            }
        }
        (!forms.is_empty()).then(|| forms.apply(entry))
    }
}

fn is_in(snapshot: &Snapshot, held: &QuarantinedPart) -> bool {
    let entry = table_of_name(snapshot.section(ResourceType::Routes), &held.table);
    entry.is_some_and(|entry| is_in_table(entry, held))
}

fn is_in_table(entry: &Entry, held: &QuarantinedPart) -> bool {
    let Source::Table(table) = &entry.source else {
        return false;
    };
    let host = table.hosts.find_by(|host| (*host.name).cmp(&held.host));
    host.is_some_and(|host| match &held.rule {
        Some(rule) => rule_fingerprint(host, rule) == Some(held.fingerprint),
        None => host_fingerprint(host) == held.fingerprint,
    })
}

/// The objects that a rule came from. One that has no name goes by its number.
pub(crate) fn origins_of(host: &VirtualHost, rule: &str) -> Origins {
    let route = host.routes.iter().find(|route| route.name.is_of(rule));
    let origins = route.map(|route| Arc::clone(&route.effect.origins)).unwrap_or_default();
    let number = rule.rfind("/rule/").and_then(|at| rule.get(at + 1..));
    let with_section = |origin: &Origin| Origin {
        section: origin.section.clone().or_else(|| number.map(Arc::from)),
        ..origin.clone()
    };
    origins.iter().map(with_section).collect()
}

/// Hash of the routes of a rule in a host; none if there are none.
pub(crate) fn rule_fingerprint(host: &VirtualHost, rule: &str) -> Option<u64> {
    let routes = host.routes.iter().filter(|route| route.name.is_of(rule));
    let routes: Vec<Arc<Route>> = routes.cloned().collect();
    (!routes.is_empty()).then(|| fingerprint(host, routes))
}

/// Hash of a host apart from its routes.
pub(crate) fn host_fingerprint(host: &VirtualHost) -> u64 {
    fingerprint(host, Vec::new())
}

fn fingerprint(host: &VirtualHost, routes: Vec<Arc<Route>>) -> u64 {
    let part = VirtualHost {
        name: Arc::clone(&host.name),
        domains: host.domains.clone(),
        port: host.port,
        routes,
        limits: host.limits,
        stats: host.stats,
        origins: [].into(),
    };
    encode_host_alone(&Arc::new(part)).hash()
}

/// Which parts of a table are not served as they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forms {
    /// Rules by host, or of every host.
    rules: BTreeMap<Option<Arc<str>>, BTreeMap<Arc<str>, Form>>,
    hosts: BTreeMap<Arc<str>, Form>,
}

impl Forms {
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.hosts.is_empty()
    }

    /// A rule in one host, or in all of them.
    pub(crate) fn set_rule(&mut self, host: Option<Arc<str>>, rule: &Arc<str>, form: Form) {
        self.rules.entry(host).or_default().insert(Arc::clone(rule), form);
    }

    pub(crate) fn set_host(&mut self, host: &Arc<str>, form: Form) {
        self.hosts.insert(Arc::clone(host), form);
    }

    pub(crate) fn set(&mut self, part: &Part, form: Form) {
        match part {
            Part::Rule(rule) => self.set_rule(None, rule, form),
            Part::Host(host) => self.set_host(host, form),
        }
    }

    /// The table with these parts in these forms. Everything else keeps its bytes.
    pub(crate) fn apply(&self, entry: &Arc<Entry>) -> Arc<Entry> {
        replace_hosts(entry, |host| self.host(host))
    }

    fn host(&self, host: &Arc<VirtualHost>) -> Option<Arc<VirtualHost>> {
        let form = self.hosts.get(&host.name);
        if form == Some(&Form::Absent) {
            return None;
        }
        let form_of = |route: &Route| {
            if let Some(form) = form {
                return Some(*form);
            }
            let rule = &*route.name.rule();
            let own = self
                .rules
                .get(&Some(Arc::clone(&host.name)))
                .and_then(|rules| rules.get(rule));
            own.or_else(|| self.rules.get(&None)?.get(rule)).copied()
        };
        if host.routes.iter().all(|route| form_of(route).is_none()) {
            return Some(Arc::clone(host));
        }
        let routes = host.routes.iter().filter_map(|route| match form_of(route) {
            None => Some(Arc::clone(route)),
            Some(Form::Closed) => Some(Arc::new(closed(route))),
            Some(Form::Absent) => None,
        });
        Some(Arc::new(VirtualHost {
            routes: routes.collect(),
            ..VirtualHost::clone(host)
        }))
    }
}

/// A route that matches the same and answers 500.
fn closed(route: &Route) -> Route {
    Route {
        name: route.name.clone(),
        matches: route.matches.clone(),
        portion: route.portion,
        effect: Arc::new(RouteEffect::new(
            RouteAction::Respond(crate::lower::INTERNAL_ERROR),
            Arc::clone(&route.effect.origins),
        )),
    }
}
