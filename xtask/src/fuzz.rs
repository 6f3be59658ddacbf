//! `cargo xtask fuzz`: targets of the package `fuzz`, guided by coverage, and the inputs that they keep.
//!
//! A target is guided if it has a folder of inputs beside it. The engine is libFuzzer, by way of bolero, which finds
//! its way by counters in every branch. A stable compiler puts these in by itself (a pass of LLVM, without any
//! sanitizer and its runtime), so what has them is compiled a second time: our crates, and those of others that read
//! bytes; libFuzzer is C++.
//!
//! What is found stays below `target/` and is where the next search begins. With `--keep` it goes into the tree as
//! well, as far as it reaches what the inputs there don't; `cargo test` replays those.

mod compiler;
mod engine;

use crate::{test::tally::Tally, workspace};
use anyhow::{Context, Result, bail};
pub(crate) use compiler::compile_if_asked;
use engine::{Engine, Search, Searched, Target};
use std::{
    fs,
    io::{self, Write},
    num::NonZero,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

/// Where to look, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Targets, by their names or parts of these; all when none is named.
    #[arg(long = "target", value_name = "NAME")]
    targets: Vec<String>,
    /// For how long to look at each.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Put what was found into the tree, as far as it reaches more, and leave out what is not needed for that.
    #[arg(long)]
    keep: bool,
}

/// As much of a failing input as is told; all of it is in a file.
const TOLD: usize = 2000;

/// Searches; the last line of output is `N passed, N failed`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let engine = Engine::build()?;
    let targets = engine.targets()?;
    let chosen: Vec<Target> = targets
        .into_iter()
        .filter(|target| options.targets.is_empty() || options.targets.iter().any(|name| target.name.contains(name)))
        .collect();
    if chosen.is_empty() {
        bail!("no target is named so");
    }
    let time = Duration::try_from_secs_f64(options.minutes * 60.0).context("--minutes is no time")?;
    let total = search(&engine, &chosen, Search { time, seed: 0 })?;
    if options.keep {
        for target in &chosen {
            let kept = engine.keep(target)?;
            writeln!(io::stdout(), "{}: {kept} inputs are kept", target.name)?;
        }
    }
    writeln!(io::stdout(), "\n{total}")?;
    if total.failed > 0 {
        bail!("what was found stands beside the target: mend it, and leave it there until it passes");
    }
    Ok(())
}

/// How the tier looks at each target: at all of them for six minutes on two processors. The same way each time: whoever
/// changes something else isn't to be stopped by what is found by chance, which is what the command is for.
const IN_TIER: Search = Search {
    time: Duration::from_secs(60),
    seed: 1,
};

/// Every target for a while: a tier of tests.
pub(crate) fn tier() -> Result<Tally> {
    let engine = Engine::build()?;
    search(&engine, &engine.targets()?, IN_TIER)
}

/// As many targets at a time as there are processors.
fn search(engine: &Engine, targets: &[Target], how: Search) -> Result<Tally> {
    let at_a_time = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let one_after_the_other = || {
        let mut tally = Tally::default();
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            tally += judge(target, &engine.search(target, how)?)?;
        }
        Ok(tally)
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..at_a_time).map(|_| scope.spawn(one_after_the_other)).collect();
        let mut total = Tally::default();
        for worker in workers {
            let tally: Result<Tally> = worker.join().map_err(|_| anyhow::anyhow!("a search panicked"))?;
            total += tally?;
        }
        Ok(total)
    })
}

fn judge(target: &Target, searched: &Searched) -> Result<Tally> {
    let mut out = io::stdout();
    match searched {
        Searched::Nothing { inputs, reached } => {
            writeln!(out, "{}: {inputs} inputs, which reach {reached} places", target.name)?;
            Ok(Tally::success())
        }
        Searched::Failure { said, input } => {
            let mut why = format!("fuzz target {} failed\n{said}", target.name);
            if let Some(input) = input {
                let content = fs::read(input).unwrap_or_default();
                why += &told(&target.name, input, &content);
            }
            writeln!(out, "{why}")?;
            Ok(Tally::failure(why))
        }
    }
}

/// What has to be known to see the same again, here and where this folder is gone.
fn told(name: &str, input: &Path, content: &[u8]) -> String {
    let start = &content[..content.len().min(TOLD)];
    format!(
        "\n{} bytes in {}: b\"{}\"\nto see it again: cargo test -p fuzz --test targets {name}\n",
        content.len(),
        input
            .strip_prefix(workspace::root().unwrap_or_default())
            .unwrap_or(input)
            .display(),
        start.escape_ascii(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_with_its_input_and_how_to_see_it_again() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("crash-1");
        fs::write(&input, b"\x00GET").unwrap();
        let target = Target::new("a::b", folder.path().to_path_buf());
        let said = "boom".to_owned();
        let tally = judge(
            &target,
            &Searched::Failure {
                said,
                input: Some(input),
            },
        );
        let tally = tally.unwrap();
        assert_eq!((tally.passed, tally.failed), (0, 1));
        let [why] = &*tally.failures else { panic!("one failure") };
        for part in [
            "boom",
            "4 bytes in",
            r#"b"\x00GET""#,
            "cargo test -p fuzz --test targets a::b",
        ] {
            assert!(why.contains(part), "{part}: {why}");
        }
    }
}
