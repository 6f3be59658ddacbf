//! Lines.

use crate::access_log::value::{self, Entry, Written, escape};
use crate::config::access_log::{Absent, Format, Json, Operator, Piece};

/// Writes a line.
pub(super) fn line(format: &Format, entry: &Entry<'_>, out: &mut Vec<u8>) {
    content(format, entry, out);
    if matches!(format, Format::Json(..)) {
        out.push(b'\n');
    }
}

/// Writes what a format says.
fn content(format: &Format, entry: &Entry<'_>, out: &mut Vec<u8>) {
    match format {
        Format::Text(pieces, absent) => text(pieces, *absent, entry, out),
        Format::Json(document, absent) => {
            if json(document, *absent, entry, out) == Written::Nothing {
                out.extend_from_slice(b"{}");
            }
        }
    }
}

pub(super) fn text(pieces: &[Piece], absent: Absent, entry: &Entry<'_>, out: &mut Vec<u8>) {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Value(operator) => {
                if value::write(operator, entry, out) == Written::Nothing && absent == Absent::Shown {
                    out.push(b'-');
                }
            }
        }
    }
}

/// Nothing is written of what has nothing to say, where that is to be left out.
fn json(document: &Json, absent: Absent, entry: &Entry<'_>, out: &mut Vec<u8>) -> Written {
    match document {
        Json::Literal(text) => out.extend_from_slice(text.as_bytes()),
        Json::Value(Operator::Metadata(path, None)) if path.find(&entry.record.metadata).is_some_and(is_typed) => {
            // What isn't a text keeps its type.
            let value = path.find(&entry.record.metadata);
            out.extend_from_slice(value.map(ToString::to_string).unwrap_or_default().as_bytes());
        }
        Json::Value(operator) => {
            let start = out.len();
            let quoted = !operator.is_number();
            if quoted {
                out.push(b'"');
            }
            if value::write(operator, entry, out) == Written::Nothing {
                out.truncate(start);
                if absent == Absent::Omitted {
                    return Written::Nothing;
                }
                out.extend_from_slice(b"null");
            } else if quoted {
                escape(out, start + 1);
                out.push(b'"');
            }
        }
        Json::Text(pieces) => {
            out.push(b'"');
            let start = out.len();
            text(pieces, absent, entry, out);
            escape(out, start);
            out.push(b'"');
        }
        Json::List(elements) => {
            out.push(b'[');
            let start = out.len();
            for element in elements {
                separated(out, start, |out| json(element, absent, entry, out));
            }
            out.push(b']');
        }
        Json::Object(members) => {
            let before = out.len();
            out.push(b'{');
            let start = out.len();
            for (key, member) in members {
                let before = out.len();
                // The first one needs no comma.
                out.extend_from_slice(&key.as_bytes()[usize::from(before == start)..]);
                if json(member, absent, entry, out) == Written::Nothing {
                    out.truncate(before);
                }
            }
            if out.len() == start && !members.is_empty() {
                out.truncate(before);
                return Written::Nothing;
            }
            out.push(b'}');
        }
    }
    Written::Something
}

fn is_typed(value: &serde_json::Value) -> bool {
    !value.is_string()
}

/// Writes an element behind others that began at `start`; nothing of one that has nothing to say.
fn separated(out: &mut Vec<u8>, start: usize, write: impl FnOnce(&mut Vec<u8>) -> Written) {
    let before = out.len();
    if before > start {
        out.push(b',');
    }
    if write(out) == Written::Nothing {
        out.truncate(before);
    }
}
