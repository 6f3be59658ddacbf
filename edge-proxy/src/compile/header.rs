//! String matchers, header matchers, query matchers and header edits.

use envoy_types::pb::envoy::config::core::v3::HeaderValueOption;
use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use envoy_types::pb::envoy::config::route::v3::query_parameter_matcher::QueryParameterMatchSpecifier;
use envoy_types::pb::envoy::config::route::v3::{CookieMatcher, HeaderMatcher, QueryParameterMatcher};
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::envoy::r#type::matcher::v3::{RegexMatchAndSubstitute, RegexMatcher, StringMatcher};
use regex::Regex;

use crate::compile::field::{At, Rejection, fields};
use crate::compile::template::{header_field, header_name, template};
use crate::config::header::{HeaderCondition, HeaderStep, HeaderTest, PutAction, StringCondition};
use crate::config::route::{CookieCondition, QueryCondition, RegexRewrite};

/// A regular expression that must match the whole text, as Envoy's `FullMatch`.
pub fn full_regex(at: &At<'_>, matcher: &RegexMatcher) -> Result<Regex, Rejection> {
    regex(at, &format!("^(?:{})$", matcher.regex))
}

fn regex(at: &At<'_>, pattern: &str) -> Result<Regex, Rejection> {
    Regex::new(pattern).map_err(|error| {
        let text = error.to_string();
        // The lines before show the place with a marker under it.
        let reason = text.lines().next_back().unwrap_or_default();
        let reason = reason.strip_prefix("error: ").unwrap_or(reason);
        at.field("regex")
            .error(format!("is not a regular expression: {reason}"))
    })
}

/// A replacement by regular expression; `\1` of RE2 becomes `${1}`.
pub fn regex_rewrite(at: &At<'_>, rewrite: &RegexMatchAndSubstitute) -> Result<RegexRewrite, Rejection> {
    let Some(matcher) = &rewrite.pattern else {
        return Err(at.field("pattern").error("is required"));
    };
    let pattern = regex(&at.field("pattern"), &matcher.regex)?;
    let mut replacement = String::with_capacity(rewrite.substitution.len());
    let mut chars = rewrite.substitution.chars();
    while let Some(char) = chars.next() {
        match char {
            '$' => replacement.push_str("$$"),
            '\\' => match chars.next() {
                Some(digit) if digit.is_ascii_digit() => {
                    let group = digit.to_digit(10).unwrap_or_default() as usize;
                    if group >= pattern.captures_len() {
                        return Err(at
                            .field("substitution")
                            .error(format!("the pattern has no group {group}")));
                    }
                    replacement.push_str(&format!("${{{digit}}}"));
                }
                Some('\\') => replacement.push('\\'),
                _ => {
                    return Err(at
                        .field("substitution")
                        .error("a backslash must be followed by a digit or \\"));
                }
            },
            other => replacement.push(other),
        }
    }
    Ok(RegexRewrite {
        pattern,
        replacement: replacement.into(),
    })
}

/// A string matcher.
pub fn string_condition(at: &At<'_>, matcher: &StringMatcher) -> Result<StringCondition, Rejection> {
    let text = |text: &String| -> Box<str> { text.as_str().into() };
    let folds = matcher.ignore_case;
    Ok(match &matcher.match_pattern {
        Some(MatchPattern::Exact(want)) if folds => StringCondition::ExactIgnoreCase(text(want)),
        Some(MatchPattern::Exact(want)) => StringCondition::Exact(text(want)),
        Some(MatchPattern::Prefix(want)) if folds => StringCondition::PrefixIgnoreCase(text(want)),
        Some(MatchPattern::Prefix(want)) => StringCondition::Prefix(text(want)),
        Some(MatchPattern::Suffix(want)) if folds => StringCondition::SuffixIgnoreCase(text(want)),
        Some(MatchPattern::Suffix(want)) => StringCondition::Suffix(text(want)),
        Some(MatchPattern::Contains(want)) if folds => StringCondition::ContainsIgnoreCase(text(want)),
        Some(MatchPattern::Contains(want)) => StringCondition::Contains(text(want)),
        // ignore_case has no effect on regular expressions.
        Some(MatchPattern::SafeRegex(regex)) => {
            StringCondition::Regex(Box::new(full_regex(&at.field("safe_regex"), regex)?))
        }
        Some(MatchPattern::Custom(_)) => return Err(at.unsupported("custom")),
        None => return Err(at.error("match_pattern is required")),
    })
}

