//! Where things are: the workspace, its target folder, built binaries.

use anyhow::{Context, Result, bail};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Folder of the workspace.
pub(crate) fn root() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .parent()
        .map(Path::to_path_buf)
        .context("xtask has no folder above it")
}

/// Folder that cargo builds into.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let metadata = metadata()?;
    let path = metadata["target_directory"]
        .as_str()
        .context("cargo metadata names no target folder")?;
    Ok(path.into())
}

/// Cargo, the one that runs us where there is one.
pub(crate) fn cargo() -> Result<Command> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root()?);
    Ok(command)
}

/// What cargo knows about the packages of the workspace.
pub(crate) fn metadata() -> Result<serde_json::Value> {
    let output = cargo()?
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked"])
        .output()
        .context("cargo can't be started")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Something that cargo compiles a package into.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) package: String,
    pub(crate) name: String,
    /// Whether there are tests in it.
    pub(crate) is_tested: bool,
}

/// All of a kind, as cargo calls kinds: `lib`, `bin`, `test`.
pub(crate) fn targets(kind: &str) -> Result<Vec<Target>> {
    let metadata = metadata()?;
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let mut targets = Vec::new();
    for package in list(&metadata["packages"]) {
        for target in list(&package["targets"]).iter().filter(|t| t["kind"][0] == kind) {
            targets.push(Target {
                package: text(&package["name"]),
                name: text(&target["name"]),
                is_tested: target["test"] == true,
            });
        }
    }
    Ok(targets)
}

/// A build with the features that tests are compiled with, so that the dependencies are there. What is built is chosen
/// by name, never by package, for cargo unifies the features of what it is asked for; and it takes those that tests ask
/// of dependencies into account only if it is to compile a test, which is the smallest here.
pub(crate) fn build() -> Result<Command> {
    let mut command = cargo()?;
    command.args(["build", "--locked", "--workspace", "--test", "embedding"]);
    Ok(command)
}

/// How the programs are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Profile {
    /// Fast to build; what tests run.
    Dev,
    /// Fast to run, and fast enough to build for a first try.
    Release,
    /// As fast and as small as they get: what images hold, and what is measured.
    Dist,
}

impl Profile {
    /// What cargo calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Release => "release",
            Self::Dist => "dist",
        }
    }

    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
            Self::Dist => "dist",
        }
    }
}

/// The built programs.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Builds the controller, the proxy and the command line.
    pub(crate) fn build(profile: Profile) -> Result<Self> {
        let mut command = match profile {
            Profile::Dev => {
                let mut command = build()?;
                command.args(["--bin", "edgegateway", "--bin", "edge-proxy", "--bin", "edgectl"]);
                command
            }
            // With their own features, as they are installed.
            Profile::Release | Profile::Dist => {
                let mut command = cargo()?;
                command.args(["build", "--locked", "--profile", profile.name()]);
                command.args(["-p", "edge-runtime", "-p", "edge-proxy", "-p", "edgectl", "--bins"]);
                command
            }
        };
        if !command.status().context("cargo can't be started")?.success() {
            bail!("the programs don't build");
        }
        Ok(Self {
            folder: target_dir()?.join(profile.folder()),
        })
    }

    /// Programs that are there.
    pub(crate) fn built(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// Path of one of them.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// All in the folder of a library; a program here is one file.
    fn sources(kind: &str, start: &Path) -> Vec<PathBuf> {
        let mut found = vec![start.to_owned()];
        let mut folders = match (kind, start.parent()) {
            ("lib", Some(folder)) => vec![folder.to_owned()],
            _ => Vec::new(),
        };
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    found.push(path);
                }
            }
        }
        found
    }

    #[test]
    fn what_cargo_is_told_has_no_tests_has_none() {
        let metadata = metadata().unwrap();
        let packages = metadata["packages"].as_array().unwrap().iter();
        let targets = packages.flat_map(|package| package["targets"].as_array().unwrap());
        let mut count = 0;
        for target in targets.filter(|target| target["test"] == false) {
            let kind = target["kind"][0].as_str().unwrap();
            for path in sources(kind, Path::new(target["src_path"].as_str().unwrap())) {
                let text = fs::read_to_string(&path).unwrap();
                let mut lines = text.lines().map(str::trim_start);
                let test = lines.find(|line| {
                    let marks = ["#[cfg(test)]", "#[test]", "#[tokio::test"];
                    marks.iter().any(|mark| line.starts_with(mark))
                });
                assert_eq!(test, None, "{}: test = false", path.display());
                count += 1;
            }
        }
        assert!(count > 10, "files are looked at");
    }
}
