//! Conditions on where a client is, by the headers that say it.

use super::{all_of, any_of, not, principal};
use crate::lower::geoip::header;
use edge_ir::{GeoCondition, GeoConditions, GeoFact};
use envoy_types::pb::envoy::{
    config::{
        rbac::v3::{Principal, principal::Identifier},
        route::v3::{HeaderMatcher, header_matcher::HeaderMatchSpecifier},
    },
    r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern},
};

/// Who is at one of several places.
pub(super) fn at(places: &[GeoConditions]) -> Principal {
    any_of(
        places
            .iter()
            .map(|place| all_of(place.iter().map(condition).collect()))
            .collect(),
    )
}

fn condition(condition: &GeoCondition) -> Principal {
    match condition {
        GeoCondition::Told { fact, text } => told(*fact, text),
        GeoCondition::Is(fact) => told(*fact, "true"),
        GeoCondition::IsNot(fact) => not(told(*fact, "true")),
    }
}

fn told(fact: GeoFact, text: &str) -> Principal {
    principal(Identifier::Header(HeaderMatcher {
        name: header(fact),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(StringMatcher {
            match_pattern: Some(MatchPattern::Exact(text.to_owned())),
            ignore_case: true,
        })),
        ..Default::default()
    }))
}