/// A header matcher.
pub fn header_condition(at: &At<'_>, matcher: &HeaderMatcher) -> Result<HeaderCondition, Rejection> {
    let field = header_field(&at.field("name"), &matcher.name)?;
    let value = |condition| HeaderTest::Value(condition);
    #[allow(deprecated)]
    let test = match &matcher.header_match_specifier {
        None | Some(HeaderMatchSpecifier::PresentMatch(true)) => HeaderTest::Present,
        Some(HeaderMatchSpecifier::PresentMatch(false)) => HeaderTest::Absent,
        Some(HeaderMatchSpecifier::ExactMatch(want)) => value(StringCondition::Exact(want.as_str().into())),
        Some(HeaderMatchSpecifier::PrefixMatch(want)) => value(StringCondition::Prefix(want.as_str().into())),
        Some(HeaderMatchSpecifier::SuffixMatch(want)) => value(StringCondition::Suffix(want.as_str().into())),
        Some(HeaderMatchSpecifier::ContainsMatch(want)) => value(StringCondition::Contains(want.as_str().into())),
        Some(HeaderMatchSpecifier::SafeRegexMatch(regex)) => value(StringCondition::Regex(Box::new(full_regex(
            &at.field("safe_regex_match"),
            regex,
        )?))),
        Some(HeaderMatchSpecifier::StringMatch(matcher)) => {
            value(string_condition(&at.field("string_match"), matcher)?)
        }
        Some(HeaderMatchSpecifier::RangeMatch(range)) => HeaderTest::Range(range.start, range.end),
    };
    let missing_as_empty = matcher.treat_missing_header_as_empty;
    Ok(HeaderCondition {
        field,
        test,
        invert: matcher.invert_match,
        missing_as_empty,
    })
}

/// A query parameter matcher.
pub fn query_condition(at: &At<'_>, matcher: &QueryParameterMatcher) -> Result<QueryCondition, Rejection> {
    let (value, absent) = match &matcher.query_parameter_match_specifier {
        None => (None, false),
        Some(QueryParameterMatchSpecifier::PresentMatch(present)) => (None, !present),
        Some(QueryParameterMatchSpecifier::StringMatch(matcher)) => {
            (Some(string_condition(&at.field("string_match"), matcher)?), false)
        }
    };
    Ok(QueryCondition {
        name: matcher.name.as_str().into(),
        value,
        absent,
    })
}

/// A condition on a cookie.
pub fn cookie_condition(at: &At<'_>, matcher: &CookieMatcher) -> Result<CookieCondition, Rejection> {
    fields!(at, matcher => CookieMatcher { name, string_match, invert_match; ignore; refuse });
    if name.is_empty() {
        return Err(at.field("name").error("is required"));
    }
    let at = at.field("string_match");
    let Some(value) = string_match else {
        return Err(at.error("is required"));
    };
    Ok(CookieCondition {
        name: name.as_str().into(),
        value: string_condition(&at, value)?,
        invert: *invert_match,
    })
}

/// The edits of one level (weighted cluster, route, virtual host, route configuration): removals come first
/// (Envoy's HeaderParser evaluates them so).
pub fn edits(
    at: &At<'_>,
    names: (&str, &str),
    add: &[HeaderValueOption],
    remove: &[String],
) -> Result<Vec<HeaderStep>, Rejection> {
    let mut steps = Vec::with_capacity(add.len() + remove.len());
    let list = at.field(names.1);
    for (index, name) in remove.iter().enumerate() {
        steps.push(HeaderStep::Remove(editable(&list.index(index), name)?));
    }
    let list = at.field(names.0);
    for (index, option) in add.iter().enumerate() {
        steps.push(put(&list.index(index), option)?);
    }
    Ok(steps)
}

/// The name of a header that may be edited.
pub(super) fn editable(at: &At<'_>, name: &str) -> Result<::http::HeaderName, Rejection> {
    if name.starts_with(':') || name.eq_ignore_ascii_case("host") {
        return Err(at.error(format!("{name:?} may not be edited (rewrite the host or path instead)")));
    }
    header_name(at, name)
}

/// A header that is added or replaced.
pub(super) fn put(at: &At<'_>, option: &HeaderValueOption) -> Result<HeaderStep, Rejection> {
    let Some(header) = &option.header else {
        return Err(at.field("header").error("is required"));
    };
    let at_header = at.field("header");
    let name = editable(&at_header.field("key"), &header.key)?;
    let raw;
    let text = if header.raw_value.is_empty() {
        &header.value
    } else {
        raw = String::from_utf8(header.raw_value.clone())
            .map_err(|_| at_header.field("raw_value").error("is not UTF-8"))?;
        &raw
    };
    let value = template(&at_header.field("value"), text)?;
    #[allow(deprecated)]
    let action = match (&option.append, HeaderAppendAction::try_from(option.append_action)) {
        (Some(append), _) if append.value => PutAction::Append,
        (Some(_), _) => PutAction::Overwrite,
        (None, Ok(HeaderAppendAction::AppendIfExistsOrAdd)) => PutAction::Append,
        (None, Ok(HeaderAppendAction::AddIfAbsent)) => PutAction::AddIfAbsent,
        (None, Ok(HeaderAppendAction::OverwriteIfExistsOrAdd)) => PutAction::Overwrite,
        (None, Ok(HeaderAppendAction::OverwriteIfExists)) => PutAction::OverwriteIfExists,
        (None, Err(_)) => return Err(at.unsupported("append_action")),
    };
    Ok(HeaderStep::Put {
        name,
        value,
        action,
        keep_empty: option.keep_empty_value,
    })
}
