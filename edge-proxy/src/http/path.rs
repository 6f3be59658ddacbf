//! Paths of requests before routing: dot segments, repeated slashes, escaped slashes.
//!
//! Envoy's `normalize_path`, `merge_slashes` and `path_with_escaped_slashes_action`. A path that needs no change
//! is found out by one scan and costs nothing more.
//! Why before routing: a rule for `/admin` must see `/x/%2e%2e/admin` as what the backend will make of it (RFC 3986
//! §6.2.2 and §5.2.4).
//! The laws, which hold for every path: normalising twice is normalising once; and whoever decodes the result once more
//! finds no dot segment in it, nor a slash that was not there where escaped slashes are not kept. So an escape that
//! would only come about by decoding (`%%32%65`) is broken by writing its `%` as `%25`, and parameters on dot segments
//! (`..;x=y`, RFC 3986 §3.3), which some servers take off before they resolve, don't hide them.

use std::borrow::Cow;

use crate::config::http_manager::{EscapedSlashes, PathNormalization};

/// What becomes of a path.
#[derive(Debug, PartialEq, Eq)]
pub enum Normalized {
    /// It stays as it is.
    Same,
    /// Go on with this path and query.
    Changed(String),
    /// Answer 307 with this path and query.
    Redirect(String),
    /// Answer 400.
    Reject,
}

/// Normalises the path of a request; the query is never touched.
pub fn normalize(path_and_query: &str, settings: PathNormalization) -> Normalized {
    if !needs_look(path_and_query) {
        return Normalized::Same;
    }
    let (path, query) = match path_and_query.find('?') {
        Some(at) => path_and_query.split_at(at),
        None => (path_and_query, ""),
    };
    let mut current = Cow::Borrowed(path);
    let mut redirect = false;
    if settings.escaped_slashes != EscapedSlashes::Keep && has_escaped_slash(&current) {
        if settings.escaped_slashes == EscapedSlashes::Reject {
            return Normalized::Reject;
        }
        redirect = settings.escaped_slashes == EscapedSlashes::UnescapeAndRedirect;
        current = Cow::Owned(unescape_slashes(&current));
    }
    if settings.normalize {
        match canonical(&current) {
            Some(canonical) => current = Cow::Owned(canonical),
            None => return Normalized::Reject,
        }
    }
    if settings.merge_slashes && current.contains("//") {
        current = Cow::Owned(merge_slashes(&current));
    }
    if redirect {
        return Normalized::Redirect(format!("{current}{query}"));
    }
    if current == path {
        Normalized::Same
    } else {
        Normalized::Changed(format!("{current}{query}"))
    }
}

/// False for the usual path: no `//`, no segment that starts with a dot, no escape, nothing that should be escaped.
fn needs_look(path_and_query: &str) -> bool {
    let mut slash = false;
    for byte in path_and_query.bytes() {
        match byte {
            b'?' => return false,
            b'%' | b'\\' => return true,
            b'/' | b'.' if slash => return true,
            byte if must_be_escaped(byte) => return true,
            _ => slash = byte == b'/',
        }
    }
    false
}

/// What a path can't hold as it is (RFC 3986 §3.3), apart from brackets, which the URL standard leaves.
fn must_be_escaped(byte: u8) -> bool {
    matches!(byte, 0..=b' ' | b'"' | b'#' | b'<' | b'>' | b'^' | b'`' | b'{'..=b'}' | 0x7f..)
}

fn escape_at(bytes: &[u8], at: usize) -> Option<u8> {
    let hex = |byte: u8| (byte as char).to_digit(16);
    let (high, low) = (hex(*bytes.get(at + 1)?)?, hex(*bytes.get(at + 2)?)?);
    u8::try_from(high * 16 + low).ok()
}

fn has_escaped_slash(path: &str) -> bool {
    let bytes = path.as_bytes();
    (0..bytes.len()).any(|at| bytes[at] == b'%' && matches!(escape_at(bytes, at), Some(b'/' | b'\\')))
}

