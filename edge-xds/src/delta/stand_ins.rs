//! Tables for listeners that are refused.
//!
//! A listener that a proxy refuses goes on as it was, and asks for its table behind the guards that it had, which the
//! fleet has no more where guards came or went beside what is refused. That table isn't left as it was: edits of others
//! would come to nothing, and a route that is given a guard would stay open for as long as somebody else's mistake
//! lasts. It is brought up to date, and rules that ask a guard which the chain lacks answer 500.

use crate::{
    lower::{behind_guards, table_of_name, wire_name},
    quarantine::{Form, Forms},
    snapshot::{Entry, ResourceType, Section, Snapshot, Source},
};
use edge_ir::{
    AccessCondition, FilterEffect, FilterId, FilterSettings, GeoFact, HttpManager, Listener, Network, Route,
    RouteFilter,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The snapshot with tables for what these listeners ask for, with which the proxy goes on.
pub(super) fn with_stand_ins<'a>(snapshot: Snapshot, listeners: impl Iterator<Item = &'a Arc<Entry>>) -> Snapshot {
    let section = snapshot.section(ResourceType::Routes);
    let mut tables: BTreeMap<Arc<str>, StandIn<'_>> = BTreeMap::new();
    for manager in listeners.flat_map(|entry| managers(entry)) {
        let name = wire_name(&manager.route_table, &manager.guards);
        if section.get(&name).is_some() {
            continue;
        }
        if let Some(current) = table_of_name(section, &name) {
            let stand_in = StandIn {
                current,
                chains: Vec::new(),
                places: places_behind(&snapshot, &current.name),
            };
            tables.entry(name).or_insert(stand_in).chains.push(manager);
        }
    }
    let made: Vec<_> = tables.values().filter_map(StandIn::made).map(Arc::new).collect();
    if made.is_empty() {
        return snapshot;
    }
    let section = Section::new(section.entries().iter().cloned().chain(made).collect());
    snapshot.with(ResourceType::Routes, Arc::new(section))
}

/// A table that the fleet has behind other guards only.
#[derive(Debug)]
struct StandIn<'a> {
    current: &'a Arc<Entry>,
    /// The chains that ask for it.
    chains: Vec<&'a HttpManager>,
    /// What its rules are told of where clients are.
    places: BTreeSet<GeoFact>,
}

impl StandIn<'_> {
    fn made(&self) -> Option<Entry> {
        let Source::Table(table) = &self.current.source else {
            return None;
        };
        let mut forms = Forms::default();
        for host in table.hosts.iter() {
            let open = host.routes.iter().filter(|route| self.lacks_guards_of(route));
            for route in open {
                forms.set_rule(Some(Arc::clone(&host.name)), &route.name.rule().into(), Form::Closed);
            }
        }
        let guards = &self.chains.first()?.guards;
        behind_guards(&forms.apply(self.current), guards)
    }

    /// Whether a chain would let requests of a route pass by what should look at them.
    fn lacks_guards_of(&self, route: &Route) -> bool {
        let guards = route.effect.filters.iter().filter(|filter| filter.id.kind.is_guard());
        self.chains.iter().any(|chain| {
            let has = |id: &FilterId| chain.filters.iter().any(|filter| filter.id == *id);
            guards
                .clone()
                .any(|guard| !has(&guard.id) || asks_for_place(guard) && !self.places.is_subset(&places_of(chain)))
        })
    }
}

/// Whether rules ask where a client is: where that isn't told they let everybody in whom they deny.
fn asks_for_place(guard: &RouteFilter) -> bool {
    let FilterEffect::Access(rules) = &guard.effect else {
        return false;
    };
    let mut conditions = rules.rules.iter().flat_map(|rule| &rule.conditions);
    conditions.any(|condition| matches!(condition, AccessCondition::Place(_)))
}

/// What a chain tells of where clients are.
fn places_of(chain: &HttpManager) -> BTreeSet<GeoFact> {
    let lookups = chain.filters.iter().filter_map(|filter| match &filter.settings {
        FilterSettings::Places(lookup) => Some(lookup),
        _ => None,
    });
    lookups.flat_map(|lookup| lookup.databases.facts()).collect()
}

/// What the chains that ask for a table now tell of it.
fn places_behind(snapshot: &Snapshot, table: &str) -> BTreeSet<GeoFact> {
    let listeners = snapshot.section(ResourceType::Listener).entries().iter();
    let chains = listeners.flat_map(|entry| managers(entry));
    let chains = chains.filter(|chain| *wire_name(&chain.route_table, &chain.guards) == *table);
    chains.flat_map(places_of).collect()
}

fn managers(entry: &Entry) -> impl Iterator<Item = &HttpManager> {
    let listener: Option<&Listener> = match &entry.source {
        Source::Listener(listener) => Some(listener),
        _ => None,
    };
    let chains = listener
        .into_iter()
        .flat_map(|listener| listener.chains.iter().chain(&listener.default_chain));
    chains.filter_map(|chain| match &chain.network {
        Network::Http(manager) => Some(manager),
        _ => None,
    })
}
