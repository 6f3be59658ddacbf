//! Writing figures to the document that keeps them.
//!
//! Each bench owns the text between its two marks and leaves the rest alone, so that notes written by hand stay.

use crate::{
    envoy,
    workspace::{self, Programs},
};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    io::{self, Write},
    process::{Command, Stdio},
};

/// The document, from the root of the workspace.
const DOCUMENT: &str = "docs/performance.md";

/// A bench of the tests, by its name.
pub(crate) fn bench(name: &str) -> Result<Command> {
    let mut bench = workspace::cargo()?;
    bench.args(["bench", "--quiet", "--locked", "-p", "e2e", "--bench", name]);
    Ok(bench)
}

/// What a bench that runs our programs, and stock Envoy beside them, prints as its table.
pub(crate) fn table(bench: &mut Command, programs: &Programs) -> Result<String> {
    let output = bench
        .env("EDGE_ENVOY", envoy::binary()?)
        .env("EDGE_PROGRAMS", programs.path(""))
        .stderr(Stdio::inherit())
        .output()
        .context("cargo can't be started")?;
    ensure!(output.status.success(), "the bench failed");
    Ok(String::from_utf8(output.stdout)?)
}

/// Prints a section and puts it between `<!-- bench:NAME -->` and `<!-- end:NAME -->`.
pub(crate) fn publish(name: &str, command: &str, body: &str) -> Result<()> {
    let section = format!("{}, by `{command}`.\n\n{}\n", machine(), body.trim_end());
    writeln!(io::stdout(), "\n{section}")?;
    let path = workspace::root()?.join(DOCUMENT);
    let old = fs::read_to_string(&path).with_context(|| format!("{DOCUMENT} can't be read"))?;
    let new = replace(&old, name, &section).with_context(|| format!("{DOCUMENT} has no marks for {name}"))?;
    fs::write(&path, new).with_context(|| format!("{DOCUMENT} can't be written"))
}

fn replace(text: &str, name: &str, section: &str) -> Option<String> {
    let start = format!("<!-- bench:{name} -->\n");
    let from = text.find(&start)? + start.len();
    let to = from + text[from..].find(&format!("<!-- end:{name} -->"))?;
    Some(format!("{}{section}{}", &text[..from], &text[to..]))
}

/// The machine and the commit, in a phrase.
fn machine() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .and_then(|l| l.split(": ").nth(1));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = output("uname", &["-sr"]);
    let commit = output("git", &["rev-parse", "--short", "HEAD"]);
    format!(
        "{} × {}, {kernel}, commit {commit}",
        cores,
        model.unwrap_or("unknown processor").trim()
    )
}

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map_or_else(
        |_| "unknown".to_owned(),
        |o| String::from_utf8_lossy(&o.stdout).trim().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_marks_changes() {
        let text = "a\n<!-- bench:x -->\nold\n<!-- end:x -->\nb\n";
        assert_eq!(
            replace(text, "x", "new\n").unwrap(),
            "a\n<!-- bench:x -->\nnew\n<!-- end:x -->\nb\n"
        );
        assert_eq!(replace(text, "y", "new\n"), None);
    }

    #[test]
    fn the_document_has_marks_for_every_bench() {
        let path = workspace::root().unwrap().join(DOCUMENT);
        let text = fs::read_to_string(path).unwrap();
        for name in ["translate", "fleet", "cluster", "proxy"] {
            assert!(replace(&text, name, "").is_some(), "{name}");
        }
    }
}
