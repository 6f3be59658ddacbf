//! Conditions on texts, as policies write them.

use super::traffic::Problems;
use crate::{
    api::string_match::{StringMatch, StringMatchType},
    phase::routes::rules::expression,
};
use edge_ir::TextMatcher;
use std::sync::Arc;

/// What a text must be.
pub(in crate::phase) fn text_match(area: &str, text: &StringMatch, problems: &mut Problems) -> Option<TextMatcher> {
    let value: Arc<str> = (&*text.value).into();
    Some(match &text.r#type {
        StringMatchType::Exact => TextMatcher::Exact(value),
        StringMatchType::Prefix => TextMatcher::Prefix(value),
        StringMatchType::Suffix => TextMatcher::Suffix(value),
        StringMatchType::RegularExpression => {
            if let Err(why) = expression::check(&value) {
                problems.add(area, format_args!("regex {value:?} is invalid: {why}"));
            }
            TextMatcher::Regex(value)
        }
        StringMatchType::Other(other) => {
            problems.add(area, format_args!("unsupported type of match {other}"));
            return None;
        }
    })
}
