//! Finds out which parts of a route table a proxy refuses, by trial.
//!
//! The parts in question are those that the proxy hasn't taken before. They are held back all at once, and then let in
//! group by group: a group that is refused is halved, and a part that is refused alone is a culprit. A trial with one
//! part in question, which an edit of one rule is, costs one more response; among ten thousand a culprit is found in
//! some thirty. Parts that the proxy's message points at are tried last and alone, which usually makes it one again.
//!
//! What is held back answers 500 meanwhile. Should the proxy refuse even that, the matches are at fault, and rules are
//! left out instead; should it refuse a table without any of the rules, the hosts are. Whatever was taken on the way
//! serves at once, and no part that the proxy already had is ever touched.
//!
//! A proxy that came with a version of the table that nobody here knows is not experimented with: every part would be
//! in question, and serving parts would answer 500. There only the parts that the message points at are held back.

use super::hint;
use crate::{
    quarantine::{Form, Forms, Part, QuarantinedPart, host_fingerprint, origins_of, rule_fingerprint},
    snapshot::{Entry, Source},
};
use edge_ir::{Origin, RouteTable, VirtualHost};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What a proxy is known to have of a table.
#[derive(Clone, Debug)]
pub(super) enum Holds {
    /// Nothing.
    Nothing,
    /// Some version; which, nobody knows.
    Something,
    /// This.
    Version(Arc<Entry>),
}

/// What to do next.
#[derive(Debug)]
pub(super) enum Step {
    /// Send this, alone.
    Try(Arc<Entry>),
    /// These parts are to be kept back, and the proxy takes the rest.
    Found(Vec<QuarantinedPart>),
    /// No part of the table makes the difference.
    GaveUp,
}

/// A search among the parts of one version of one table.
#[derive(Debug)]
pub(super) struct Trial {
    target: Arc<Entry>,
    table: Arc<RouteTable>,
    /// Rules and hosts in question.
    rules: Vec<Part>,
    hosts: Vec<Part>,
    /// What the proxy said to versions that it refused.
    refused: BTreeMap<u64, Arc<str>>,
    /// Versions that it took.
    taken: BTreeSet<u64>,
    /// Hosts that were found to be culprits.
    bad_hosts: BTreeMap<Part, Arc<str>>,
    search: Search,
    /// Parts that the proxy's first words point at.
    suspects: BTreeSet<Part>,
}

/// What is held back, and in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Rules, answering 500.
    Closed,
    /// Rules, left out.
    Absent,
    /// Hosts, left out; the others stand without their rules in question.
    Hosts,
}

#[derive(Debug)]
struct Search {
    level: Level,
    /// Parts that are held back now.
    held: BTreeSet<Part>,
    /// Groups to be let in, the next one last.
    groups: Vec<Vec<Part>>,
    /// Something was taken with parts held back: the form in which they are is not at fault.
    proven: bool,
    culprits: BTreeMap<Part, Arc<str>>,
    /// Culprits that were left out and may do as answering 500; none while they aren't all known.
    to_close: Option<Vec<Part>>,
    closed: BTreeSet<Part>,
    current: Current,
}

/// What the version that is being tried stands for.
#[derive(Clone, Debug)]
enum Current {
    /// A group is let in.
    Group(Vec<Part>),
    /// A part is a culprit, unless the form of what is held back is at fault.
    Base(Part, Arc<str>),
    /// A culprit answers 500 instead of being left out.
    Closing(Part),
}

impl Trial {
    /// Begins a search for what is refused in a table. `None` if there is nothing to search among.
    pub(super) fn new(target: &Arc<Entry>, holds: &Holds, detail: &str) -> Option<Self> {
        let Source::Table(table) = &target.source else {
            return None;
        };
        let suspects = hint::suspects(table, detail);
        let (mut rules, mut hosts) = parts_in_question(table, holds);
        if matches!(holds, Holds::Something) {
            rules.retain(|rule| suspects.contains(rule));
            hosts.retain(|host| suspects.contains(host));
        }
        let taken = match holds {
            Holds::Version(entry) => BTreeSet::from([entry.version]),
            Holds::Nothing | Holds::Something => BTreeSet::new(),
        };
        let mut trial = Self {
            target: Arc::clone(target),
            table: Arc::clone(table),
            rules,
            hosts,
            refused: BTreeMap::from([(target.version, detail.into())]),
            taken,
            bad_hosts: BTreeMap::new(),
            search: Search::new(Level::Closed, Vec::new()),
            suspects,
        };
        trial.begin(Level::Closed);
        if trial.rules.is_empty() {
            trial.begin(Level::Hosts);
        }
        (!trial.rules.is_empty() || !trial.hosts.is_empty()).then_some(trial)
    }

