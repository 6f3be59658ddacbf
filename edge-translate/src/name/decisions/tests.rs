use super::*;
use crate::name::{Decision, Encryption, PolicyFilters};
use edge_ir::{FilterEffect, FilterId, FilterKind};

fn passed_on() -> Variant {
    Variant {
        encryption: Encryption::Client,
        ..Variant::default()
    }
}

#[test]
fn equal_decisions_have_one_number_and_none_has_0() {
    let decisions = Decisions::default();
    assert_eq!(decisions.context_id(Context::default()), ContextId::default());
    assert_eq!(decisions.variant_id(Variant::default()), VariantId::OWN);
    let variant = decisions.variant_id(passed_on());
    assert_ne!(variant, VariantId::OWN);
    assert_eq!(decisions.variant_id(passed_on()), variant);
    assert_eq!(*decisions.variant(variant), passed_on());
    let context = Context {
        decision: Decision {
            variant,
            ..Decision::default()
        },
        ..Context::default()
    };
    let id = decisions.context_id(context.clone());
    assert_ne!(id, ContextId::default());
    assert_eq!(*decisions.context(id), context);
}

#[test]
fn what_filters_of_policies_do_together_is_one_sorted_list() {
    let filter = |kind| RouteFilter {
        id: FilterId::shared(kind),
        effect: FilterEffect::On,
    };
    let filters = |kind| PolicyFilters {
        effects: [filter(kind)].into(),
        instances: Arc::default(),
    };
    let decisions = Decisions::default();
    let security = decisions.security_id(Security {
        filters: filters(FilterKind::Cors),
        ..Security::default()
    });
    let traffic = decisions.traffic_id(Traffic {
        filters: filters(FilterKind::Fault),
        ..Traffic::default()
    });
    let of = |security, traffic| decisions.filters_of(security, ExtensionId::default(), traffic);
    let both = of(security, traffic);
    assert_eq!(*both, [filter(FilterKind::Fault), filter(FilterKind::Cors)]);
    assert!(Arc::ptr_eq(&both, &of(security, traffic)));
    assert_eq!(*of(security, TrafficId::default()), [filter(FilterKind::Cors)]);
    assert!(of(SecurityId::default(), TrafficId::default()).is_empty());
}

#[test]
fn a_name_tells_what_is_set_and_nothing_else() {
    let decisions = Decisions::default();
    assert_eq!(decisions.suffix(VariantId::OWN), None);
    let variant = decisions.variant_id(passed_on());
    // The first 8 digits of `printf '{"encryption":"client"}' | sha256sum`: names outlive a version.
    assert_eq!(decisions.suffix(variant).as_deref(), Some("~fb6ddc2d"));
}

#[test]
#[should_panic(expected = "out of bounds")]
fn a_number_that_nobody_gave_out_is_not_taken_for_no_policy() {
    let other = Decisions::default();
    let variant = other.variant_id(passed_on());
    Decisions::default().variant(variant);
}
