//! Services of others that scenarios talk to, built from their Go modules, unmodified.

use crate::workspace;
use anyhow::{Result, bail};
use std::{path::PathBuf, process::Command};

/// Builds the OpenID Provider that scenarios log in at, and gives the folder it is in. Go's own cache says what is up to
/// date.
pub(crate) fn build_provider() -> Result<PathBuf> {
    let folder = workspace::target_dir()?.join("services");
    let mut command = Command::new("sh");
    command
        .arg("provider/build.sh")
        .arg(&folder)
        .current_dir(workspace::root()?.join("e2e"));
    if !command.status()?.success() {
        bail!(
            "the OpenID Provider (e2e/provider) doesn't build: it needs Go, from https://go.dev/dl and on the PATH, and its \
             modules"
        );
    }
    Ok(folder)
}
