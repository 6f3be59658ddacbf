//! Which tests a document names as evidence: each must be there, so that a promise goes with the test that shows it.

use super::files;
use anyhow::Result;
use std::{collections::BTreeSet, fs, path::Path};

/// The document whose tables end with a column of tests.
const DOCUMENT: &str = "docs/reliability.md";

/// Says which tests are named and not there, and which lines of a table name none.
pub(super) fn check(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    let Ok(text) = fs::read_to_string(root.join(DOCUMENT)) else {
        return Ok(());
    };
    let mut tests = BTreeSet::new();
    for path in files(root)?
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
    {
        tests.extend(functions(&fs::read_to_string(path)?).map(str::to_owned));
    }
    check_tables(&text, &tests, findings);
    Ok(())
}

fn check_tables(text: &str, tests: &BTreeSet<String>, findings: &mut Vec<String>) {
    let mut is_evidence = false;
    for (i, line) in text.lines().enumerate() {
        let Some(last) = line
            .trim_matches('|')
            .rsplit('|')
            .next()
            .filter(|_| line.starts_with('|'))
        else {
            is_evidence = false;
            continue;
        };
        if last.trim() == "shown by" {
            is_evidence = true;
        } else if is_evidence && !last.starts_with("--") {
            let mut named = last.split('`').skip(1).step_by(2).peekable();
            if named.peek().is_none() {
                findings.push(format!("{DOCUMENT}:{}: a line without a test", i + 1));
            }
            for test in named.filter(|test| !tests.contains(*test)) {
                findings.push(format!("{DOCUMENT}:{}: there is no test {test}", i + 1));
            }
        }
    }
}

/// Names of the functions in a source.
fn functions(source: &str) -> impl Iterator<Item = &str> {
    let after = source.split("fn ").skip(1);
    after.filter_map(|rest| rest.split_once('(')).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_gone_and_a_line_without_one_are_found() {
        let tests = functions("fn one() {}\nasync fn two(x: u8) {}")
            .map(str::to_owned)
            .collect();
        let document = "| fault | shown by |\n|---|---|\n| a | `one`, `two` (both) |\n| b | `three` |\n| c | |\n\n\
                        | else | x |\n|---|---|\n| d | |\n";
        let mut findings = Vec::new();
        check_tables(document, &tests, &mut findings);
        let expected = [
            format!("{DOCUMENT}:4: there is no test three"),
            format!("{DOCUMENT}:5: a line without a test"),
        ];
        assert_eq!(findings, expected);
    }
}
