//! A reader for the YAML that people write: block mappings and sequences, plain and quoted scalars on one line, `|`
//! texts, comments, and the flow forms of `flow`.
//!
//! It exists for speed: a general YAML parser needs ten times as long, and start-up time of a large fleet is mostly
//! this. It never guesses: whatever it doesn't know (anchors, tags, folded or continued scalars, tabs, errors of every
//! kind) makes it give up, and `general` reads the document again and finds the words for what is wrong. A property
//! test holds the two to the same result.

use std::borrow::Cow;

use crate::load::Limits;
use crate::load::node::{Data, Entry, Node, repeated};
use crate::load::scalar::{key_text, resolve};

/// A reading position in one document.
pub(crate) struct Reader<'a> {
    pub(crate) text: &'a str,
    pub(crate) bytes: &'a [u8],
    /// Next byte.
    pub(crate) pos: usize,
    /// Column of the first token of the current line, or of the token after `- `; -1 at the end.
    indent: isize,
    depth: usize,
    nodes: usize,
}

/// Every value of a document in the known subset; JSON texts may hold several, one after the other.
pub(crate) fn read<'a>(text: &'a str, start: usize, limits: &Limits) -> Option<Vec<Node<'a>>> {
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        pos: start,
        indent: 0,
        depth: limits.depth,
        nodes: limits.nodes,
    };
    if reader.bytes[start..].starts_with(b"---") {
        reader.pos += 3;
        reader.skip_spaces();
        reader.next_line_from_here()?;
    } else if !reader.first_token()? {
        reader.next_line_from_here()?;
    }
    let mut roots = Vec::new();
    while reader.indent >= 0 {
        let flow = matches!(reader.peek(), b'{' | b'[');
        roots.push(reader.node(-1)?);
        if !flow && (reader.indent >= 0 || roots.len() > 1) {
            return None;
        }
    }
    Some(roots)
}

impl<'a> Reader<'a> {
    pub(crate) fn peek(&self) -> u8 {
        self.at(self.pos)
    }

    /// The byte at a position; the end of the text reads as a line end.
    pub(crate) fn at(&self, pos: usize) -> u8 {
        self.bytes.get(pos).copied().unwrap_or(b'\n')
    }

    pub(crate) fn place(&self) -> u32 {
        u32::try_from(self.pos).unwrap_or(u32::MAX)
    }

    pub(crate) fn skip_spaces(&mut self) {
        self.skip(|byte| byte == b' ');
    }

    fn skip(&mut self, is_skipped: impl Fn(u8) -> bool) {
        let rest = self.bytes.get(self.pos..).unwrap_or_default();
        self.pos += rest.iter().position(|byte| !is_skipped(*byte)).unwrap_or(rest.len());
    }

    /// At a line break, or at a comment, which the caller knows to be preceded by a blank.
    fn at_line_end(&self) -> bool {
        match self.peek() {
            b'\n' => true,
            b'\r' => self.at(self.pos + 1) == b'\n',
            b'#' => self.pos == 0 || matches!(self.at(self.pos - 1), b' ' | b'\n'),
            _ => false,
        }
    }

    /// Moves from the end of a value to the first token of the next line that has one.
    fn next_line_from_here(&mut self) -> Option<()> {
        self.skip_spaces();
        while self.pos < self.bytes.len() {
            if !self.at_line_end() {
                return None;
            }
            self.pos = self.line_end(self.pos) + 1;
            if self.first_token()? {
                return Some(());
            }
        }
        self.indent = -1;
        Some(())
    }

    /// Finds the first token of a line, if it has one.
    fn first_token(&mut self) -> Option<bool> {
        let start = self.pos;
        self.skip_spaces();
        if self.pos >= self.bytes.len() || self.at_line_end() {
            return Some(false);
        }
        self.indent = isize::try_from(self.pos - start).ok()?;
        (self.peek() != b'\t').then_some(true)
    }

    fn line_end(&self, from: usize) -> usize {
        // Where a value ends, its line nearly always does.
        if self.at(from) == b'\n' {
            return from;
        }
        memchr::memchr(b'\n', &self.bytes[from..]).map_or(self.bytes.len(), |n| from + n)
    }

