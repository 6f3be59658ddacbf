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
    if value.is_empty() {
        problems.add(area, format_args!("a match of type {} has no value", text.r#type));
        return None;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_has_a_value() {
        let kinds = [
            StringMatchType::Exact,
            StringMatchType::Prefix,
            StringMatchType::Suffix,
            StringMatchType::RegularExpression,
        ];
        for kind in kinds {
            let of = |value: &str| {
                let mut problems = Problems::default();
                let text = StringMatch {
                    r#type: kind.clone(),
                    value: value.into(),
                };
                text_match("HTTP1", &text, &mut problems);
                problems.joined()
            };
            assert_eq!(&*of("a"), "");
            assert_eq!(&*of(""), format!("HTTP1: a match of type {kind} has no value."));
        }
    }
}
