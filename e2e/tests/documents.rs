//! What documents tell people to run works: every `edgectl` and `edgegateway certgen|version` line in a `sh` block of
//! README.md, docs/ and examples/ is run as written, from the root of the repository, with a home folder of its own.

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
        "edgegateway certgen",
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
    let home = tempfile::tempdir()?;
    let mut count = 0;
    for document in all {
        let text = fs::read_to_string(&document)?;
        for command in commands(&text).iter().filter(|c| is_tested(c)) {
            let output = Command::new("bash")
                .args(["-o", "pipefail", "-c", command])
                .current_dir(root())
                .env("PATH", &path)
                .env("HOME", home.path())
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

/// `certgen` stands in the midst of sentences, not in blocks.
#[test]
fn certificates_are_made_and_renewed_as_documented() -> Result<()> {
    let text = fs::read_to_string(root().join("docs/standalone.md"))?;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let home = tempfile::tempdir()?;
    let certificate = home.path().join(".config/edge-gateway/certs/edge/tls.crt");
    let mut made = Vec::new();
    for command in ["certgen --local", "certgen --local --overwrite"] {
        ensure!(
            text.contains(&format!("`edgegateway {command}`")),
            "`{command}` isn't documented"
        );
        let output = Command::new(program("edgegateway")?)
            .args(command.split(' '))
            .env("HOME", home.path())
            .output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        made.push(fs::read_to_string(&certificate).with_context(|| certificate.display().to_string())?);
    }
    ensure!(made[0] != made[1], "the same certificate");
    Ok(())
}

#[test]
fn commands_are_found_in_blocks_only() {
    let text = "edgectl a\n```sh\nedgectl b   # and why\n```\n```yaml\nedgectl c\n```\n";
    assert_eq!(commands(text), ["edgectl b"]);
}
