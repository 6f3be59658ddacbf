//! Text from outside on one line of a report.

use std::fmt::{self, Display, Formatter, Write};

/// What it shows, with control characters as escapes (`\n`, `\u{1b}`): names and keys in a file may hold any, and who
/// reads a report by lines, such as a CI service that takes orders at their beginnings, must not take theirs for ours.
#[derive(Clone, Copy, Debug)]
pub struct OneLine<T>(pub T);

impl<T: Display> Display for OneLine<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'f>(&'a mut Formatter<'f>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.split_inclusive(char::is_control) {
            match piece.chars().next_back().filter(|last| last.is_control()) {
                Some(last) => {
                    self.0.write_str(&piece[..piece.len() - last.len_utf8()])?;
                    write!(self.0, "{}", last.escape_default())?;
                }
                None => self.0.write_str(piece)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_makes_a_line_of_its_own() {
        assert_eq!(
            OneLine("a\n::error::b\u{1b}[31m").to_string(),
            r"a\n::error::b\u{1b}[31m"
        );
        assert_eq!(OneLine("größer als „x“").to_string(), "größer als „x“");
        assert_eq!(OneLine(7).to_string(), "7");
    }
}
