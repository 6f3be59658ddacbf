//! The filters of a rule under policies: its own, and those of each policy. A rule's own filter of a kind stands in
//! place of all that policies have of it.

use crate::name::{FilterKey, PolicyFilters};
use edge_ir::{FilterKind, RouteFilter, RouteFilters};

/// What filters do for a rule, sorted by id.
pub(super) fn merged<const N: usize>(own: RouteFilters, policies: [&PolicyFilters; N]) -> RouteFilters {
    let mut others = policies.into_iter().filter(|policy| !policy.effects.is_empty());
    match (others.next(), others.next()) {
        // Nearly all rules.
        (None, _) => own,
        // Ten thousand routes under a Gateway's policy share one list.
        (Some(policy), None) if own.is_empty() => RouteFilters::clone(&policy.effects),
        _ => {
            let added = policies.into_iter().flat_map(|policy| policy.effects.iter());
            let added = added.filter(|filter| !has(&own, filter.id.kind));
            let mut all: Vec<&RouteFilter> = own.iter().chain(added).collect();
            all.sort_by(|a, b| a.id.cmp(&b.id));
            all.into_iter().cloned().collect()
        }
    }
}

/// Instances that a rule needs for the filters of policies.
pub(super) fn needed<const N: usize>(
    own: &RouteFilters,
    policies: [&PolicyFilters; N],
) -> impl Iterator<Item = FilterKey> {
    let instances = policies.into_iter().flat_map(|policy| policy.instances.iter().copied());
    instances.filter(|instance| !has(own, instance.kind))
}

fn has(filters: &RouteFilters, kind: FilterKind) -> bool {
    filters.iter().any(|filter| filter.id.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_ir::{Cors, FilterEffect, FilterId};
    use std::sync::Arc;

    fn cors(max_age: u32) -> RouteFilter {
        RouteFilter {
            id: FilterId::shared(FilterKind::Cors),
            effect: FilterEffect::Cors(Arc::new(Cors {
                origins: vec![],
                methods: vec![],
                headers: vec![],
                exposed_headers: vec![],
                max_age: Some(max_age),
                credentials: false,
            })),
        }
    }

    fn fault() -> RouteFilter {
        RouteFilter {
            id: FilterId::shared(FilterKind::Fault),
            effect: FilterEffect::Fault(Arc::default()),
        }
    }

    fn policy(effects: &[RouteFilter]) -> PolicyFilters {
        PolicyFilters {
            effects: effects.into(),
            instances: effects.iter().map(|f| FilterKey::shared(f.id.kind)).collect(),
        }
    }

    #[test]
    fn a_rule_without_filters_shares_the_list_of_its_policy() {
        let (one, none) = (policy(&[fault()]), PolicyFilters::default());
        let merged = merged(RouteFilters::default(), [&none, &one]);
        assert!(Arc::ptr_eq(&merged, &one.effects));
    }

    #[test]
    fn its_own_filter_of_a_kind_stands_in_place_of_that_of_policies() {
        let own = RouteFilters::from([cors(1)]);
        let (shaping, guarding) = (policy(&[fault()]), policy(&[cors(2)]));
        let both = [&guarding, &shaping];
        let kinds: Vec<_> = needed(&own, both).map(|key| key.kind).collect();
        assert_eq!(kinds, [FilterKind::Fault]);
        assert_eq!(*merged(own, both), [fault(), cors(1)]);
    }

    #[test]
    fn lists_of_several_policies_are_sorted_into_one() {
        let (shaping, guarding) = (policy(&[fault()]), policy(&[cors(2)]));
        let all = merged(RouteFilters::default(), [&guarding, &shaping]);
        assert_eq!(*all, [fault(), cors(2)]);
    }
}
