//! Limits that a proxy counts for each route, where backends of a rule have routes of their own.

use super::{Binder, Due};
use crate::phase::routes::rules::{Effect, RuleFinding};
use edge_ir::FilterEffect;

impl Binder<'_, '_> {
    /// Says of limits that each backend of the rule is counted by itself: no proxy counts over several routes what is
    /// said of one.
    pub(super) fn counts_apart(&mut self, due: &Due<'_>) {
        let mut fields: Vec<&str> = due
            .together
            .iter()
            .filter_map(|filter| counting(&filter.effect))
            .collect();
        fields.dedup();
        for field in fields {
            self.findings.push(RuleFinding {
                rule: self.rule,
                effect: Effect::FallsShort,
                reason: "UnsupportedValue",
                message: format!(
                    "backendRefs: {field} of a policy counts for each backend by itself, and not over all of them: \
                     requests are rewritten for each in its own way"
                ),
            });
        }
    }
}

/// The field of a policy whose filter counts for a route what passes. What a filter of the chain counts, or a service,
/// it counts for all routes.
fn counting(effect: &FilterEffect) -> Option<&'static str> {
    match effect {
        FilterEffect::RateLimit(_) => Some("rateLimit.local"),
        FilterEffect::Bandwidth(_) => Some("bandwidthLimit"),
        _ => None,
    }
}
