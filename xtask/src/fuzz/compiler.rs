//! The compiler of the targets: rustc, told to count where counters are wanted.
//!
//! Flags for everything would compile every dependency a second time. So this program stands before rustc in cargo's
//! place of a wrapper, and adds flags by crate: our own crates, and what others wrote that reads an input's bytes, have
//! counters in every branch; of bolero's crates those that choose the engine are told which. All else stays as the
//! other tests have it, and is there already.
//!
//! Cargo keeps what a wrapper of the workspace's crates makes apart by that wrapper's path. The path therefore tells of
//! the flags. Other crates keep those that they were compiled with.

use crate::workspace;
use anyhow::{Context, Result, bail};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::{fs::symlink, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

/// Counters in every branch and a table of the places that they count; comparisons tell what they compare. Optimised a
/// little, for the search runs for as long as this takes, but not across the parts that a crate is compiled in: that
/// would take twice the time, and count everything twice. Checks of arithmetic stay on.
const COUNTERS: [&str; 8] = [
    "-Copt-level=1",
    "-Clto=off",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
];
/// Chooses bolero's engine.
const ENGINE: [&str; 4] = ["--cfg", "fuzzing", "--cfg", "fuzzing_libfuzzer"];
/// Readers of bytes that others wrote, which have counters too. Their profile differs from that of other builds
/// (`Wrapper::configure`), so that cargo keeps both.
const READERS: [&str; 6] = ["granit-parser", "h2", "http", "httparse", "rustls", "serde-saphyr"];
/// libFuzzer itself, which looks through all counters after every input.
const ENGINE_CRATE: &str = "bolero-libfuzzer";
/// What cargo calls a crate when it asks which configuration a target has.
const QUESTION: &str = "___";
/// How the file's name begins that this program is called by as a compiler.
const NAME: &str = "rustc-with-counters-";

/// This program, under the name by which it is a compiler.
#[derive(Debug)]
pub(super) struct Wrapper {
    path: PathBuf,
}

impl Wrapper {
    /// Puts it below `target`.
    pub(super) fn install() -> Result<Self> {
        let folder = workspace::target_dir()?.join("fuzz-compiler");
        let mut hasher = DefaultHasher::new();
        (COUNTERS, READERS).hash(&mut hasher);
        let path = folder.join(format!("{NAME}{:016x}", hasher.finish()));
        fs::create_dir_all(&folder)?;
        if path.is_symlink() {
            fs::remove_file(&path)?;
        }
        symlink(env::current_exe()?, &path).with_context(|| format!("{} can't be made", path.display()))?;
        Ok(Self { path })
    }

    /// Has cargo compile with it.
    pub(super) fn configure(&self, cargo: &mut Command) {
        cargo
            .env("RUSTC_WRAPPER", &self.path)
            .env("RUSTC_WORKSPACE_WRAPPER", &self.path)
            .env("CARGO_INCREMENTAL", "0");
        for name in READERS.iter().chain([&ENGINE_CRATE]) {
            cargo.args(["--config", &format!("profile.dev.package.{name}.opt-level=1")]);
        }
    }
}

/// Compiles and ends, if it is as a compiler that this program was called.
pub(crate) fn compile_if_asked() -> Result<()> {
    let mut arguments = env::args_os();
    let Some(name) = arguments.next() else { return Ok(()) };
    let is_called = Path::new(&name)
        .file_name()
        .is_some_and(|file| file.to_str().is_some_and(|file| file.starts_with(NAME)));
    if !is_called {
        return Ok(());
    }
    let mut rest: Vec<OsString> = arguments.collect();
    // The wrapper of all crates is called with that of the workspace's, if it is one of these.
    let is_ours = rest.first() == Some(&name);
    if is_ours {
        rest.remove(0);
    }
    let [compiler, arguments @ ..] = &*rest else {
        bail!("cargo names no compiler")
    };
    let error = Command::new(compiler)
        .args(arguments)
        .args(flags(is_ours, arguments))
        .exec();
    Err(error).with_context(|| format!("{} can't be started", compiler.display()))
}

/// What is added to the arguments of rustc.
fn flags(is_ours: bool, arguments: &[OsString]) -> &'static [&'static str] {
    let name = value(arguments, "--crate-name")
        .and_then(OsStr::to_str)
        .unwrap_or_default();
    if name == QUESTION || name.starts_with("bolero") {
        return &ENGINE;
    }
    // What runs while others are compiled.
    let is_tool =
        name.starts_with("build_script_") || value(arguments, "--crate-type") == Some(OsStr::new("proc-macro"));
    let is_reader = || READERS.iter().any(|reader| reader.replace('-', "_") == name);
    if !is_tool && (is_ours && !name.is_empty() || is_reader()) {
        return &COUNTERS;
    }
    &[]
}

/// The value of an argument.
fn value<'a>(arguments: &'a [OsString], name: &str) -> Option<&'a OsStr> {
    let place = arguments.iter().position(|argument| argument == name)?;
    arguments.get(place + 1).map(OsString::as_os_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_where_inputs_are_read() {
        let added = |is_ours, arguments: &str| {
            let arguments: Vec<OsString> = arguments.split(' ').map(OsString::from).collect();
            flags(is_ours, &arguments)
        };
        assert_eq!(
            added(true, "--crate-name edge_proxy --crate-type lib src/lib.rs"),
            COUNTERS
        );
        assert_eq!(added(true, "--crate-name targets --test"), COUNTERS);
        assert_eq!(added(false, "--crate-name serde_saphyr --crate-type lib"), COUNTERS);
        assert_eq!(added(false, "--crate-name bolero_libfuzzer --crate-type lib"), ENGINE);
        assert_eq!(added(true, "- --crate-name ___ --print=cfg"), ENGINE);
        let nothing: [&str; 0] = [];
        assert_eq!(added(false, "--crate-name hyper --crate-type lib"), nothing);
        assert_eq!(added(true, "--crate-name build_script_build --crate-type bin"), nothing);
        assert_eq!(added(true, "--crate-name ours --crate-type proc-macro"), nothing);
        assert_eq!(added(true, "-vV"), nothing);
    }
}
