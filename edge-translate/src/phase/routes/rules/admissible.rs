//! What an API server or a data plane would refuse of a rule's texts and numbers, so that none of it leaves the
//! translation: a proxy refuses a whole route table for one bad path in it, and Envoy everything that came with it.
//!
//! Who bears a fault, and why:
//!
//! | level | faults | what serves |
//! |---|---|---|
//! | object, by the loader | wrong types, names and labels (`load::identity`), slips in narrowing fields (`load::known`) | the last good version of the object: what was meant can't be told |
//! | listener | protocol, port, hostname, name (`listeners::spec`) | the Gateway's other listeners |
//! | rule | all that is checked here and in `expression`: matches, filters, weights, retries, time limits | the route's other rules; what the rest of the rule matches answers 500, for it must not fall to a wider rule |
//! | reference | what a backendRef leads to (`backend`) | the other backends, 500 for its share |
//!
//! An API server refuses the whole object for a fault of a rule. It can, because somebody waits for its answer and the
//! object before is still there. Here one rule costs less than a route, and its status says so at once. Bounds on how
//! many rules, matches or backends there may be are not kept: they limit what a server's own checks cost, and no proxy
//! minds.

use super::Compilation;
use std::fmt::Write;

/// Longest path, of a match and of a replacement.
const MAX_PATH: usize = 1024;
/// Longest name of a header or query parameter.
const MAX_NAME: usize = 256;
/// Longest value of a header or query parameter.
const MAX_VALUE: usize = 4096;
/// Greatest weight of a backendRef.
const MAX_WEIGHT: u32 = 1_000_000;

impl Compilation<'_, '_> {
    /// Fails the rule, or refuses the backend whose filters are compiled, if a text or number isn't what it must be.
    pub(super) fn admit(&mut self, what: &str, text: &str, check: Result<(), String>) -> Option<()> {
        let Err(why) = check else { return Some(()) };
        let message = format!("{what} {} is invalid: {why}.", quoted(text));
        let message = match self.rule.reference {
            // Whose filter it is will be said.
            Some(_) => message,
            None => format!("Failed to process route rule {}: {message}", self.rule.index),
        };
        self.fail("UnsupportedValue", message);
        None
    }
}

/// A text for a message: on one line, and not longer than a person reads.
fn quoted(text: &str) -> String {
    /// Characters that are shown.
    const SHOWN: usize = 80;
    let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    shown = shown.replace("\\'", "'");
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    let mut out = String::with_capacity(shown.len() + 2);
    // Writing to a string can't fail.
    let _ = write!(out, "\"{shown}\"");
    out
}

/// A path of a match of type Exact or PathPrefix (CRD: HTTPPathMatch).
pub(in crate::phase) fn path(path: &str) -> Result<(), String> {
    if is_plain(path) {
        return Ok(());
    }
    let no = |why: &str| Err(why.to_owned());
    if !path.starts_with('/') {
        return no("it must start with '/'");
    }
    if path.len() > MAX_PATH {
        return Err(format!("it must not be longer than {MAX_PATH} characters"));
    }
    if path.contains('?') {
        return no("it must not hold a query: match query parameters with `queryParams`");
    }
    for part in ["//", "/./", "/../", "%2f", "%2F", "#"] {
        if path.contains(part) {
            return Err(format!("it must not contain '{part}'"));
        }
    }
    if let Some(end) = ["/..", "/."].into_iter().find(|end| path.ends_with(end)) {
        return Err(format!("it must not end in '{end}'"));
    }
    path_characters(path)
}

/// Whether a path needs no closer look, as nearly all: segments of unreserved letters that don't begin with a dot.
fn is_plain(path: &str) -> bool {
    let mut before = b' ';
    path.starts_with('/')
        && path.len() <= MAX_PATH
        && path.bytes().all(|byte| {
            let is_fine = match byte {
                b'/' | b'.' => before != b'/',
                _ => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~'),
            };
            before = byte;
            is_fine
        })
}

/// Letters of a path, others percent-encoded (RFC 3986 §3.3).
fn path_characters(path: &str) -> Result<(), String> {
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        let is_fine = match byte {
            b'%' => (0..2).all(|_| bytes.next().is_some_and(|b| b.is_ascii_hexdigit())),
            _ => byte.is_ascii_alphanumeric() || b"-/._~!$&'()*+,;=:@".contains(&byte),
        };
        if !is_fine {
            return Err(
                "it may hold letters, digits and -._~!$&'()*+,;=:@/, all else as % and two hexadecimal \
                        digits"
                    .into(),
            );
        }
    }
    Ok(())
}

/// What takes the place of a path or prefix; a prefix may be replaced by nothing.
pub(super) fn replacement(path: &str) -> Result<(), String> {
    if path.len() > MAX_PATH {
        return Err(format!("it must not be longer than {MAX_PATH} characters"));
    }
    if !path.is_empty() && !path.starts_with('/') {
        return Err("it must start with '/'".into());
    }
    match path.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
        true => Ok(()),
        false => {
            Err("it may hold visible ASCII characters without '#', all else as % and two hexadecimal digits".into())
        }
    }
}

