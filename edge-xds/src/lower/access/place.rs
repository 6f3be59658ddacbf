//! Conditions on where a client is, by the headers that say it.

use super::{all_of, any_of, not, principal};
use crate::lower::place::header;
use edge_ir::{Place, PlaceCondition, PlaceFact};
use envoy_types::pb::envoy::{
    config::{
        rbac::v3::{Principal, principal::Identifier},
        route::v3::{HeaderMatcher, header_matcher::HeaderMatchSpecifier},
    },
    r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern},
};

/// Who is at one of several places.
pub(super) fn at(places: &[Place]) -> Principal {
    any_of(
        places
            .iter()
            .map(|place| all_of(place.iter().map(condition).collect()))
            .collect(),
    )
}

fn condition(condition: &PlaceCondition) -> Principal {
    match condition {
        PlaceCondition::Told { fact, text } => told(*fact, text),
        PlaceCondition::Is(fact) => told(*fact, "true"),
        PlaceCondition::IsNot(fact) => not(told(*fact, "true")),
    }
}

fn told(fact: PlaceFact, text: &str) -> Principal {
    principal(Identifier::Header(HeaderMatcher {
        name: header(fact),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(StringMatcher {
            match_pattern: Some(MatchPattern::Exact(text.to_owned())),
            ignore_case: true,
        })),
        ..Default::default()
    }))
}
