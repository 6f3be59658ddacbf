//! The program of the targets, compiled for libFuzzer, and how to speak with it.

use super::compiler::Wrapper;
use crate::workspace;
use anyhow::{Context, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

/// The test target that holds them all, and the folder beside it where bolero looks for inputs.
const PROGRAM: &str = "targets";
const INPUTS: &str = "fuzz/tests/targets/__fuzz__";
/// Inputs are no longer than this: what a reader makes of much is the business of its limits.
const LONGEST: usize = 4096;
/// Inputs that are kept are no longer than this, and stand for a place that no other reaches; how often one is passed
/// doesn't count. Else there would be megabytes of them.
const LONGEST_KEPT: usize = 1024;
/// An input that takes so many seconds has found a way to stop the program.
const HANGS: u32 = 60;

/// Something to be searched.
#[derive(Debug)]
pub(super) struct Target {
    /// Its name among the tests.
    pub(super) name: String,
    /// The folder that holds its inputs: `corpus`, which are kept, and `crashes`.
    folder: PathBuf,
}

impl Target {
    /// A target and its folder.
    pub(super) fn new(name: &str, folder: PathBuf) -> Self {
        Self {
            name: name.to_owned(),
            folder,
        }
    }

    fn kept(&self) -> PathBuf {
        self.folder.join("corpus")
    }

    fn crashes(&self) -> PathBuf {
        self.folder.join("crashes")
    }
}

/// How to look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    /// For how long.
    pub(super) time: Duration,
    /// Where to turn; libFuzzer takes one by chance for 0.
    pub(super) seed: u32,
}

/// What came of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Searched {
    /// Nothing is wrong.
    Nothing {
        /// How many inputs were tried.
        inputs: u64,
        /// How many places of the program they reach.
        reached: u64,
    },
    /// Something is.
    Failure {
        /// The last lines that the program said.
        said: String,
        /// The input that it was said of.
        input: Option<PathBuf>,
    },
}

/// The program.
#[derive(Debug)]
pub(super) struct Engine {
    program: PathBuf,
    /// What was found stays there.
    found: PathBuf,
}

impl Engine {
    /// Compiles it.
    pub(super) fn build() -> Result<Self> {
        if Command::new("g++").arg("--version").output().is_err() {
            bail!("libFuzzer is C++, and there is no g++ (Debian: apt-get install g++)");
        }
        let mut command = workspace::cargo()?;
        // With the features of the whole workspace, as other tests are compiled: the dependencies are there then.
        command
            .args(["test", "--locked", "--workspace", "--test", PROGRAM, "--no-run"])
            .args(["--message-format", "json-render-diagnostics"])
            .stderr(Stdio::inherit());
        Wrapper::install()?.configure(&mut command);
        let output = command.output().context("cargo can't be started")?;
        if !output.status.success() {
            bail!("the targets don't compile for libFuzzer");
        }
        let messages = String::from_utf8_lossy(&output.stdout);
        let program = messages.lines().find_map(executable);
        Ok(Self {
            program: program.context("cargo names no program")?,
            found: workspace::target_dir()?.join("fuzz-corpus"),
        })
    }

    /// All that have inputs to begin with.
    pub(super) fn targets(&self) -> Result<Vec<Target>> {
        let output = Command::new(&self.program)
            .args(["--list", "--format", "terse"])
            .output();
        let output = output.with_context(|| format!("{} can't be started", self.program.display()))?;
        let inputs = workspace::root()?.join(INPUTS);
        let mut targets: Vec<Target> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            // As bolero names folders.
            .map(|name| Target::new(name, inputs.join(name.replace("::", "__"))))
            .filter(|target| target.kept().is_dir())
            .collect();
        targets.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(targets)
    }

    /// Looks for an input that makes a target fail.
    pub(super) fn search(&self, target: &Target, how: Search) -> Result<Searched> {
        let (found, crashes) = (self.found_by(target)?, target.crashes());
        fs::create_dir_all(&crashes)?;
        let arguments = [
            found.display().to_string(),
            target.kept().display().to_string(),
            format!("-artifact_prefix={}/", crashes.display()),
            format!("-max_total_time={}", how.time.as_secs().max(1)),
            format!("-seed={}", how.seed),
            format!("-max_len={LONGEST}"),
            format!("-timeout={HANGS}"),
            format!("-report_slow_units={HANGS}"),
            "-print_final_stats=1".to_owned(),
        ];
        let output = self.run(target, &arguments)?;
        // Empty unless something was written there.
        let _ = fs::remove_dir(&crashes);
        let said = String::from_utf8_lossy(&output.stderr);
        Ok(match figures(&said) {
            Some((inputs, reached)) if output.status.success() => Searched::Nothing { inputs, reached },
            _ => Searched::Failure {
                said: last_lines(&format!("{}{said}", String::from_utf8_lossy(&output.stdout)), 60),
                input: artifact(&said),
            },
        })
    }

