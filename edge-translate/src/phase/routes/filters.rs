//! The filters of a rule under policies: its own, and those of each policy. A rule's own filter of a kind stands in
//! place of all that policies have of it.

use crate::name::{FilterKey, PolicyFilters};
use edge_ir::{FilterKind, RouteFilter, RouteFilters};

/// What filters do for a rule that has some of its own, with those of policies all together; sorted by id.
pub(super) fn merged(own: RouteFilters, policies: &RouteFilters) -> RouteFilters {
    if policies.is_empty() {
        return own;
    }
    let added = policies.iter().filter(|filter| !has(&own, filter.id.kind));
    let mut all: Vec<&RouteFilter> = own.iter().chain(added).collect();
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all.into_iter().cloned().collect()
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
    fn a_rule_keeps_its_list_where_policies_have_none() {
        let own = RouteFilters::from([fault()]);
        assert!(Arc::ptr_eq(
            &merged(RouteFilters::clone(&own), &RouteFilters::default()),
            &own
        ));
    }

    #[test]
    fn its_own_filter_of_a_kind_stands_in_place_of_that_of_policies() {
        let own = RouteFilters::from([cors(1)]);
        let (shaping, guarding) = (policy(&[fault()]), policy(&[cors(2)]));
        let both = [&guarding, &shaping];
        let kinds: Vec<_> = needed(&own, both).map(|key| key.kind).collect();
        assert_eq!(kinds, [FilterKind::Fault]);
        assert_eq!(*merged(own, &[fault(), cors(2)].into()), [fault(), cors(1)]);
    }
}
