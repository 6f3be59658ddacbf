//! The controller as `edgectl` installs and removes it.

use crate::stack::program;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    fs,
    process::{Command, Output},
};

/// An installation in a namespace of its own, with its values.
#[derive(Clone, Debug)]
pub struct Installation {
    namespace: String,
    values: Value,
}

impl Installation {
    /// In a namespace, with values over those of the chart.
    pub fn new(namespace: &str, values: &Value) -> Self {
        Self {
            namespace: namespace.to_owned(),
            values: values.clone(),
        }
    }

    /// `edgectl x install`, and what it says.
    pub fn install(&self, more: &[&str]) -> Result<String> {
        let folder = tempfile::tempdir()?;
        let values = folder.path().join("values.yaml");
        fs::write(&values, self.values.to_string())?;
        let values = values.to_str().context("a path that is no text")?;
        let mut args = vec!["x", "install", "-n", &self.namespace, "-f", values];
        args.extend(more);
        done(&args)
    }

    /// `edgectl x uninstall`, and what it says.
    pub fn uninstall(&self, more: &[&str]) -> Result<String> {
        let mut args = vec!["x", "uninstall", "-n", &self.namespace];
        args.extend(more);
        done(&args)
    }
}

/// Runs `edgectl` and gives both of its outputs.
fn done(args: &[&str]) -> Result<String> {
    let Output { status, stdout, stderr } = Command::new(program("edgectl")?).args(args).output()?;
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr)
    );
    if !status.success() {
        bail!("edgectl {}: {status}\n{said}", args.join(" "));
    }
    Ok(said)
}
