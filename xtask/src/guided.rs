//! `cargo xtask guided`: edge-proxy as fast and as small in memory as it gets, guided by a profile of what it does.
//!
//! It is built by profile `dist` with counters in every branch, driven, and built again: what runs often is laid out
//! together and inlined, what doesn't is made small and stands apart. What drives it is what `cargo xtask bench proxy`
//! measures with, for a shorter time. The counters are LLVM's own, so that nothing but the toolchain is needed.

use crate::{
    bench::proxy,
    workspace::{self, Profile, Programs},
};
use anyhow::{Context, Result, bail, ensure};
use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
};

/// Where the program is put.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The folder that gets the program; `target/guided` when it isn't named.
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
}

const PROXY: &str = "edge-proxy";
const LOAD: &str = "edge-load";

/// Builds, drives, and builds again.
pub(crate) fn run(options: &Options) -> Result<()> {
    let work = workspace::target_dir()?.join("guided");
    let counts = work.join("counts");
    if counts.exists() {
        fs::remove_dir_all(&counts).context("what was counted before can't be taken away")?;
    }
    let load = proxy::build_load()?;
    let counting = build(&work, &format!("-Cprofile-generate={}", counts.display()))?;
    proxy::train(&counting.path(PROXY), &load)?;
    let profile = merge(&counts, &work.join("profile"))?;
    let guided = build(&work, &format!("-Cprofile-use={}", profile.display()))?;
    let into = options.into.clone().unwrap_or(work);
    fs::create_dir_all(&into)?;
    fs::copy(guided.path(PROXY), into.join(PROXY)).context("edge-proxy can't be copied")?;
    // Where `bench proxy --programs` looks for it.
    fs::copy(&load, into.join(LOAD)).context("the load generator can't be copied")?;
    writeln!(io::stdout(), "{}", into.join(PROXY).display())?;
    Ok(())
}

/// Builds the proxy in a folder of its own, as other flags make everything anew. With a target named, so that what only
/// runs while building (build scripts, macros) has no part in it.
fn build(work: &Path, flag: &str) -> Result<Programs> {
    let host = host()?;
    let status = workspace::cargo()?
        .args([
            "build",
            "--locked",
            "--profile",
            Profile::Dist.name(),
            "--target",
            &host,
        ])
        .args(["-p", PROXY, "--bin", PROXY])
        .env("CARGO_TARGET_DIR", work)
        .env("CARGO_ENCODED_RUSTFLAGS", flag)
        .status()
        .context("cargo can't be started")?;
    if !status.success() {
        bail!("edge-proxy doesn't build with {flag}");
    }
    Ok(Programs::built(&work.join(host).join(Profile::Dist.folder())))
}

/// The platform that we are on, as rustc calls it.
fn host() -> Result<String> {
    let output = rustc()?.arg("-vV").output().context("rustc can't be started")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc doesn't say what it runs on")?.to_owned())
}

fn rustc() -> Result<Command> {
    let mut command = Command::new(env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc")));
    command.current_dir(workspace::root()?);
    Ok(command)
}

/// One profile of all that was counted.
fn merge(counts: &Path, profile: &Path) -> Result<PathBuf> {
    let output = rustc()?.args(["--print", "target-libdir"]).output()?;
    let libraries = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    let tool = libraries.parent().map(|above| above.join("bin/llvm-profdata"));
    let tool = tool
        .filter(|path| path.exists())
        .context("the toolchain has no llvm-profdata: install it (`rustup component add llvm-tools`)")?;
    let status = Command::new(tool)
        .arg("merge")
        .arg("-o")
        .arg(profile)
        .arg(counts)
        .status()?;
    ensure!(status.success(), "what was counted can't be put together");
    Ok(profile.to_owned())
}
