//! RBAC → rules over requests.

use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::{Rbac, RbacPerRoute};
use envoy_types::pb::google::protobuf::Any;

use crate::compile::Context;
use crate::compile::access::{self, About};
use crate::compile::field::{At, Rejection, fields, unpack};
use crate::config::access::AccessRules;
use crate::config::filter::{FilterKind, FilterSettings};

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterKind, Rejection> {
    rules(at, &unpack(at, config)?).map(FilterKind::Rbac)
}

/// Compiles what a route says.
pub(super) fn of_route(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterSettings, Rejection> {
    let message: RbacPerRoute = unpack(at, config)?;
    fields!(at, &message => RbacPerRoute { rbac; ignore; refuse });
    let rules = rbac.as_ref().map(|rbac| rules(&at.field("rbac"), rbac)).transpose()?;
    Ok(FilterSettings::Rbac(rules.flatten()))
}

/// `None` is no rules: everybody is let through.
fn rules(at: &At<'_>, message: &Rbac) -> Result<Option<AccessRules>, Rejection> {
    fields!(at, message => Rbac {
        rules;
        // Shadow rules and prefixes are for statistics alone.
        ignore rules_stat_prefix, shadow_rules, shadow_matcher, shadow_rules_stat_prefix, track_per_rule_stats;
        refuse matcher
    });
    let rules = rules.as_ref();
    rules
        .map(|message| access::rules(&at.field("rules"), message, About::Requests))
        .transpose()
}