    /// Puts what was found into the tree, as far as it reaches more than what is there, and leaves out what the others
    /// reach too. Gives how many inputs there are.
    pub(super) fn keep(&self, target: &Target) -> Result<usize> {
        let found = self.found_by(target)?;
        let merged = found.with_extension("merged");
        let _ = fs::remove_dir_all(&merged);
        fs::create_dir_all(&merged)?;
        let arguments = [
            merged.display().to_string(),
            target.kept().display().to_string(),
            found.display().to_string(),
            "-set_cover_merge=1".to_owned(),
            "-use_counters=0".to_owned(),
            format!("-max_len={LONGEST_KEPT}"),
            format!("-timeout={HANGS}"),
        ];
        let output = self.run(target, &arguments)?;
        if !output.status.success() {
            bail!(
                "inputs of {} can't be merged:\n{}",
                target.name,
                last_lines(&String::from_utf8_lossy(&output.stderr), 60)
            );
        }
        fs::remove_dir_all(target.kept())?;
        fs::create_dir_all(target.kept())?;
        let mut count = 0;
        for entry in fs::read_dir(&merged)? {
            let entry = entry?;
            fs::copy(entry.path(), target.kept().join(entry.file_name()))?;
            count += 1;
        }
        fs::remove_dir_all(&merged)?;
        Ok(count)
    }

    fn found_by(&self, target: &Target) -> Result<PathBuf> {
        let found = self.found.join(target.name.replace("::", "__"));
        fs::create_dir_all(&found)?;
        Ok(found)
    }

    /// Runs the one test with arguments for libFuzzer.
    fn run(&self, target: &Target, arguments: &[String]) -> Result<Output> {
        if let Some(path) = arguments.iter().find(|argument| argument.contains(' ')) {
            bail!("libFuzzer can't be told of a path with a space: {path}");
        }
        let output = Command::new(&self.program)
            .args([&target.name, "--exact", "--nocapture", "--quiet", "--test-threads", "1"])
            .current_dir(workspace::root()?)
            .env("BOLERO_LIBFUZZER_ARGS", arguments.join(" "))
            // For the processes that libFuzzer starts itself.
            .env("BOLERO_LIBTEST_HARNESS", "1")
            .env("BOLERO_TEST_NAME", &target.name)
            .stdin(Stdio::null())
            .output();
        output.with_context(|| format!("{} can't be started", self.program.display()))
    }
}

/// The program in a message of cargo's.
fn executable(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    (message["target"]["name"] == PROGRAM).then_some(())?;
    message["executable"].as_str().map(PathBuf::from)
}

/// How many inputs were tried, and how many places they reach: `#4096 DONE cov: 512 ft: …`.
fn figures(said: &str) -> Option<(u64, u64)> {
    let done = said
        .lines()
        .rev()
        .find(|line| line.contains("\tDONE ") || line.contains(" DONE "))?;
    let mut words = done.split_whitespace();
    let inputs = words.next()?.strip_prefix('#')?.parse().ok()?;
    let reached = words.skip_while(|word| *word != "cov:").nth(1)?.parse().ok()?;
    Some((inputs, reached))
}

/// The file that a failing input was written to.
fn artifact(said: &str) -> Option<PathBuf> {
    let mut written = said.lines().filter_map(|line| line.split_once("Test unit written to "));
    written.next().map(|(_, path)| Path::new(path.trim()).to_path_buf())
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libfuzzer_says_is_understood() {
        let said = "INFO: Seed: 1\n#2\tINITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 30Mb\n\
                    #4096\tDONE   cov: 512 ft: 900 corp: 77/2Kb lim: 33 exec/s: 2048 rss: 60Mb\nDone 4096 runs in 2 second(s)\n";
        assert_eq!(figures(said), Some((4096, 512)));
        assert_eq!(figures("#2\tINITED cov: 10 ft: 11\n"), None);
        let said = "artifact_prefix='/x/'; Test unit written to /x/crash-1\nBase64: AA==\n";
        assert_eq!(artifact(said), Some("/x/crash-1".into()));
        assert_eq!(last_lines("a\nb\nc", 2), "b\nc");
    }

    #[test]
    fn the_program_is_found_among_cargos_messages() {
        let other = r#"{"target": {"name": "fuzz"}, "executable": "/t/fuzz"}"#;
        let ours = r#"{"target": {"name": "targets"}, "executable": "/t/targets-1"}"#;
        assert_eq!(
            [other, ours, "{"].into_iter().find_map(executable),
            Some("/t/targets-1".into())
        );
    }
}
