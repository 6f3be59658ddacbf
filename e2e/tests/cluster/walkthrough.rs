//! What docs/cluster.md tells a newcomer to type works: every line of its `sh` blocks is run as written, in order, by
//! the shell, with the real kubectl.

use anyhow::{Context, Result, bail, ensure};
use e2e::{
    lab::{Kind, Lab, PATIENCE},
    process::wait_for,
    stack::program,
};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Somebody at a terminal.
struct Shell {
    folder: tempfile::TempDir,
    path: String,
    variables: Vec<(String, String)>,
}

impl Shell {
    /// In a folder with what the document wants to be there.
    fn open() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        std::os::unix::fs::symlink(root().join("examples"), folder.path().join("examples"))?;
        let lab = env::var("KUBELAB_EXE").context("the lab doesn't say where its program is")?;
        let folders = [program("edgectl")?, PathBuf::from(lab)].map(|program| {
            let folder = program.parent().unwrap_or(Path::new("/"));
            folder.display().to_string()
        });
        Ok(Self {
            folder,
            path: format!("{}:{}", folders.join(":"), env::var("PATH")?),
            variables: Vec::new(),
        })
    }

    fn output(&self, line: &str) -> Result<Output> {
        let mut command = Command::new("bash");
        command
            .args(["-euo", "pipefail", "-c", line])
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .env("HOME", self.folder.path());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Ok(command.output()?)
    }

    /// Runs a line, and gives what it prints.
    fn run(&self, line: &str) -> Result<String> {
        let output = self.output(line)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`{line}`: {}\n{said}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Types a line of the document.
    fn type_in(&mut self, line: &str) -> Result<()> {
        let (command, comment) = line.split_once("  #").unwrap_or((line, ""));
        let (command, comment) = (command.trim(), comment.trim());
        match command.split_once('=') {
            Some((name, _)) if name.bytes().all(|b| b.is_ascii_uppercase()) => {
                let value = self.run(&format!("{command}; printf %s \"${name}\""))?;
                ensure!(!value.is_empty(), "`{line}` gives nothing");
                self.variables.push((name.to_owned(), value));
                Ok(())
            }
            _ if command.starts_with("curl ") => self.answers(command, comment),
            _ => self.run(command).map(drop),
        }
    }

    /// Asks until the answer has the status that the comment tells: a change takes a moment.
    fn answers(&self, command: &str, status: &str) -> Result<()> {
        ensure!(
            status.parse::<u16>().is_ok(),
            "`{command}` doesn't say which status comes"
        );
        let wanted = format!(" {status} ");
        wait_for(&format!("{status} from `{command}`"), PATIENCE, || {
            let output = self.output(command)?;
            let answer = String::from_utf8_lossy(&output.stdout).into_owned();
            let first = answer.lines().next().unwrap_or_default();
            Ok(format!("{first} ").contains(&wanted).then_some(()))
        })
        .map(drop)
    }
}

/// The lines of the `sh` blocks of a text.
fn lines(text: &str) -> Vec<&str> {
    let (mut found, mut inside) = (Vec::new(), false);
    for line in text.lines() {
        match line.trim() {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside && !line.is_empty() => found.push(line),
            _ => {}
        }
    }
    found
}

#[test]
fn a_newcomer_gets_from_nothing_to_the_first_answer_and_back() -> Result<()> {
    let lab = Lab::join()?;
    let walked = walk();
    walked.map_err(|error| anyhow::anyhow!("{error:#}\n{}", lab.report(&["edge-gateway-system", "default"])))?;
    // The fleet goes with its Gateway, and its pods when they have drained.
    let pods = || lab.list(&Kind::core("Pod"), "edge-gateway-system", "");
    wait_for("all pods to be gone", PATIENCE, || Ok(pods()?.is_empty().then_some(())))?;
    Ok(())
}

fn walk() -> Result<()> {
    let document = fs::read_to_string(root().join("docs/cluster.md"))?;
    let mut shell = Shell::open()?;
    let lines = lines(&document);
    if lines.len() < 10 {
        bail!("only {} lines to type: {lines:?}", lines.len());
    }
    lines.into_iter().try_for_each(|line| shell.type_in(line))
}
