//! The list of a matcher (xDS `Matcher`): conditions in their order, and what follows from each.

use envoy_types::pb::xds::core::v3::TypedExtensionConfig;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::{FieldMatcher, Predicate};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{MatcherList, MatcherType, OnMatch, on_match};

use crate::compile::field::{At, Rejection, fields};

/// Reads each entry of a list, none where there is no list. A tree is refused.
pub(super) fn entries<T>(
    at: &At<'_>,
    matcher: Option<&MatcherType>,
    mut read: impl FnMut(&At<'_>, &Predicate, &OnMatch) -> Result<T, Rejection>,
) -> Result<Box<[T]>, Rejection> {
    let list = match matcher {
        None => return Ok(Box::default()),
        Some(MatcherType::MatcherList(list)) => list,
        Some(MatcherType::MatcherTree(_)) => return Err(at.unsupported("matcher_tree")),
    };
    let at = at.field("matcher_list");
    fields!(at, list => MatcherList { matchers; ignore; refuse });
    let list = at.field("matchers");
    let entries = matchers.iter().enumerate().map(|(index, message)| {
        let at = list.index(index);
        fields!(at, message => FieldMatcher { predicate, on_match; ignore; refuse });
        match (predicate, on_match) {
            (Some(predicate), Some(on_match)) => read(&at, predicate, on_match),
            _ => Err(at.error("predicate and on_match are required")),
        }
    });
    entries.collect()
}

/// What follows from a condition, in the field `action`. A tree within a list is refused.
pub(super) fn action<'m>(at: &At<'_>, message: &'m OnMatch) -> Result<&'m TypedExtensionConfig, Rejection> {
    fields!(at, message => OnMatch { on_match; ignore; refuse keep_matching });
    match on_match {
        Some(on_match::OnMatch::Action(action)) => Ok(action),
        Some(on_match::OnMatch::Matcher(_)) => Err(at.unsupported("matcher")),
        None => Err(at.field("action").error("is required")),
    }
}
