//! Counting test results as cargo reports them.

use super::failures::Failures;
use anyhow::{Context, Result};
use std::{
    fmt,
    io::{self, BufRead, BufReader, Write},
    ops::{Add, AddAssign},
    process::{Command, Stdio},
};

/// How many tests passed and failed, and what the failing ones said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed, or were marked to be left out: a test that doesn't run proves nothing.
    pub(crate) failed: u64,
    /// What is known of each failure, a text of several lines.
    pub(crate) failures: Vec<String>,
}

impl Tally {
    /// One check that passed.
    pub(crate) fn success() -> Self {
        Self::counts(1, 0)
    }

    /// One failure, and what is known of it.
    pub(crate) fn failure(why: String) -> Self {
        Self {
            passed: 0,
            failed: 1,
            failures: vec![why],
        }
    }

    /// Reads how one is written.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (passed, failed) = text.strip_suffix(" failed")?.split_once(" passed, ")?;
        Some(Self::counts(passed.parse().ok()?, failed.parse().ok()?))
    }

    /// So many passed and failed.
    fn counts(passed: u64, failed: u64) -> Self {
        Self {
            passed,
            failed,
            failures: Vec::new(),
        }
    }
}

impl Add for Tally {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.failures.extend(other.failures);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Runs `cargo test …`, passing its output on, and counts.
pub(crate) fn run(command: Command) -> Result<Tally> {
    count(command, parse)
}

/// The same for `go test -v …`.
pub(crate) fn run_go(command: Command) -> Result<Tally> {
    count(command, parse_go)
}

/// The same for the official conformance suite, whose sum is its last line.
pub(crate) fn run_suite(command: Command) -> Result<Tally> {
    count(command, parse_suite)
}

fn count(mut command: Command, parse: impl Fn(&str) -> Option<Tally>) -> Result<Tally> {
    let name = command.get_program().display().to_string();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{name} can't be started"))?;
    let pipe = child.stdout.take().with_context(|| format!("{name} has no output"))?;
    let mut out = io::stdout();
    let mut total = Tally::default();
    let mut failures = Failures::default();
    for line in BufReader::new(pipe).lines() {
        let line = line?;
        writeln!(out, "{line}")?;
        failures.read(&line);
        total += parse(&line).unwrap_or_default();
    }
    // A crate that doesn't compile, or a test that takes the process down, reports no count.
    if !child.wait()?.success() && total.failed == 0 {
        total.failed = 1;
    }
    total.failures = failures.end(total.failed > 0);
    Ok(total)
}

/// Reads `--- PASS: TestName (0.01s)`. Parts of a test are indented and don't count.
fn parse_go(line: &str) -> Option<Tally> {
    let (outcome, _) = line.strip_prefix("--- ")?.split_once(':')?;
    let passed = u64::from(outcome == "PASS");
    Some(Tally::counts(passed, 1 - passed))
}

/// Reads `58 passed, 0 failed, 112 skipped`. The suite skips what needs a feature that the run doesn't claim.
fn parse_suite(line: &str) -> Option<Tally> {
    let (passed, rest) = line.split_once(" passed, ")?;
    let (failed, skipped) = rest.split_once(" failed, ")?;
    skipped.strip_suffix(" skipped")?;
    Some(Tally::counts(passed.parse().ok()?, failed.parse().ok()?))
}

/// Reads `test result: ok. 3 passed; 1 failed; 0 ignored; …`.
fn parse(line: &str) -> Option<Tally> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let count = |word: &str| {
        let part = counts.split("; ").find(|part| part.ends_with(word))?;
        part.split(' ').next()?.parse::<u64>().ok()
    };
    Some(Tally::counts(
        count("passed")?,
        count("failed")? + count("ignored").unwrap_or(0),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_line_is_counted_and_others_are_not() {
        let line = "test result: FAILED. 12 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(parse(line), Some(Tally::counts(12, 3)));
        assert_eq!(parse("test a::b ... ok"), None);
    }

    #[test]
    fn a_result_of_go_is_counted_and_its_parts_are_not() {
        assert_eq!(parse_go("--- PASS: TestA (0.00s)"), Some(Tally::counts(1, 0)));
        assert_eq!(parse_go("--- SKIP: TestA (0.00s)"), Some(Tally::counts(0, 1)));
        assert_eq!(parse_go("    --- PASS: TestA/part (0.00s)"), None);
        assert_eq!(parse_go("ok  \tkubelab\t0.1s"), None);
    }

    #[test]
    fn the_sum_of_the_suite_is_counted_without_what_it_skips() {
        let expected = Tally::counts(58, 1);
        assert_eq!(parse_suite("58 passed, 1 failed, 111 skipped"), Some(expected));
        assert_eq!(parse_suite("58 passed, 1 failed"), None);
        assert_eq!(parse_suite("=== RUN   TestConformance"), None);
    }

    #[test]
    fn tallies_add_up_to_the_last_line() {
        let sum = Tally::counts(1, 0) + Tally::counts(2, 1);
        assert_eq!(sum.to_string(), "3 passed, 1 failed");
        assert_eq!(Tally::read(&sum.to_string()), Some(sum));
        assert_eq!(Tally::read("3 passed, 1 failed, 7 skipped"), None);
    }

    #[test]
    fn a_command_that_fails_without_a_count_is_a_failure() {
        assert_eq!(run(Command::new("false")).unwrap(), Tally::failure(String::new()));
        assert_eq!(run(Command::new("true")).unwrap(), Tally::default());
    }
}
