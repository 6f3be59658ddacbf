//! How large the program of a regular expression becomes that stands in an expression: a proxy takes a hundred
//! instructions there.
//!
//! What is counted here is what RE2 makes of an expression or somewhat more. Measured with Envoy 1.40: 96 letters, 96
//! classes of ASCII, 12 dots, 32 groups.

use crate::phase::routes::check_expression;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Most instructions, without those that each program begins and ends with.
const MOST: usize = 96;
/// A byte that begins a character beyond ASCII, and those behind it, whichever they are.
const BEYOND_ASCII: usize = 7;

/// Whether a proxy takes it.
pub(super) fn check(pattern: &str) -> Result<(), String> {
    let tree = check_expression(pattern)
        .and_then(|()| regex_syntax::parse(pattern).map_err(|error| error.to_string()))
        .map_err(|why| format!("regular expression {pattern:?} is invalid: {why}"))?;
    match size(&tree) <= MOST {
        true => Ok(()),
        false => Err(format!(
            "regular expression {pattern:?} is larger than proxies take in CEL"
        )),
    }
}

fn size(tree: &Hir) -> usize {
    match tree.kind() {
        HirKind::Empty => 1,
        HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(class) => of_class(class),
        HirKind::Repetition(repetition) => {
            let one = size(&repetition.sub);
            let least = repetition.min as usize;
            let times = match repetition.max {
                None => least.max(1),
                Some(most) => most as usize,
            };
            let choices = times - least.min(times) + 1;
            one.saturating_mul(times).saturating_add(choices)
        }
        HirKind::Capture(capture) => size(&capture.sub).saturating_add(2),
        HirKind::Concat(parts) => parts.iter().map(size).fold(0, usize::saturating_add),
        HirKind::Alternation(parts) => parts
            .iter()
            .map(|part| size(part).saturating_add(1))
            .fold(0, usize::saturating_add),
    }
}

fn of_class(class: &Class) -> usize {
    match class {
        Class::Bytes(bytes) => bytes.ranges().len(),
        Class::Unicode(characters) => {
            let ranges = characters.ranges();
            let in_ascii = ranges.iter().filter(|range| range.start().is_ascii()).count();
            let beyond = ranges.iter().any(|range| !range.end().is_ascii());
            let is_whole = ranges
                .last()
                .is_some_and(|last| last.end() == char::MAX && last.start() <= '\u{80}');
            match (beyond, is_whole) {
                (false, _) => in_ascii,
                (true, true) => in_ascii + BEYOND_ASCII,
                // Some characters beyond ASCII take any number.
                (true, false) => MOST + 1,
            }
        }
    }
}
