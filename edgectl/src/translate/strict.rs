//! `--strict`: everything that isn't as its author meant it, a line each.

use super::Outcome;
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// Writes what statuses say is wrong, and says how many problems there are, the findings that were told before included.
pub(super) fn report(outcome: &Outcome, out: &mut impl Write) -> io::Result<usize> {
    let places: BTreeMap<_, _> = outcome
        .objects
        .iter()
        .map(|loaded| (loaded.object.key(), (&loaded.file, loaded.line)))
        .collect();
    let mut count = outcome.findings.len();
    for (key, status) in &outcome.translation.statuses {
        for problem in status.iter().flat_map(|status| status.problems()) {
            if let Some((file, line)) = places.get(key) {
                write!(out, "{file}:{line}: ")?;
            }
            let part = problem.part.map(|part| format!("{part}: ")).unwrap_or_default();
            let message = problem.message.replace('\n', " ");
            writeln!(out, "{key}: {part}{}: {message}", problem.what)?;
            count += 1;
        }
    }
    Ok(count)
}
