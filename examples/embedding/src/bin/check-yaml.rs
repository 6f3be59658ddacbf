//! Judges the resources below the paths that it is given, a line for each that isn't in force as its author meant it.
//! Exits with 1 if there is one.

use anyhow::{Context, Result};
use edge_translate::{Settings, load::Source, translate};
use std::{env, fs, io::Write, path::PathBuf, process::ExitCode};

fn main() -> Result<ExitCode> {
    let paths: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    anyhow::ensure!(
        !paths.is_empty(),
        "name the files and folders to check: check-yaml PATH…"
    );
    let listing = edge_files::list(&paths);
    let mut texts = Vec::new();
    for path in listing.files.into_keys() {
        let text = fs::read_to_string(&path).with_context(|| format!("{} can't be read", path.display()))?;
        texts.push((path.display().to_string(), text));
    }
    let sources: Vec<_> = texts.iter().map(|(name, text)| Source { name, text }).collect();

    let outcome = translate(&sources, &Settings::default());

    let mut out = std::io::stdout().lock();
    // What is named and isn't there, or can't be looked into.
    for (path, problem) in &listing.problems {
        writeln!(out, "{}: {problem}", path.display())?;
    }
    for finding in &outcome.findings {
        writeln!(out, "{finding}")?;
    }
    for (object, problem) in outcome.problems() {
        writeln!(out, "{object}: {}: {}", problem.what, problem.message)?;
    }
    let count = outcome.objects.len();
    writeln!(out, "{count} objects, {} fleets", outcome.translation.fleets.len())?;
    Ok(match outcome.is_clean() && listing.problems.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
