//! `cargo xtask gen`: files that are made from others and checked in, so that a build needs neither the tools nor the
//! sources they are made with. A test makes them again and compares.
//!
//! `edge-xds/src/envoy.fds` is the descriptors of Envoy's v3 API in the version that `Cargo.lock` pins for `envoy-types`;
//! `charts/gateway-crds-helm/templates` holds the definitions of our own kinds, made from the types of `edge-crds`, and
//! `edge-admission/definitions` the schemas of these and of Gateway API's, by which objects are judged offline.

mod compile;
mod judged;
mod qualify;
mod strip;

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
    let mut files = vec![(DESCRIPTORS.to_owned(), descriptors(&root)?)];
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

/// The crate whose proto tree is compiled.
const SOURCE_CRATE: &str = "envoy-types";

fn descriptors(root: &Path) -> Result<Vec<u8>> {
    let tree = proto_tree(root)?;
    let full = compile::descriptor_set(&tree)?;
    strip::strip(&full)
}

fn workspace_root() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .parent()
        .map(Path::to_path_buf)
        .context("xtask has no folder above it")
}

/// Folder of the `.proto` files in the locked version of the source crate.
fn proto_tree(root: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            "host-tuple",
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
    Ok(folder.join("proto"))
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
    fn checked_in_descriptors_are_those_of_the_locked_version() {
        let root = workspace_root().unwrap();
        let found = std::fs::read(root.join(DESCRIPTORS)).unwrap();
        assert!(
            found == descriptors(&root).unwrap(),
            "{DESCRIPTORS} is out of date: run `cargo xtask gen`"
        );
    }
}
