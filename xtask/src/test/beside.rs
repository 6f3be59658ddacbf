//! Tiers beside others: what computes gets the processors that the tests in a cluster leave idle while they wait.
//!
//! They are a process of their own, so that neither's output is in the midst of the other's, with a lower priority.

use super::{FAILURES, Tally, Tier};
use crate::workspace;
use anyhow::{Context, Result};
use clap::ValueEnum as _;
use std::{
    fs::{self, File},
    io::{self, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// Low enough that the others hardly notice, and not so low that an input of a fuzz target seems to hang.
const PRIORITY: &str = "10";

/// Tiers that are running.
#[derive(Debug)]
pub(super) struct Beside {
    child: Child,
    log: PathBuf,
}

impl Beside {
    /// Starts them.
    pub(super) fn start(tiers: &[Tier]) -> Result<Self> {
        let log = workspace::target_dir()?.join("xtask-beside.log");
        let file = File::create(&log).with_context(|| format!("{} can't be written", log.display()))?;
        let mut command = Command::new("nice");
        command.args(["-n", PRIORITY]).arg(std::env::current_exe()?).arg("test");
        for tier in tiers.iter().filter_map(Tier::to_possible_value) {
            command.args(["--tier", tier.get_name()]);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .context("nice can't be started")?;
        Ok(Self { child, log })
    }

    /// Waits until they are done, and tells what they said.
    pub(super) fn end(mut self) -> Result<Tally> {
        let status = self.child.wait()?;
        let log = fs::read(&self.log)?;
        let log = String::from_utf8_lossy(&log);
        let (said, mut tally) = read(&log);
        io::stdout().write_all(said.as_bytes())?;
        if status.success() != (tally.failed == 0) {
            tally += Tally::failure(format!("the tiers beside ended with {status}: {}", self.log.display()));
        }
        Ok(tally)
    }
}

/// What was said before the sum and before failures are told again, and what came of it; nothing did without a sum.
fn read(log: &str) -> (&str, Tally) {
    // Behind the sum there is at most the error that tests failed.
    let sum = log
        .lines()
        .rev()
        .take(2)
        .find_map(|line| Some((line, Tally::read(line)?)));
    let Some((line, mut tally)) = sum else {
        return (log, Tally::default());
    };
    let (said, _) = log.rsplit_once(line).unwrap_or_default();
    let (said, failures) = said.split_once(FAILURES).unwrap_or((said, ""));
    if tally.failed > 0 {
        tally.failures.push(failures.trim().to_owned());
    }
    (said, tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_kept_apart_from_what_was_said() {
        let said = format!("=== tier Fuzz\nbad\n\n{FAILURES}\n\nbad: why\n\n7 passed, 1 failed\nerror: tests failed\n");
        let (before, tally) = read(&said);
        assert_eq!(before, "=== tier Fuzz\nbad\n\n");
        assert_eq!((tally.passed, tally.failed), (7, 1));
        assert_eq!(tally.failures, ["bad: why"]);
        let (before, tally) = read("=== tier Fuzz\n\n7 passed, 0 failed\n");
        assert_eq!(before, "=== tier Fuzz\n\n");
        assert_eq!((tally.passed, tally.failed, tally.failures.len()), (7, 0, 0));
        assert_eq!(read("=== tier Fuzz\n"), ("=== tier Fuzz\n", Tally::default()));
    }
}