    /// Counts a value and a level against the limits; beyond them the general reader says so.
    pub(crate) fn enter(&mut self) -> Option<()> {
        self.nodes = self.nodes.checked_sub(1)?;
        self.depth = self.depth.checked_sub(1)?;
        Some(())
    }

    pub(crate) fn leave(&mut self) {
        self.depth += 1;
    }

    pub(crate) fn count(&mut self) -> Option<()> {
        self.nodes = self.nodes.checked_sub(1)?;
        Some(())
    }

    /// A value that begins at the current token and belongs to a parent at `parent` columns.
    fn node(&mut self, parent: isize) -> Option<Node<'a>> {
        let at = self.place();
        if self.at_dash() {
            return self.sequence(at);
        }
        match self.key() {
            Some(key) => self.mapping(at, key),
            None => self.inline(parent),
        }
    }

    fn at_dash(&self) -> bool {
        self.peek() == b'-' && matches!(self.at(self.pos + 1), b' ' | b'\n' | b'\r')
    }

    fn sequence(&mut self, at: u32) -> Option<Node<'a>> {
        self.enter()?;
        let indent = self.indent;
        let mut items = Vec::new();
        while self.indent == indent && self.at_dash() {
            let item = self.place();
            self.pos += 1;
            let before = self.pos;
            self.skip_spaces();
            if self.at_line_end() {
                self.next_line_from_here()?;
                items.push(if self.indent > indent {
                    self.node(indent)?
                } else {
                    self.null(item)
                });
            } else {
                self.indent = indent + 1 + isize::try_from(self.pos - before).ok()?;
                items.push(self.node(indent)?);
            }
        }
        self.leave();
        (self.indent <= indent).then_some(Node {
            at,
            data: Data::Seq(items),
        })
    }

    fn null(&self, at: u32) -> Node<'a> {
        Node { at, data: Data::Null }
    }

    fn mapping(&mut self, at: u32, first: Cow<'a, str>) -> Option<Node<'a>> {
        self.enter()?;
        let indent = self.indent;
        let mut entries: Vec<Entry<'a>> = Vec::new();
        let (mut key, mut key_at) = (first, at);
        loop {
            let value = self.mapping_value(indent)?;
            entries.push(Entry { at: key_at, key, value });
            if self.indent != indent {
                break;
            }
            key_at = self.place();
            key = self.key()?;
        }
        self.leave();
        let valid = self.indent < indent && repeated(&entries).is_none();
        valid.then_some(Node {
            at,
            data: Data::Map(entries),
        })
    }

    /// The value after `key:`.
    fn mapping_value(&mut self, indent: isize) -> Option<Node<'a>> {
        let after_colon = self.place();
        self.skip_spaces();
        if !self.at_line_end() {
            return self.inline(indent);
        }
        self.next_line_from_here()?;
        if self.indent > indent {
            self.node(indent)
        } else if self.indent == indent && self.at_dash() {
            let at = self.place();
            self.sequence(at)
        } else {
            Some(self.null(after_colon))
        }
    }

    /// A key with its colon; without one nothing is consumed.
    fn key(&mut self) -> Option<Cow<'a, str>> {
        let start = self.pos;
        let key = match self.peek() {
            b'"' | b'\'' => self.quoted(),
            _ => self.plain_key(),
        };
        if key.is_some() && self.peek() == b':' && matches!(self.at(self.pos + 1), b' ' | b'\n' | b'\r') {
            self.pos += 1;
            return key;
        }
        self.pos = start;
        None
    }

    fn plain_key(&mut self) -> Option<Cow<'a, str>> {
        let start = self.pos;
        if !may_start_plain(self.peek()) || self.at_dash() {
            return None;
        }
        loop {
            self.skip(is_ordinary);
            match self.peek() {
                0..=31 | 127 => return None,
                b'#' if self.at(self.pos - 1) == b' ' => return None,
                b':' if matches!(self.at(self.pos + 1), b' ' | b'\n' | b'\r') => break,
                _ => self.pos += 1,
            }
        }
        let key = self.text[start..self.pos].trim_end_matches(' ');
        // The merge key belongs to the general reader.
        (key != "<<").then(|| key_text(Cow::Borrowed(key)))
    }

    /// A scalar or flow collection on the rest of the line, or a `|` text.
    fn inline(&mut self, parent: isize) -> Option<Node<'a>> {
        self.count()?;
        let at = self.place();
        let data = match self.peek() {
            b'"' | b'\'' => Data::Text(self.quoted()?),
            b'{' | b'[' => self.flow()?.data,
            b'|' => {
                return Some(Node {
                    at,
                    data: Data::Text(Cow::Owned(self.literal(parent)?)),
                });
            }
            first if may_start_plain(first) && !self.at_dash() => resolve(Cow::Borrowed(self.plain_line()?)),
            _ => return None,
        };
        self.next_line_from_here()?;
        // Deeper text continues the scalar, which only the general reader folds.
        (self.indent <= parent || (parent == -1 && matches!(data, Data::Map(_) | Data::Seq(_))))
            .then_some(Node { at, data })
    }

    fn plain_line(&mut self) -> Option<&'a str> {
        let start = self.pos;
        loop {
            self.skip(is_ordinary);
            match self.peek() {
                b'\n' => break,
                b'\r' if self.at(self.pos + 1) == b'\n' => break,
                0..=31 | 127 => return None,
                b':' if matches!(self.at(self.pos + 1), b' ' | b'\n' | b'\r' | b'\t') => return None,
                b'#' if self.at(self.pos - 1) == b' ' => break,
                _ => self.pos += 1,
            }
        }
        Some(self.text[start..self.pos].trim_end_matches(' '))
    }

    /// A `|` text with optional chomping sign; indentation signs go to the general reader.
    fn literal(&mut self, parent: isize) -> Option<String> {
        self.pos += 1;
        let chomp = self.peek();
        if matches!(chomp, b'-' | b'+') {
            self.pos += 1;
        }
        self.skip_spaces();
        if !self.at_line_end() {
            return None;
        }
        self.pos = self.line_end(self.pos) + 1;
        let mut text = String::new();
        let mut width = None;
        while self.pos < self.bytes.len() {
            let start = self.pos;
            let end = self.line_end(start);
            // Without a last line break the readers of this world disagree about the last line.
            if end == self.bytes.len() {
                return None;
            }
            let line = self.text[start..end]
                .strip_suffix('\r')
                .unwrap_or(&self.text[start..end]);
            let spaces = line.bytes().take_while(|b| *b == b' ').count();
            let blank = spaces == line.len();
            let limit = match width {
                None if blank => spaces.checked_sub(1).map_or(0, |_| usize::MAX),
                None => *width.insert(spaces),
                Some(width) => width,
            };
            // A blank first line with spaces, a tab or an odd indentation: rare, and the general reader's.
            if limit == usize::MAX || line[spaces..].starts_with('\t') {
                return None;
            }
            if !blank && (spaces < limit || isize::try_from(limit).ok()? <= parent) {
                if isize::try_from(spaces).ok()? > parent {
                    return None;
                }
                break;
            }
            text.push_str(line.get(limit..).unwrap_or(""));
            text.push('\n');
            self.pos = end + 1;
        }
        self.pos -= 1;
        self.next_line_from_here()?;
        if chomp != b'+' {
            let kept = text.trim_end_matches('\n').len();
            text.truncate(if chomp == b'-' || kept == 0 { kept } else { kept + 1 });
        }
        Some(text)
    }
}

/// Bytes that mean nothing but themselves wherever they stand in a plain scalar, and that is nearly all of them.
fn is_ordinary(byte: u8) -> bool {
    const ORDINARY: [bool; 256] = {
        let mut ordinary = [true; 256];
        let mut control = 0;
        while control < 32 {
            ordinary[control] = false;
            control += 1;
        }
        ordinary[127] = false;
        ordinary[b'#' as usize] = false;
        ordinary[b':' as usize] = false;
        ordinary
    };
    ORDINARY[usize::from(byte)]
}

/// True for a first byte that makes a plain scalar whatever follows; `-`, `?` and `:` count only when glued to it.
pub(crate) fn may_start_plain(first: u8) -> bool {
    !matches!(
        first,
        b'!' | b'&'
            | b'*'
            | b'|'
            | b'>'
            | b'%'
            | b'@'
            | b'`'
            | b'"'
            | b'\''
            | b'{'
            | b'}'
            | b'['
            | b']'
            | b','
            | b'#'
            | b'?'
            | b':'
            | b'\n'
            | b'\r'
            | b'\t'
            | b' '
            | 0..=8
    )
}

#[cfg(test)]
mod tests;