/// Whether a text can name a header: a token (RFC 9110 §5.6.2).
pub(in crate::phase) fn is_token(name: &str) -> bool {
    let mut bytes = name.bytes();
    !name.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// The name of a header or query parameter (CRD: HTTPHeaderName).
pub(in crate::phase) fn field_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("it must not be empty".into());
    }
    if name.len() > MAX_NAME {
        return Err(format!("it must not be longer than {MAX_NAME} characters"));
    }
    match is_token(name) {
        true => Ok(()),
        false => Err("it may hold ASCII letters, digits and !#$%&'*+-.^_`|~".into()),
    }
}

/// Whether a text can be the value of a header (RFC 9110 §5.5).
pub(in crate::phase) fn is_field_value(value: &str) -> bool {
    value.len() <= MAX_VALUE && value.bytes().all(|b| b == b'\t' || (b >= b' ' && b != 0x7f))
}

/// The value that a header or query parameter is compared with.
pub(super) fn field_value(value: &str) -> Result<(), String> {
    if value.len() > MAX_VALUE {
        return Err(format!("it must not be longer than {MAX_VALUE} characters"));
    }
    match is_field_value(value) {
        true => Ok(()),
        false => Err("it must not hold line breaks or other control characters".into()),
    }
}

/// Weights of the backends of a rule. A proxy adds them up in 32 bits.
pub(super) fn weights(mut all: impl Iterator<Item = u32> + Clone) -> Result<(), String> {
    let sum: u64 = all.clone().map(u64::from).sum();
    if let Some(weight) = all.find(|weight| *weight > MAX_WEIGHT) {
        return Err(format!("{weight} is more than {MAX_WEIGHT}"));
    }
    match u32::try_from(sum) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("their sum {sum} is more than {}", u32::MAX)),
    }
}

/// A status code that is tried again.
pub(super) fn retry_code(code: u16) -> Result<(), String> {
    match code {
        400..=599 => Ok(()),
        _ => Err("it must be from 400 to 599".into()),
    }
}

/// The service of a gRPC call (CRD: GRPCMethodMatch).
pub(super) fn grpc_service(name: &str) -> Result<(), String> {
    let name = name.strip_prefix('.').unwrap_or(name);
    match name.split('.').all(is_identifier) {
        true => Ok(()),
        false => Err("it must be identifiers of letters, digits and '_', joined by dots".into()),
    }
}

/// The method of a gRPC call (CRD: GRPCMethodMatch).
pub(super) fn grpc_method(name: &str) -> Result<(), String> {
    match is_identifier(name) {
        true => Ok(()),
        false => Err("it must be an identifier of letters, digits and '_'".into()),
    }
}

fn is_identifier(name: &str) -> bool {
    let is_start = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    name.bytes().next().is_some_and(is_start) && name.bytes().all(|b| is_start(b) || b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_the_crd() {
        for good in ["/", "/a", "/a/", "/a.b/..c", "/%20", "/a:b@c", "/-._~!$&'()*+,;=", "/."] {
            let expected = !matches!(good, "/.");
            assert_eq!(path(good).is_ok(), expected, "{good}");
        }
        for bad in [
            "", "shop", "/a?b=c", "/a#b", "/a//b", "/a/./b", "/a/../b", "/a/..", "/a/.", "/a%2fb", "/a%2Fb", "/ä",
            "/a b", "/a\nb", "/%2", "/%zz", "/a\0", "/a[1]",
        ] {
            assert!(path(bad).is_err(), "{bad:?}");
        }
        assert!(path(&format!("/{}", "a".repeat(1024))).is_err());
    }

    #[test]
    fn weights_fit_into_what_a_proxy_adds_up() {
        assert!(weights([0, 1, 1_000_000].into_iter()).is_ok());
        assert!(weights([1_000_001].into_iter()).is_err());
        assert!(weights(std::iter::repeat_n(1_000_000, 4294)).is_ok());
        assert!(weights(std::iter::repeat_n(1_000_000, 4295)).is_err());
    }

    #[test]
    fn calls_are_identifiers() {
        for good in ["a.B", ".a", "_x.y1"] {
            assert!(grpc_service(good).is_ok(), "{good}");
        }
        for bad in ["a b", "a..b", "1a", "a/b", "", "a.b."] {
            assert!(grpc_service(bad).is_err(), "{bad}");
        }
        assert!(grpc_method("Get_1").is_ok() && grpc_method("a.b").is_err());
    }

    #[test]
    fn texts_are_shown_on_one_line_and_cut() {
        assert_eq!(quoted("a\n'b'\""), r#""a\n'b'\"""#);
        assert_eq!(quoted(&"x".repeat(100)).chars().count(), 83);
    }
}
