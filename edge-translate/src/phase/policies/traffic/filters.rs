//! Filters by which a policy shapes requests and responses.

use super::Problems;
use crate::{
    api::BackendTrafficPolicySpec,
    name::{FilterKey, PolicyFilters},
};
use edge_ir::{FilterEffect, FilterId, FilterKind, RouteFilter};
use std::sync::Arc;

mod fault;

/// All of them.
pub(super) fn filters(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> PolicyFilters {
    let mut list = List::default();
    if let Some(fault) = fault::fault(spec, problems) {
        list.shared(FilterKind::Fault, FilterEffect::Fault(Arc::new(fault)));
    }
    list.finish()
}

/// Filters in the making.
#[derive(Default)]
struct List {
    effects: Vec<RouteFilter>,
    instances: Vec<FilterKey>,
}

impl List {
    /// Adds what the instance that all routes share does for the routes of the policy.
    fn shared(&mut self, kind: FilterKind, effect: FilterEffect) {
        self.instances.push(FilterKey::shared(kind));
        let id = FilterId::shared(kind);
        self.effects.push(RouteFilter { id, effect });
    }

    fn finish(mut self) -> PolicyFilters {
        self.effects.sort_by(|a, b| a.id.cmp(&b.id));
        PolicyFilters {
            effects: self.effects.into(),
            instances: self.instances.into(),
        }
    }
}