fn unescape_slashes(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut out = String::with_capacity(path.len());
    let mut at = 0;
    for (start, _) in path.match_indices('%') {
        if let Some(slash @ (b'/' | b'\\')) = escape_at(bytes, start) {
            out.push_str(&path[at..start]);
            out.push(char::from(slash));
            at = start + 3;
        }
    }
    out.push_str(&path[at..]);
    out
}

/// Unreserved escapes decoded, backslashes turned, dot segments resolved. `None` for an escaped NUL.
fn canonical(path: &str) -> Option<String> {
    let bytes = path.as_bytes();
    let mut plain = Plain {
        text: String::with_capacity(path.len()),
        stray: None,
    };
    let mut at = 0;
    while at < bytes.len() {
        let escaped = if bytes[at] == b'%' { escape_at(bytes, at) } else { None };
        match (bytes[at], escaped) {
            (_, Some(0)) => return None,
            (_, Some(decoded)) => {
                if decoded.is_ascii_alphanumeric() || b"-._~".contains(&decoded) {
                    plain.push(decoded);
                } else {
                    plain.text.push_str(path.get(at..at + 3)?);
                }
                at += 2;
            }
            (b'%', None) => plain.push_stray(),
            (b'\\', None) => plain.push(b'/'),
            (byte, None) if must_be_escaped(byte) => plain.push_escaped(byte),
            (byte, None) => plain.push(byte),
        }
        at += 1;
    }
    Some(remove_dot_segments(&plain.text))
}

/// A path without needless escapes.
struct Plain {
    text: String,
    /// Where the last `%` stands that begins no escape.
    stray: Option<usize>,
}

impl Plain {
    fn push(&mut self, byte: u8) {
        self.text.push(char::from(byte));
        if let Some(stray) = self.stray
            && self.text.len() == stray + 3
        {
            // Decoding has made an escape of what was none: whoever decodes again must find the bytes that came.
            if escape_at(self.text.as_bytes(), stray).is_some() {
                self.text.insert_str(stray + 1, "25");
            }
            self.stray = None;
        }
    }

    fn push_stray(&mut self) {
        self.stray = Some(self.text.len());
        self.text.push('%');
    }

    fn push_escaped(&mut self, byte: u8) {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        for byte in [b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]] {
            self.text.push(char::from(byte));
        }
    }
}

/// RFC 3986 §5.2.4; a path never climbs above its root. Parameters of a dot segment go with it, as with servers that
/// know parameters.
fn remove_dot_segments(path: &str) -> String {
    let Some(rest) = path.strip_prefix('/') else {
        return path.to_owned();
    };
    let mut out: Vec<&str> = Vec::new();
    let mut segments = rest.split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment.split(';').next() {
            Some(".") => {}
            Some("..") => {
                out.pop();
            }
            _ => {
                out.push(segment);
                continue;
            }
        }
        if last {
            // "/a/." and "/a/b/.." name a folder: the slash stays.
            out.push("");
        }
    }
    let mut joined = String::with_capacity(path.len());
    for segment in &out {
        joined.push('/');
        joined.push_str(segment);
    }
    if joined.is_empty() {
        joined.push('/');
    }
    joined
}

