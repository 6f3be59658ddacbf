//! Tier library: what those who embed the core rely on, and those who install the programs.
//!
//! Every page of the documentation is made without a warning; the crates of the core go into packages as a registry
//! takes them, and they compile for a browser; the programs compile by themselves. The examples themselves are tests of
//! tier unit.

use super::Tally;
use crate::workspace;
use anyhow::{Context, Result, bail};
use std::{
    io::{self, Write},
    process::Command,
};

/// The crates that others build on.
const PUBLISHED: [&str; 4] = ["edge-ir", "edge-translate", "edge-envoy", "edge-xds"];
/// The packages of what is installed, and of what README starts: as they are compiled together.
const PROGRAMS: [&[&str]; 2] = [&["edge-runtime", "edge-proxy", "edgectl"], &["xtask"]];
/// A target without an operating system, as browsers are.
const BROWSER: &str = "wasm32-unknown-unknown";

/// Runs the checks.
pub(super) fn run() -> Result<Tally> {
    let mut tally = Tally::default();
    let mut out = io::stdout();
    for (name, result) in [
        ("documentation", documentation()),
        ("packages", packages()),
        ("browser", browser()),
        ("programs", programs()),
    ] {
        match result {
            Ok(()) => {
                writeln!(out, "{name}: ok")?;
                tally += Tally::success();
            }
            Err(error) => {
                let why = format!("{name}: {error:#}");
                writeln!(out, "{why}")?;
                tally += Tally::failure(why);
            }
        }
    }
    Ok(tally)
}

/// For the target that they are compiled for as well, so that their dependencies are read once: on no page does it
/// matter.
fn documentation() -> Result<()> {
    let mut command = workspace::cargo()?;
    command
        .args(["doc", "--locked", "--no-deps", "--target", BROWSER])
        .env("RUSTDOCFLAGS", "-D warnings");
    for name in PUBLISHED {
        command.args(["-p", name]);
    }
    done(command)
}

/// Compiling them again from the packages would take as long as all else, and says no more: what a package lacks of its
/// crate's files is listed.
fn packages() -> Result<()> {
    let mut command = workspace::cargo()?;
    command.args(["package", "--locked", "--allow-dirty", "--no-verify"]);
    for name in PUBLISHED {
        command.args(["-p", name]);
    }
    done(command)
}

fn browser() -> Result<()> {
    let mut command = workspace::cargo()?;
    command.args(["check", "--locked", "--target", BROWSER]);
    for name in PUBLISHED {
        command.args(["-p", name]);
    }
    done(command)
}

/// With the features that they have by themselves: in tests they have what anybody in the workspace asks of a
/// dependency.
fn programs() -> Result<()> {
    for names in PROGRAMS {
        let mut command = workspace::cargo()?;
        command.args(["check", "--locked", "--bins"]);
        for name in names {
            command.args(["-p", name]);
        }
        done(command)?;
    }
    Ok(())
}

fn done(mut command: Command) -> Result<()> {
    let output = command.output().context("cargo can't be started")?;
    if !output.status.success() {
        bail!("{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
