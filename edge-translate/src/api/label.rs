//! What names and values of labels look like (the API server's grammar of qualified names), and what is said of others.

use crate::api::text::is_dns_subdomain;

/// A qualified name in words.
pub(crate) const QUALIFIED: &str = "1 to 63 letters, digits, `-`, `_` and `.` with a letter or digit at both ends, and in front of it, \
                                    if you like, a DNS subdomain and a `/`";
/// The value of a label in words.
const VALUE: &str = "at most 63 letters, digits, `-`, `_` and `.` with a letter or digit at both ends, or nothing";

/// What is wrong with the name of a label.
pub(crate) fn name_error(name: &str) -> Option<String> {
    (!is_qualified(name)).then(|| format!("{name:?} can't be the name of a label: write {QUALIFIED}"))
}

/// What is wrong with the value of a label.
pub(crate) fn value_error(value: &str) -> Option<String> {
    (!is_value(value)).then(|| format!("{value:?} can't be the value of a label: write {VALUE}"))
}

/// Whether a text is a qualified name.
pub fn is_qualified(name: &str) -> bool {
    match name.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_word(name),
        None => is_word(name),
    }
}

/// Whether a text can be the value of a label.
pub fn is_value(text: &str) -> bool {
    text.is_empty() || is_word(text)
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_end = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    text.len() <= 63
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}