    /// The version that was tried was taken.
    pub(super) fn took(&mut self, version: u64) -> Step {
        self.taken.insert(version);
        self.go_on()
    }

    /// The version that was tried was refused.
    pub(super) fn refused(&mut self, version: u64, detail: &str) -> Step {
        self.refused.insert(version, detail.into());
        self.go_on()
    }

    /// What to try first, and after each answer; what is known already isn't asked.
    pub(super) fn go_on(&mut self) -> Step {
        loop {
            let entry = self.build();
            let refusal = self.refused.get(&entry.version).cloned();
            if refusal.is_none() && !self.taken.contains(&entry.version) {
                return Step::Try(entry);
            }
            if let Some(end) = self.advance(refusal) {
                return end;
            }
        }
    }

    /// Draws the conclusion from an answer; gives the end, if this is it.
    fn advance(&mut self, refusal: Option<Arc<str>>) -> Option<Step> {
        let current = self.search.current.clone();
        match (current, refusal) {
            (Current::Group(group), None) => {
                self.search.proven = true;
                group.iter().for_each(|part| {
                    self.search.held.remove(part);
                });
                self.next()
            }
            (Current::Group(mut group), Some(detail)) => {
                if group.len() > 1 {
                    let rest = group.split_off(group.len() / 2);
                    self.search.groups.extend([rest, group]);
                    return self.next();
                }
                // With nothing held back there is nothing to let in: the fault is elsewhere.
                let Some(part) = group.pop() else {
                    return Some(Step::GaveUp);
                };
                if self.search.proven {
                    self.search.culprits.insert(part, detail);
                    return self.next();
                }
                self.search.current = Current::Base(part, detail);
                None
            }
            (Current::Base(part, detail), None) => {
                self.search.proven = true;
                self.search.culprits.insert(part, detail);
                self.next()
            }
            (Current::Base(..), Some(_)) => self.descend(),
            (Current::Closing(part), taken) => {
                if taken.is_none() {
                    self.search.closed.insert(part);
                }
                self.next()
            }
        }
    }

    /// The next thing to try at this level, or what follows from its end.
    fn next(&mut self) -> Option<Step> {
        if let Some(group) = self.search.groups.pop() {
            self.search.current = Current::Group(group);
            return None;
        }
        if self.search.level == Level::Absent {
            let culprits = &self.search.culprits;
            let to_close = self
                .search
                .to_close
                .get_or_insert_with(|| culprits.keys().cloned().collect());
            if let Some(part) = to_close.pop() {
                self.search.current = Current::Closing(part);
                return None;
            }
        }
        if self.search.level == Level::Hosts {
            self.bad_hosts.append(&mut self.search.culprits);
            self.begin(Level::Closed);
            return None;
        }
        Some(Step::Found(self.verdicts()))
    }

    /// Even with everything held back it was refused: something else is at fault.
    fn descend(&mut self) -> Option<Step> {
        match self.search.level {
            Level::Closed => self.begin(Level::Absent),
            Level::Absent if self.bad_hosts.is_empty() && !self.hosts.is_empty() => self.begin(Level::Hosts),
            Level::Absent | Level::Hosts => return Some(Step::GaveUp),
        }
        None
    }

    fn begin(&mut self, level: Level) {
        let parts = if level == Level::Hosts {
            &self.hosts
        } else {
            &self.rules
        };
        self.search = Search::new(level, hint::order(parts, &self.suspects));
    }

