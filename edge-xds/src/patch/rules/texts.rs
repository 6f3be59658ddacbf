//! Texts and bytes.

use super::{Judged, count};
use crate::json::JsonError;
use envoy_types::pb::validate::{BytesRules, KnownRegex, StringRules, string_rules::WellKnown};
use regex::Regex;

pub(super) fn text(value: &str, rules: &StringRules) -> Judged {
    if rules.ignore_empty() && value.is_empty() {
        return Ok(());
    }
    let characters = || value.chars().count();
    count(
        characters(),
        rules.len.or(rules.min_len),
        rules.len.or(rules.max_len),
        "characters",
    )?;
    let bytes = rules.len_bytes;
    count(
        value.len(),
        bytes.or(rules.min_bytes),
        bytes.or(rules.max_bytes),
        "bytes",
    )?;
    if let Some(wanted) = rules.r#const.as_deref().filter(|wanted| *wanted != value) {
        return Err(format!("must be {wanted:?}"));
    }
    one_of(value, &rules.r#in, &rules.not_in)?;
    parts(value, rules)?;
    if let Some(pattern) = &rules.pattern {
        matches(value, pattern)?;
    }
    match rules.well_known {
        Some(WellKnown::WellKnownRegex(known)) => header(value, known, rules.strict()),
        _ => Ok(()),
    }
}

/// What a text begins with, ends with and holds.
fn parts(value: &str, rules: &StringRules) -> Judged {
    let expected = |is_right: bool, what: &str, part: &str| match is_right {
        true => Ok(()),
        false => Err(format!("must {what} {part:?}")),
    };
    if let Some(prefix) = &rules.prefix {
        expected(value.starts_with(&**prefix), "begin with", prefix)?;
    }
    if let Some(suffix) = &rules.suffix {
        expected(value.ends_with(&**suffix), "end with", suffix)?;
    }
    if let Some(part) = &rules.contains {
        expected(value.contains(&**part), "contain", part)?;
    }
    match &rules.not_contains {
        Some(part) => expected(!value.contains(&**part), "not contain", part),
        None => Ok(()),
    }
}

pub(super) fn one_of(value: &str, among: &[String], not_among: &[String]) -> Judged {
    let is = |other: &String| *other == value;
    if !among.is_empty() && !among.iter().any(is) {
        return Err(format!("must be one of {}", among.join(", ")));
    }
    match not_among.iter().any(is) {
        true => Err(format!("must be none of {}", not_among.join(", "))),
        false => Ok(()),
    }
}

fn matches(value: &str, pattern: &str) -> Judged {
    let damaged = |error: regex::Error| JsonError::Descriptors(error.to_string()).to_string();
    match Regex::new(pattern).map_err(damaged)?.is_match(value) {
        true => Ok(()),
        false => Err(format!("must match {pattern}")),
    }
}

/// Names and values of headers. The lenient forms only keep out what ends a line or a text, and are fine with nothing.
fn header(value: &str, known: i32, is_strict: bool) -> Judged {
    let (is_right, what) = match (KnownRegex::try_from(known), is_strict) {
        (Ok(KnownRegex::HttpHeaderName), true) => {
            let name = value.strip_prefix(':').unwrap_or(value);
            (!name.is_empty() && name.chars().all(is_of_name), "name")
        }
        (Ok(KnownRegex::HttpHeaderValue), true) => (!value.contains(|c: char| c != '\t' && is_control(c)), "value"),
        (Ok(KnownRegex::HttpHeaderName), false) => (!value.contains(ends_line), "name"),
        (Ok(KnownRegex::HttpHeaderValue), false) => (!value.contains(ends_line), "value"),
        (Ok(KnownRegex::Unknown) | Err(_), _) => (true, ""),
    };
    match is_right {
        true => Ok(()),
        false => Err(format!("must be the {what} of a header")),
    }
}

/// `[0-9a-zA-Z!#$%&'*+-.^_|~\x60]`, where `+-.` is a range, as written.
fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+,-.^_|~`".contains(c)
}

fn ends_line(c: char) -> bool {
    matches!(c, '\0' | '\n' | '\r')
}

fn is_control(c: char) -> bool {
    c < ' ' || c == '\x7f'
}

pub(super) fn bytes(value: &[u8], rules: &BytesRules) -> Judged {
    if rules.ignore_empty() && value.is_empty() {
        return Ok(());
    }
    count(
        value.len(),
        rules.len.or(rules.min_len),
        rules.len.or(rules.max_len),
        "bytes",
    )
}
