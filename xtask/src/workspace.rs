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

/// How the programs are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        let mut command = cargo()?;
        command.args(["build", "--locked", "--profile", profile.name()]);
        match profile {
            // With the features of the whole workspace, as tests are compiled: the dependencies are there then.
            Profile::Dev => command.args([
                "--workspace",
                "--bin",
                "edgegateway",
                "--bin",
                "edge-proxy",
                "--bin",
                "edgectl",
            ]),
            // With their own features, as they are installed.
            Profile::Release | Profile::Dist => {
                command.args(["-p", "edge-runtime", "-p", "edge-proxy", "-p", "edgectl", "--bins"])
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
