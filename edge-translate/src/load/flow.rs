//! Quoted scalars and flow collections, which together are JSON.

use std::borrow::Cow;

use crate::load::block::{Reader, may_start_plain};
use crate::load::node::{Data, Entry, Node, repeated};
use crate::load::scalar::{key_text, resolve};

impl<'a> Reader<'a> {
    /// A collection in braces or brackets.
    pub(crate) fn flow(&mut self) -> Option<Node<'a>> {
        self.enter()?;
        let at = self.place();
        let map = self.peek() == b'{';
        self.pos += 1;
        let data = if map {
            Data::Map(self.flow_entries()?)
        } else {
            Data::Seq(self.flow_items()?)
        };
        self.leave();
        Some(Node { at, data })
    }

    /// Skips blanks, line breaks and comments; the end of the text ends the attempt.
    fn flow_space(&mut self) -> Option<u8> {
        loop {
            match *self.bytes.get(self.pos)? {
                b' ' | b'\n' | b'\t' => self.pos += 1,
                b'\r' if self.at(self.pos + 1) == b'\n' => self.pos += 1,
                b'#' if self.at(self.pos - 1).is_ascii_whitespace() => {
                    while *self.bytes.get(self.pos)? != b'\n' {
                        self.pos += 1;
                    }
                }
                other => return Some(other),
            }
        }
    }

    fn flow_items(&mut self) -> Option<Vec<Node<'a>>> {
        let mut items = Vec::new();
        while self.flow_space()? != b']' {
            items.push(self.flow_value()?);
            if self.flow_space()? == b',' {
                self.pos += 1;
            } else if self.peek() != b']' {
                return None;
            }
        }
        self.pos += 1;
        Some(items)
    }

    fn flow_entries(&mut self) -> Option<Vec<Entry<'a>>> {
        let mut entries = Vec::new();
        while self.flow_space()? != b'}' {
            let at = self.place();
            let quoted = matches!(self.peek(), b'"' | b'\'');
            let key = if quoted {
                self.quoted()?
            } else {
                key_text(Cow::Borrowed(self.flow_plain()?))
            };
            if self.flow_space()? != b':' || key == "<<" {
                return None;
            }
            self.pos += 1;
            // `{a:b}` has no key a; only a quoted key may touch its value.
            if !quoted && !self.peek().is_ascii_whitespace() {
                return None;
            }
            let value = match self.flow_space()? {
                b',' | b'}' => return None,
                _ => self.flow_value()?,
            };
            entries.push(Entry { at, key, value });
            if self.flow_space()? == b',' {
                self.pos += 1;
            } else if self.peek() != b'}' {
                return None;
            }
        }
        self.pos += 1;
        repeated(&entries).is_none().then_some(entries)
    }

    fn flow_value(&mut self) -> Option<Node<'a>> {
        self.count()?;
        let at = self.place();
        let data = match self.peek() {
            b'{' | b'[' => return self.flow(),
            b'"' | b'\'' => Data::Text(self.quoted()?),
            _ => resolve(Cow::Borrowed(self.flow_plain()?)),
        };
        Some(Node { at, data })
    }

    /// A plain scalar in a flow collection, on one line.
    fn flow_plain(&mut self) -> Option<&'a str> {
        let start = self.pos;
        let first = self.peek();
        if !may_start_plain(first) || (first == b'-' && !self.at(self.pos + 1).is_ascii_alphanumeric()) {
            return None;
        }
        loop {
            match self.peek() {
                b',' | b'}' | b']' | b'\n' | b'\r' => break,
                b'{' | b'[' | 0..=31 | 127 => return None,
                b'#' if self.at(self.pos - 1) == b' ' => break,
                b':' if matches!(self.at(self.pos + 1), b' ' | b'\n' | b'\r' | b',' | b'}' | b']' | b'\t') => break,
                _ => self.pos += 1,
            }
        }
        Some(self.text[start..self.pos].trim_end_matches(' '))
    }

    /// A quoted scalar on one line.
    pub(crate) fn quoted(&mut self) -> Option<Cow<'a, str>> {
        let quote = self.peek();
        let start = self.pos + 1;
        let mut end = start;
        let mut escaped = false;
        loop {
            match *self.bytes.get(end)? {
                b'\n' | b'\r' => return None,
                b'\\' if quote == b'"' => {
                    escaped = true;
                    end += 2;
                }
                b'\'' if quote == b'\'' && self.at(end + 1) == b'\'' => {
                    escaped = true;
                    end += 2;
                }
                other if other == quote => break,
                // DEL is in order between quotes (YAML 1.2 §5.1, `nb-json`; RFC 8259 §7), although the general reader
                // refuses it.
                0..=8 | 11..=31 => return None,
                _ => end += 1,
            }
        }
        self.pos = end + 1;
        let body = self.text.get(start..end)?;
        match (escaped, quote) {
            (false, _) => Some(Cow::Borrowed(body)),
            (true, b'\'') => Some(Cow::Owned(body.replace("''", "'"))),
            (true, _) => unescape(body).map(Cow::Owned),
        }
    }
}

/// Resolves the escapes of a double-quoted scalar, JSON's surrogate pairs included.
fn unescape(body: &str) -> Option<String> {
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let mut chars = rest[at + 1..].chars();
        let escape = chars.next()?;
        rest = chars.as_str();
        let digits = match escape {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        if digits == 0 {
            out.push(simple_escape(escape)?);
            continue;
        }
        let (code, after) = hex(rest, digits)?;
        rest = after;
        match char::from_u32(code) {
            Some(c) => out.push(c),
            None => {
                let (low, after) = hex(rest.strip_prefix("\\u")?, 4)?;
                if !(0xD800..0xDC00).contains(&code) || !(0xDC00..0xE000).contains(&low) {
                    return None;
                }
                out.push(char::from_u32(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00))?);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Some(out)
}

fn hex(text: &str, digits: usize) -> Option<(u32, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    let valid = number.bytes().all(|b| b.is_ascii_hexdigit());
    valid.then(|| u32::from_str_radix(number, 16).ok().map(|code| (code, rest)))?
}

fn simple_escape(escape: char) -> Option<char> {
    Some(match escape {
        '0' => '\0',
        'a' => '\u{7}',
        'b' => '\u{8}',
        't' | '\t' => '\t',
        'n' => '\n',
        'v' => '\u{b}',
        'f' => '\u{c}',
        'r' => '\r',
        'e' => '\u{1b}',
        ' ' => ' ',
        '"' => '"',
        '/' => '/',
        '\\' => '\\',
        'N' => '\u{85}',
        '_' => '\u{a0}',
        'L' => '\u{2028}',
        'P' => '\u{2029}',
        _ => return None,
    })
}
