//! The list of a matcher (xDS `Matcher`): conditions in their order, and what follows from each.

use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::{FieldMatcher, Predicate};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{MatcherList, MatcherType, OnMatch};

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
