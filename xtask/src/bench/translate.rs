//! Translation, from outside and inside: `edgectl x translate --to xds` as a whole process over worlds of growing
//! size, then the engine in one process (`e2e/benches/engine.rs`).

use super::report;
use crate::workspace::{self, Profile, Programs};
use anyhow::{Context, Result, bail};
use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// HTTPRoutes in the worlds.
const SIZES: [usize; 5] = [10, 100, 1_000, 10_000, 40_000];

/// Measures and publishes.
pub(crate) fn run(runs: usize) -> Result<()> {
    let programs = Programs::build(Profile::Dist)?;
    let folder = tempfile::tempdir()?;
    let mut body = format!(
        "`edgectl x translate --to xds`, output to /dev/null, the fastest of {runs} runs; memory is the peak of the \
         resident set, sampled every millisecond:\n\n| HTTPRoutes | input | wall ms | peak MiB |\n|--:|--:|--:|--:|\n"
    );
    for size in SIZES {
        let file = folder.path().join(format!("{size}.yaml"));
        fs::write(&file, e2e::world::yaml(size))?;
        let mut best = Duration::MAX;
        let mut peak = 0;
        for _ in 0..runs {
            let (time, memory) = translate(&programs.path("edgectl"), &file)?;
            best = best.min(time);
            peak = peak.max(memory);
        }
        let input = fs::metadata(&file)?.len() / 1024;
        let millis = best.as_secs_f64() * 1e3;
        writeln!(io::stdout(), "{size} routes: {millis:.1} ms, {peak} KiB")?;
        writeln!(
            body,
            "| {size} | {input} KiB | {millis:.1} | {:.1} |",
            peak as f64 / 1024.0
        )?;
    }
    body.push_str("\nThe engine in one process:\n\n");
    body.push_str(&engine()?);
    report::publish("translate", "cargo xtask bench translate", &body)
}

/// One run: wall time, and the peak of the resident set in KiB.
fn translate(edgectl: &Path, file: &Path) -> Result<(Duration, u64)> {
    let start = Instant::now();
    let mut child = Command::new(edgectl)
        .args(["x", "translate", "--from", "gateway-api", "--to", "xds", "-f"])
        .arg(file)
        .stdout(File::create("/dev/null")?)
        .stderr(Stdio::inherit())
        .spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let exit = loop {
        // The high-water mark only grows, so the last sample before the end is the one that counts.
        peak = peak.max(high_water(&status).unwrap_or(0));
        if let Some(exit) = child.try_wait()? {
            break exit;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    if !exit.success() {
        bail!("edgectl failed on {}", file.display());
    }
    Ok((start.elapsed(), peak))
}

fn high_water(status: &str) -> Option<u64> {
    let text = fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Runs the engine's own bench, which prints a table.
fn engine() -> Result<String> {
    let output = workspace::cargo()?
        .args(["bench", "--quiet", "--locked", "-p", "e2e", "--bench", "engine"])
        .stderr(Stdio::inherit())
        .output()
        .context("cargo can't be started")?;
    if !output.status.success() {
        bail!("the engine's bench failed");
    }
    Ok(String::from_utf8(output.stdout)?)
}
