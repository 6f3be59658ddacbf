//! `cargo xtask gen`: files that are made from others and checked in, so that a build needs neither the tools nor the
//! sources they are made with. A test makes them again and compares.
//!
//! `edge-xds/src/envoy.fds` is the descriptors of Envoy's v3 API in the version that `Cargo.lock` pins for
//! `envoy-types`, `edge-xds/src/patch/rules/envoy.rules` what values their fields take, and `edge-envoy/src/generated`
//! the Rust of those of its messages that we speak; `charts/gateway-crds-helm/templates` holds the definitions of our
//! own kinds, made from the types of `edge-crds`, and `edge-admission/definitions` the schemas of these and of Gateway
//! API's, by which objects are judged offline.

mod compile;
mod judged;
mod qualify;
mod rules;
mod strip;
mod types;

use anyhow::{Context, Result, bail};
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

/// What to do with the generated files.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Compare with what is checked in instead of writing.
    #[arg(long)]
    check: bool,
    /// Also the schemas of Gateway API's experimental channel, from the Go module that the conformance suite names.
    #[arg(long)]
    experimental: bool,
}

/// Writes (or checks) every generated file.
pub(crate) fn run(options: &Options) -> Result<()> {
    let root = workspace_root()?;
    let mut files = Vec::from(descriptors(&root)?);
    files.extend(messages(&root)?);
    if !options.check {
        // A package that is left out leaves no file behind.
        std::fs::remove_dir_all(root.join(MESSAGES)).ok();
        std::fs::create_dir_all(root.join(MESSAGES))?;
    }
    let definitions = edge_crds::definition::files().map_err(|error| anyhow::anyhow!(error))?;
    files.extend(
        definitions
            .into_iter()
            .map(|(name, text)| (format!("{DEFINITIONS}/{name}"), text.into_bytes())),
    );
    files.push((judged::OURS.to_owned(), judged::ours()?));
    files.push((judged::STANDARD.to_owned(), judged::standard(&root)?));
    if options.experimental {
        files.push((judged::EXPERIMENTAL.to_owned(), judged::experimental(&root)?));
    }
    let mut out = std::io::stdout();
    for (name, bytes) in &files {
        let path = root.join(name);
        if options.check {
            let found = std::fs::read(&path).with_context(|| format!("{} can't be read", path.display()))?;
            if found != *bytes {
                bail!("{name} is out of date: run `cargo xtask gen`");
            }
            writeln!(out, "{name} is up to date")?;
        } else {
            std::fs::write(&path, bytes).with_context(|| format!("{} can't be written", path.display()))?;
            writeln!(out, "{name}: {} bytes", bytes.len())?;
        }
    }
    Ok(())
}

/// Where the definitions of our own kinds are checked in; a test of `edge-crds` compares them.
const DEFINITIONS: &str = "charts/gateway-crds-helm/templates";

/// Where the descriptor set is checked in.
const DESCRIPTORS: &str = "edge-xds/src/envoy.fds";

/// Where the rules of values are.
const RULES: &str = "edge-xds/src/patch/rules/envoy.rules";

/// Where the Rust of messages is checked in.
const MESSAGES: &str = "edge-envoy/src/generated";

/// The crate that the definitions come from.
const SOURCE_CRATE: &str = "envoy-types";

fn messages(root: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let files = types::files(&source(root)?)?.into_iter();
    Ok(files.map(|(name, text)| (format!("{MESSAGES}/{name}"), text)).collect())
}

/// The descriptors, and the rules of values that are cut out of them.
fn descriptors(root: &Path) -> Result<[(String, Vec<u8>); 2]> {
    let full = compile::descriptor_set(&source(root)?.join("proto"))?;
    Ok([
        (DESCRIPTORS.to_owned(), strip::strip(&full)?),
        (RULES.to_owned(), rules::rules(&full)?),
    ])
}

fn workspace_root() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .parent()
        .map(Path::to_path_buf)
        .context("xtask has no folder above it")
}

/// Folder of the locked version of the source crate. It has the `.proto` files, and Rust that was made of them.
fn source(root: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            "host-tuple",
            "--features",
            "xtask/protos",
        ])
        .current_dir(root)
        .output()
        .context("cargo metadata can't be started")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let manifest = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == SOURCE_CRATE)
        .and_then(|package| package["manifest_path"].as_str())
        .with_context(|| format!("{SOURCE_CRATE} is not among the dependencies"))?;
    let folder = Path::new(manifest).parent().context("a manifest without folder")?;
    Ok(folder.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_judged_by_the_definitions_that_clusters_get() {
        let root = workspace_root().unwrap();
        let standard = judged::standard(&root).unwrap();
        for (name, expected) in [(judged::OURS, judged::ours().unwrap()), (judged::STANDARD, standard)] {
            let found = std::fs::read(root.join(name)).unwrap();
            assert!(found == expected, "{name} is out of date: run `cargo xtask gen`");
        }
    }

    #[test]
    fn checked_in_messages_are_those_of_the_locked_version() {
        let root = workspace_root().unwrap();
        let expected = messages(&root).unwrap();
        for (name, text) in &expected {
            let found = std::fs::read(root.join(name)).unwrap_or_default();
            assert!(found == *text, "{name} is out of date: run `cargo xtask gen`");
        }
        let there = std::fs::read_dir(root.join(MESSAGES)).unwrap().count();
        assert_eq!(there, expected.len(), "a file too many: run `cargo xtask gen`");
    }

    #[test]
    fn checked_in_descriptors_are_those_of_the_locked_version() {
        let root = workspace_root().unwrap();
        for (name, expected) in descriptors(&root).unwrap() {
            let found = std::fs::read(root.join(&name)).unwrap();
            assert!(found == expected, "{name} is out of date: run `cargo xtask gen`");
        }
    }
}
