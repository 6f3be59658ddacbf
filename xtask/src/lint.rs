//! `cargo xtask lint`: house rules that no compiler checks.
//!
//! Files end before 600 lines and start with what they are for; functions fit a screen, comments 120 columns; nothing
//! is left for later by a comment; modules form no circles, and crates stand on what the map says; links in documents
//! lead somewhere, and tests that they name exist. Formatting and clippy have commands of their own.

use crate::workspace;
use anyhow::{Result, bail};
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

mod crates;
mod evidence;
mod modules;

/// Longest source file, tests apart.
const MAX_FILE: usize = 600;
/// Longest function, tests apart.
const MAX_FUNCTION: usize = 80;
/// Longest line of a comment, which formatting leaves as it is; rows of tables may be longer.
const MAX_COMMENT: usize = 120;
/// Folders that hold nothing of ours.
const SKIP: [&str; 5] = ["target", ".git", "corpus", "crashes", "generated"];

/// Prints what breaks a rule; fails if anything does.
pub(crate) fn run() -> Result<()> {
    let root = workspace::root()?;
    let findings = check(&root)?;
    let mut out = io::stdout();
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    if !findings.is_empty() {
        bail!("{} findings", findings.len());
    }
    Ok(())
}

/// Everything that breaks a rule below a folder, as `file:line: rule`.
fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for path in files(root)? {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        match path.extension().and_then(|e| e.to_str()) {
            Some("rs") => check_rust(&name, &fs::read_to_string(&path)?, &mut findings),
            Some("md") => check_links(&path, &name, &fs::read_to_string(&path)?, &mut findings),
            _ => {}
        }
    }
    modules::check(root, &mut findings)?;
    let map = fs::read_to_string(root.join(crates::DOCUMENT))?;
    crates::check(&map, &workspace::metadata()?, &mut findings);
    evidence::check(root, &mut findings)?;
    Ok(findings)
}

/// All files below a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        if entry.file_type()?.is_file() {
            found.push(entry.path());
        } else if entry.file_type()?.is_dir() && !SKIP.contains(&entry.file_name().to_string_lossy().as_ref()) {
            found.extend(files(&entry.path())?);
        }
    }
    Ok(found)
}

fn check_rust(name: &str, text: &str, findings: &mut Vec<String>) {
    let lines: Vec<&str> = text.lines().collect();
    let is_test = name.ends_with("tests.rs") || name.contains("/tests/");
    if name.ends_with("/mod.rs") {
        findings.push(format!(
            "{name}:1: a module lives in foo.rs beside its folder, not in mod.rs"
        ));
    }
    if !is_test && !lines.first().is_some_and(|line| line.starts_with("//!")) {
        findings.push(format!("{name}:1: a file starts with a sentence about itself (//!)"));
    }
    if !is_test && lines.len() > MAX_FILE {
        findings.push(format!("{name}:{MAX_FILE}: {} lines; at most {MAX_FILE}", lines.len()));
    }
    // In two pieces, so that this file doesn't find itself.
    for mark in [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("#[", "ignore"),
        concat!("unimple", "mented!("),
    ] {
        for (i, _) in lines.iter().enumerate().filter(|(_, line)| line.contains(mark)) {
            findings.push(format!("{name}:{}: `{mark}` leaves work for later", i + 1));
        }
    }
    for (i, line) in lines.iter().enumerate().filter(|(_, line)| is_long_comment(line)) {
        let length = line.chars().count();
        findings.push(format!(
            "{name}:{}: a comment of {length} columns; at most {MAX_COMMENT}",
            i + 1
        ));
    }
    if !is_test {
        check_functions(name, &lines, findings);
    }
}

fn is_long_comment(line: &str) -> bool {
    line.trim_start().strip_prefix("//").is_some_and(|comment| {
        let text = comment.trim_start_matches(['/', '!']).trim_start();
        line.chars().count() > MAX_COMMENT && !text.starts_with('|')
    })
}

/// Formatting puts a function's closing brace under its first column, which is all the parsing this needs.
fn check_functions(name: &str, lines: &[&str], findings: &mut Vec<String>) {
    for (start, line) in lines.iter().enumerate() {
        let body = line.trim_start();
        let indent = line.len() - body.len();
        if !is_signature(body) || body.ends_with(['}', ';']) {
            continue;
        }
        let closing = format!("{}}}", " ".repeat(indent));
        let length = lines[start..]
            .iter()
            .position(|l| *l == closing)
            .map_or(0, |end| end + 1);
        if length > MAX_FUNCTION {
            findings.push(format!(
                "{name}:{}: a function of {length} lines; at most {MAX_FUNCTION}",
                start + 1
            ));
        }
    }
}

/// Whether a function begins in this line, whatever stands before `fn`.
fn is_signature(body: &str) -> bool {
    let rest = body.strip_prefix("pub").map_or(body, |rest| {
        let inside = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        inside.map_or(rest, |(_, rest)| rest)
    });
    let mut words = rest.split_whitespace();
    let qualifiers = ["default", "const", "async", "extern", "\"C\""];
    words.find(|word| !qualifiers.contains(word)) == Some("fn")
}

/// Relative links of a document must exist. What stands between backticks is no link.
fn check_links(path: &Path, name: &str, text: &str, findings: &mut Vec<String>) {
    let folder = path.parent().unwrap_or(path);
    for (i, line) in text.lines().enumerate() {
        let prose: String = line.split('`').step_by(2).collect();
        for part in prose.split("](").skip(1) {
            let target = part.split([')', '#']).next().unwrap_or_default();
            let is_relative = !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:");
            if is_relative && !folder.join(target).exists() {
                findings.push(format!("{name}:{}: link to {target}, which doesn't exist", i + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(name: &str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        check_rust(name, text, &mut found);
        found
    }

    #[test]
    fn the_tree_follows_the_house_rules() {
        let found = check(&workspace::root().unwrap()).unwrap();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn each_rule_finds_what_it_is_for() {
        assert_eq!(findings("a.rs", "//! Fine.\nfn a() {\n}\n"), Vec::<String>::new());
        assert_eq!(findings("a.rs", "fn a() {}\n").len(), 1, "no sentence at the start");
        assert_eq!(findings("a/mod.rs", "//! A.\n").len(), 1, "mod.rs");
        let long = "word ".repeat(24);
        assert_eq!(
            findings("a.rs", &format!("//! A.\n    /// {long}\n")).len(),
            1,
            "long comment"
        );
        assert_eq!(findings("a.rs", &format!("//! | {long} |\n")).len(), 0, "a table's row");
        assert_eq!(
            findings("a.rs", concat!("//! A.\n// TO", "DO: b\n")).len(),
            1,
            "work left for later"
        );
        let mut links = Vec::new();
        check_links(Path::new("a.md"), "a.md", "[`b`](b.md) and `[c](c.md)`\n", &mut links);
        assert_eq!(links, ["a.md:1: link to b.md, which doesn't exist"]);
        let long = format!(
            "//! A.\n    fn a() {{\n{}    }}\n",
            "        b();\n".repeat(MAX_FUNCTION)
        );
        assert_eq!(findings("a.rs", &long).len(), 1, "long function");
        for words in ["pub(crate) async fn", "pub(in a::b) fn", "pub const fn", "const fn"] {
            let long = long.replace("fn", words);
            assert_eq!(findings("a.rs", &long).len(), 1, "{words}");
        }
        assert_eq!(findings("a/tests.rs", &long).len(), 0, "tests may be long");
        assert_eq!(
            findings("a.rs", &format!("//! A.\n{}", "\n".repeat(MAX_FILE))).len(),
            1,
            "long file"
        );
    }
}
