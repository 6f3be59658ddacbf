//! What documents tell people to run works: every `edgectl` and `edgegateway certgen|version` line in a `sh` block of
//! README.md, docs/ and examples/ is run as written, from the root of the repository.

use anyhow::{Context, Result, ensure};
use e2e::stack::program;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn documents(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    entries
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .collect()
}

/// Command lines in the `sh` blocks of a text.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line.trim() {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside => found.push(line.split("  #").next().unwrap_or_default().trim().to_owned()),
            _ => {}
        }
    }
    found
}

fn is_tested(command: &str) -> bool {
    let one_shot = [
        "edgectl x translate",
        "edgectl version",
        "edgectl completion",
        "edgegateway version",
    ];
    one_shot.iter().any(|start| command.contains(start))
}

#[test]
fn commands_in_documents_run() -> Result<()> {
    let edgectl = program("edgectl")?;
    let folder = edgectl.parent().context("a program without folder")?;
    let path = format!("{}:{}", folder.display(), env::var("PATH")?);
    let mut all = documents(&root());
    all.extend(documents(&root().join("docs")));
    all.extend(documents(&root().join("examples/quickstart")));
    let mut count = 0;
    for document in all {
        let text = fs::read_to_string(&document)?;
        for command in commands(&text).iter().filter(|c| is_tested(c)) {
            let output = Command::new("bash")
                .args(["-o", "pipefail", "-c", command])
                .current_dir(root())
                .env("PATH", &path)
                .output()?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(
                output.status.success(),
                "{}: `{command}`: {}\n{said}",
                document.display(),
                output.status
            );
            ensure!(
                !output.stdout.is_empty(),
                "{}: `{command}` prints nothing",
                document.display()
            );
            count += 1;
        }
    }
    ensure!(count > 0, "no document has a command to run");
    Ok(())
}

#[test]
fn commands_are_found_in_blocks_only() {
    let text = "edgectl a\n```sh\nedgectl b   # and why\n```\n```yaml\nedgectl c\n```\n";
    assert_eq!(commands(text), ["edgectl b"]);
}
