//! The filters that a policy brings, collected: which instances stand on chains, and what they do for its routes.

use crate::{
    engine::reader::Reader,
    name::{FilterKey, FilterOwner, OutsideService, PolicyFilters, PolicyInstance},
};
use edge_ir::{FilterEffect, FilterInstance, FilterKind, FilterSettings, RouteFilter};

/// Filters in the making.
pub(super) struct FilterList<'a, 'r> {
    reader: &'r Reader<'a>,
    effects: Vec<RouteFilter>,
    instances: Vec<FilterKey>,
}

impl<'a, 'r> FilterList<'a, 'r> {
    pub(super) fn new(reader: &'r Reader<'a>) -> Self {
        Self {
            reader,
            effects: Vec::new(),
            instances: Vec::new(),
        }
    }

    /// Adds what the instance that all routes share does for the routes of the policy.
    pub(super) fn shared(&mut self, kind: FilterKind, effect: FilterEffect) {
        self.add(FilterKey::shared(kind), effect);
    }

    /// Adds the instance that all routes share of a kind that needs no word of a route.
    pub(super) fn silent(&mut self, kind: FilterKind) {
        self.instances.push(FilterKey::shared(kind));
    }

    /// Adds what one of several instances that all routes share does for the routes of the policy.
    pub(super) fn part(&mut self, kind: FilterKind, part: &'static str, effect: FilterEffect) {
        let owner = Some(FilterOwner::Part(part));
        self.add(FilterKey { kind, owner }, effect);
    }

    /// Adds an instance that does what it is set to.
    pub(super) fn set(&mut self, kind: FilterKind, settings: FilterSettings) {
        let owner = Some(FilterOwner::Settings(self.reader.filter_settings_id(settings)));
        self.add(FilterKey { kind, owner }, FilterEffect::On);
    }

    /// Adds an instance that serves all who ask for the same, with the services outside of the cluster that it asks.
    pub(super) fn instance(&mut self, instance: FilterInstance, outside: Vec<OutsideService>, effect: FilterEffect) {
        let asked = PolicyInstance {
            instance,
            outside,
            secrets: Vec::new(),
        };
        self.prepared(asked, effect);
    }

    /// Adds an instance with all that it needs.
    pub(super) fn prepared(&mut self, asked: PolicyInstance, effect: FilterEffect) {
        let id = asked.instance.id.clone();
        let owner = self.reader.instance_id(asked);
        self.instances.push(FilterKey {
            kind: id.kind,
            owner: Some(FilterOwner::Of(owner)),
        });
        self.effects.push(RouteFilter { id, effect });
    }

    fn add(&mut self, key: FilterKey, effect: FilterEffect) {
        let id = self.reader.filter_id(key);
        self.instances.push(key);
        self.effects.push(RouteFilter { id, effect });
    }

    /// All of them; of several effects of one instance the first counts.
    pub(super) fn finish(mut self) -> PolicyFilters {
        self.effects.sort_by(|a, b| a.id.cmp(&b.id));
        self.effects.dedup_by(|a, b| a.id == b.id);
        PolicyFilters {
            effects: self.effects.into(),
            instances: self.instances.into(),
        }
    }
}
