//! Cuts a text into documents without parsing it.
//!
//! YAML forbids a line that starts with `---` or `...` inside any scalar, quoted or block (1.2.2, rule `c-forbidden`),
//! so such a line is always a marker: a cut there is exact, and a document that can't be parsed costs no other.

use std::ops::Range;

/// The byte order mark.
const BOM: char = '\u{feff}';

/// A document's part of a text, which can be loaded by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Bytes of the text, without the marker that ends the document.
    pub range: Range<usize>,
    /// Line (from 1) on which the range starts.
    pub line: usize,
}

/// Cuts a text at its document markers; parts that hold nothing but comments and blanks are left out.
pub fn split(text: &str) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut open = Chunk { range: 0..0, line: 1 };
    let mut content = Content::Nothing;
    let (mut at, mut line) = (0, 1);
    while at < text.len() {
        let end = memchr::memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |n| at + n + 1);
        let has_bom = text[at..].starts_with(BOM) && matches!(content, Content::Nothing | Content::Opened);
        if has_bom {
            // Any document may begin with one (1.2.2 §5.2): such files were put one behind the other.
            at += BOM.len_utf8();
            open = Chunk { range: at..0, line };
        }
        let bytes = &text.as_bytes()[at..end];
        let marker = Marker::of(bytes);
        // A directive belongs to the document whose marker follows.
        let cuts = marker == Marker::End || (marker == Marker::Start && content != Content::Directive);
        if cuts {
            open.range.end = at;
            if content == Content::Document {
                chunks.push(open.clone());
            }
            let (start, start_line) = if marker == Marker::End {
                (end, line + 1)
            } else {
                (at, line)
            };
            open = Chunk {
                range: start..0,
                line: start_line,
            };
            content = if marker == Marker::Start {
                Content::Opened
            } else {
                Content::Nothing
            };
        }
        if marker == Marker::Start && has_content(&bytes[3..]) {
            content = Content::Document;
        }
        if marker == Marker::None {
            content = content.with(bytes);
        }
        (at, line) = (end, line + 1);
    }
    open.range.end = text.len();
    if matches!(content, Content::Document | Content::Directive) {
        chunks.push(open);
    }
    chunks
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Marker {
    None,
    Start,
    End,
}

impl Marker {
    fn of(line: &[u8]) -> Self {
        let (marker, rest) = match line {
            [b'-', b'-', b'-', rest @ ..] => (Self::Start, rest),
            [b'.', b'.', b'.', rest @ ..] => (Self::End, rest),
            _ => return Self::None,
        };
        match rest.first().is_none_or(u8::is_ascii_whitespace) {
            true => marker,
            false => Self::None,
        }
    }
}

/// What a part holds so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Nothing,
    /// Nothing but its marker, after which `%` begins no directive.
    Opened,
    Directive,
    Document,
}

impl Content {
    fn with(self, line: &[u8]) -> Self {
        match self {
            Self::Document => self,
            _ if !has_content(line) => self,
            Self::Nothing | Self::Directive if line.starts_with(b"%") => Self::Directive,
            _ => Self::Document,
        }
    }
}

fn has_content(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    // A carriage return ends a comment; there is no other inside a line.
    line.first().is_some_and(|b| *b != b'#' || line.contains(&b'\r'))
}
