//! Texts with command operators (`%REQ(x-a?x-b):10%`), cut into what they say and what they ask for.
//!
//! Who knows which operators there are is up to whoever asked: values of headers and formats of logs know different
//! ones.

use crate::compile::field::{At, Rejection};

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// To be said as it is; `%%` has become `%`.
    Text(Box<str>),
    /// To be asked for.
    Command(Command<'a>),
}

/// A command operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Command<'a> {
    /// All that stands between the signs.
    pub(super) text: &'a str,
    /// Its name.
    pub(super) name: &'a str,
    /// What stands in its parentheses.
    pub(super) argument: Option<&'a str>,
    /// What stands behind them.
    pub(super) tail: &'a str,
}

/// What an operator about fields asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldNames<'a> {
    /// This field.
    pub(super) first: &'a str,
    /// That one where the first is absent.
    pub(super) second: Option<&'a str>,
    /// No more of it than so many characters.
    pub(super) max_len: Option<usize>,
}

/// Cuts a text.
pub(super) fn pieces<'a>(at: &At<'_>, text: &'a str) -> Result<Vec<Piece<'a>>, Rejection> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        plain.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            plain.push('%');
            rest = after;
            continue;
        }
        let end = end(after).ok_or_else(|| at.error("a command operator has no closing '%'"))?;
        if !plain.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut plain).into()));
        }
        pieces.push(Piece::Command(Command::of(&after[..end])));
        rest = &after[end + 1..];
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain.into()));
    }
    Ok(pieces)
}

/// The place of the closing `%`, which may not stand inside parentheses.
fn end(text: &str) -> Option<usize> {
    match text.find(['(', '%']) {
        Some(at) if text.as_bytes()[at] == b'(' => {
            let close = at + text[at..].find(')')?;
            Some(close + text[close..].find('%')?)
        }
        end => end,
    }
}

impl<'a> Command<'a> {
    fn of(text: &'a str) -> Self {
        let (name, argument, tail) = match text.split_once('(') {
            Some((name, rest)) => {
                let (argument, tail) = rest.split_once(')').unwrap_or((rest, ""));
                (name, Some(argument), tail)
            }
            None => (text, None, ""),
        };
        Self {
            text,
            name,
            argument,
            tail,
        }
    }

    /// Reads an argument and what stands behind it as the names of fields: `first?second`, `:length`.
    pub(super) fn field_names(&self, at: &At<'_>, argument: &'a str) -> Result<FieldNames<'a>, Rejection> {
        let (first, second) = match argument.split_once('?') {
            Some((first, second)) => (first, Some(second)),
            None => (argument, None),
        };
        let tail = self.tail;
        let max_len = match tail.strip_prefix(':') {
            Some(len) => Some(len.parse().map_err(|_| at.error(format!("{len:?} is not a length")))?),
            None if tail.is_empty() => None,
            None => return Err(at.error(format!("{tail:?} does not belong behind a field's name"))),
        };
        Ok(FieldNames { first, second, max_len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_its_operators() {
        let at = At::root();
        let command = Command {
            text: "REQ(a?b%):3",
            name: "REQ",
            argument: Some("a?b%"),
            tail: ":3",
        };
        let names = FieldNames {
            first: "a",
            second: Some("b%"),
            max_len: Some(3),
        };
        assert_eq!(command.field_names(&at, "a?b%"), Ok(names));
        let plain = Command {
            text: "PROTOCOL",
            name: "PROTOCOL",
            argument: None,
            tail: "",
        };
        assert_eq!(
            pieces(&at, "100%% %REQ(a?b%):3%-%PROTOCOL%").unwrap(),
            [
                Piece::Text("100% ".into()),
                Piece::Command(command),
                Piece::Text("-".into()),
                Piece::Command(plain)
            ]
        );
        assert_eq!(pieces(&at, "").unwrap(), []);
        assert!(pieces(&at, "50% off").is_err() && pieces(&at, "%REQ(a%").is_err());
    }
}