fn merge_slashes(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut slash = false;
    for c in path.chars() {
        if !(slash && c == '/') {
            out.push(c);
        }
        slash = c == '/';
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: PathNormalization = PathNormalization {
        normalize: true,
        merge_slashes: true,
        escaped_slashes: EscapedSlashes::UnescapeAndRedirect,
    };

    fn changed(path: &str) -> String {
        match normalize(path, ALL) {
            Normalized::Changed(path) => path,
            Normalized::Same => path.to_owned(),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn paths_are_normalised_and_queries_are_not() {
        for (from, to) in [
            ("/", "/"),
            ("/a/b?x=/../y", "/a/b?x=/../y"),
            ("/a/../b", "/b"),
            ("/a/./b/", "/a/b/"),
            ("/../../a", "/a"),
            ("/a/..", "/"),
            ("/a/b/..", "/a/"),
            ("/a/%2e%2E/b", "/b"),
            ("/%61%62/%7e", "/ab/~"),
            ("/a\\b", "/a/b"),
            ("/a//b///c?d//e", "/a/b/c?d//e"),
            ("/a%20b", "/a%20b"),
            ("/a%zz", "/a%zz"),
            ("/.well-known/x", "/.well-known/x"),
            ("/a..b/..c", "/a..b/..c"),
            ("/a\"b^{c|d}", "/a%22b%5E%7Bc%7Cd%7D"),
            ("/a'b[c]", "/a'b[c]"),
            ("/é?é", "/%C3%A9?é"),
        ] {
            assert_eq!(changed(from), to, "{from}");
        }
    }

    /// Each is what stock Envoy makes of it, but for the last three, where Envoy's own result would change again.
    #[test]
    fn escapes_that_decoding_would_make_are_broken() {
        for (from, to) in [
            ("/public/%%32%65%%32%65/admin", "/public/%252e%252e/admin"),
            ("/p/%2%65/x", "/p/%252e/x"),
            ("/p/%%32%66x", "/p/%252fx"),
            ("/p/..%2%66x", "/p/..%252fx"),
            ("/p/%%35%63x", "/p/%255cx"),
            ("/p/..%5%63x", "/p/..%255cx"),
            ("/p/%%30%30", "/p/%2500"),
            ("/p/a%0%30", "/p/a%2500"),
            ("/p/%%326x", "/p/%2526x"),
            ("/p/%2%35x", "/p/%2525x"),
            ("/p/%e%32", "/p/%25e2"),
            ("/p/%%2e", "/p/%."),
            ("/p/%%%%32%65", "/p/%%%252e"),
            ("/p/%", "/p/%"),
            ("/p/%252e%252e/", "/p/%252e%252e/"),
            ("/public/%2e%2e;/admin", "/admin"),
            ("/a/.%2e;/b", "/b"),
            ("/public/..;\\admin", "/admin"),
        ] {
            assert_eq!(changed(from), to, "{from}");
        }
    }

    #[test]
    fn parameters_do_not_hide_dot_segments() {
        for (from, to) in [
            ("/public/..;/admin", "/admin"),
            ("/public/..;x=y/admin", "/admin"),
            ("/public/..;a;b/admin", "/admin"),
            ("/public/.;/../admin", "/admin"),
            ("/public/.;/admin", "/public/admin"),
            ("/public/..;x", "/"),
            ("/public/.;", "/public/"),
            ("/a/b/..;x?q=..;/", "/a/?q=..;/"),
            ("/a//..;/b", "/a/b"),
            ("/..;/x", "/x"),
            ("/public/a;/../admin", "/public/admin"),
            ("/public/a;x=..;/admin", "/public/a;x=..;/admin"),
            ("/public/...;/admin", "/public/...;/admin"),
            ("/public/;..;/admin", "/public/;..;/admin"),
            ("/public/..%3b/admin", "/public/..%3b/admin"),
        ] {
            assert_eq!(changed(from), to, "{from}");
        }
    }

    #[test]
    fn escaped_slashes_follow_their_setting() {
        let with = |escaped_slashes| PathNormalization { escaped_slashes, ..ALL };
        let path = "/a%2Fb%5cc?q=%2F";
        assert_eq!(normalize(path, ALL), Normalized::Redirect("/a/b/c?q=%2F".into()));
        assert_eq!(normalize(path, with(EscapedSlashes::Reject)), Normalized::Reject);
        assert_eq!(
            normalize(path, with(EscapedSlashes::UnescapeAndForward)),
            Normalized::Changed("/a/b/c?q=%2F".into())
        );
        assert_eq!(normalize(path, with(EscapedSlashes::Keep)), Normalized::Same);
    }

    #[test]
    fn an_escaped_nul_is_rejected() {
        assert_eq!(normalize("/a%00", ALL), Normalized::Reject);
    }

    #[test]
    fn nothing_changes_when_everything_is_off() {
        let off = PathNormalization {
            normalize: false,
            merge_slashes: false,
            escaped_slashes: EscapedSlashes::Keep,
        };
        assert_eq!(normalize("/a//../%2f", off), Normalized::Same);
    }
}
