//! CsrfPolicy → [`SiteCheck`].

use envoy_types::pb::envoy::config::core::v3::RuntimeFractionalPercent;
use envoy_types::pb::envoy::extensions::filters::http::csrf::v3::CsrfPolicy;
use envoy_types::pb::google::protobuf::Any;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, unpack};
use crate::compile::header::string_condition;
use crate::compile::route;
use crate::config::filter::csrf::SiteCheck;
use crate::config::filter::{FilterKind, FilterSettings};
use crate::config::route::Fraction;

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterKind, Rejection> {
    check(at, &unpack(at, config)?).map(FilterKind::Csrf)
}

/// Compiles what a route says.
pub(super) fn of_route(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterSettings, Rejection> {
    check(at, &unpack(at, config)?).map(FilterSettings::Csrf)
}

fn check(at: &At<'_>, message: &CsrfPolicy) -> Result<SiteCheck, Rejection> {
    fields!(at, message => CsrfPolicy {
        filter_enabled, additional_origins;
        // Only counts.
        ignore shadow_enabled;
        refuse
    });
    let list = at.field("additional_origins");
    let trusted = additional_origins.iter().enumerate();
    Ok(SiteCheck {
        enforced: share(&at.field("filter_enabled"), filter_enabled.as_ref())?,
        trusted: trusted
            .map(|(index, matcher)| string_condition(&list.index(index), matcher))
            .collect::<Result<_, _>>()?,
    })
}

/// A share of requests; all where nothing is said. Runtime keys have no values here.
pub(super) fn share(at: &At<'_>, message: Option<&RuntimeFractionalPercent>) -> Result<Fraction, Rejection> {
    match message {
        None => Ok(Fraction {
            numerator: 100,
            denominator: 100,
        }),
        Some(message) => route::fraction(at, message.default_value.as_ref()),
    }
}