    fn build(&self) -> Arc<Entry> {
        let search = &self.search;
        let mut forms = Forms::default();
        let form = match search.level {
            Level::Closed => Form::Closed,
            Level::Absent | Level::Hosts => Form::Absent,
        };
        if search.level == Level::Hosts {
            self.rules.iter().for_each(|rule| forms.set(rule, Form::Absent));
        }
        let let_in: &[Part] = match &search.current {
            Current::Group(group) => group,
            Current::Base(..) | Current::Closing(_) => &[],
        };
        for part in search.held.iter().filter(|part| !let_in.contains(part)) {
            let closing = matches!(&search.current, Current::Closing(closing) if closing == part);
            let closed = closing || search.closed.contains(part);
            forms.set(part, if closed { Form::Closed } else { form });
        }
        self.bad_hosts.keys().for_each(|host| forms.set(host, Form::Absent));
        if forms.is_empty() {
            return Arc::clone(&self.target);
        }
        forms.apply(&self.target)
    }

    /// What is kept back, host by host.
    fn verdicts(&self) -> Vec<QuarantinedPart> {
        let search = &self.search;
        let mut held = Vec::new();
        for host in self.table.hosts.iter() {
            if let Some(detail) = self.bad_hosts.get(&Part::Host(Arc::clone(&host.name))) {
                held.push(self.held_host(host, detail));
                continue;
            }
            for (part, detail) in &search.culprits {
                let Part::Rule(rule) = part else { continue };
                let Some(fingerprint) = rule_fingerprint(host, rule) else {
                    continue;
                };
                let answers = search.level == Level::Closed || search.closed.contains(part);
                held.push(QuarantinedPart {
                    table: Arc::clone(&self.target.name),
                    host: Arc::clone(&host.name),
                    rule: Some(Arc::clone(rule)),
                    form: if answers { Form::Closed } else { Form::Absent },
                    fingerprint,
                    detail: Arc::clone(detail),
                    origins: origins_of(host, rule),
                });
            }
        }
        held
    }

    fn held_host(&self, host: &VirtualHost, detail: &Arc<str>) -> QuarantinedPart {
        // The domain comes from the listener and the routes.
        let routes = host.routes.iter().flat_map(|route| route.effect.origins.iter());
        let objects: BTreeSet<Origin> = host.origins.iter().chain(routes).cloned().collect();
        QuarantinedPart {
            table: Arc::clone(&self.target.name),
            host: Arc::clone(&host.name),
            rule: None,
            form: Form::Absent,
            fingerprint: host_fingerprint(host),
            detail: Arc::clone(detail),
            origins: objects.into_iter().collect(),
        }
    }
}

impl Search {
    /// Groups come in the order in which they are let in.
    fn new(level: Level, mut groups: Vec<Vec<Part>>) -> Self {
        let held = groups.iter().flatten().cloned().collect();
        groups.reverse();
        let first = groups.pop().unwrap_or_default();
        Self {
            level,
            held,
            groups,
            proven: false,
            culprits: BTreeMap::new(),
            to_close: None,
            closed: BTreeSet::new(),
            current: Current::Group(first),
        }
    }
}

/// The rules and the hosts that the proxy doesn't have as they are.
fn parts_in_question(table: &RouteTable, holds: &Holds) -> (Vec<Part>, Vec<Part>) {
    let known = match holds {
        Holds::Version(entry) => match &entry.source {
            Source::Table(table) => Some(table),
            _ => None,
        },
        Holds::Nothing | Holds::Something => None,
    };
    let before = |host: &VirtualHost| known?.hosts.find_by(|before| before.name.cmp(&host.name));
    let mut rules = BTreeSet::new();
    let mut hosts = Vec::new();
    for host in table.hosts.iter() {
        let before = before(host);
        if before.is_some_and(|before| Arc::ptr_eq(before, host) || before == host) {
            continue;
        }
        if before.is_none_or(|before| (&before.domains, &before.origins) != (&host.domains, &host.origins)) {
            hosts.push(Part::Host(Arc::clone(&host.name)));
        }
        let all: BTreeSet<String> = host.routes.iter().map(|route| route.name.rule()).collect();
        let new = all
            .into_iter()
            .filter(|rule| before.is_none_or(|before| rule_fingerprint(before, rule) != rule_fingerprint(host, rule)));
        rules.extend(new.map(|rule| Part::Rule(rule.into())));
    }
    (rules.into_iter().collect(), hosts)
}
