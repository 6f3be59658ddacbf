//! The schemas by which objects are judged without a cluster: definitions of kinds without what only readers need.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::{fs, path::Path, process::Command};

/// Where those of our own kinds are checked in.
pub(super) const OURS: &str = "edge-admission/definitions/gateway-edge.json";
/// Where those of Gateway API's channels are checked in.
pub(super) const STANDARD: &str = "edge-admission/definitions/gateway-api-standard.json";
pub(super) const EXPERIMENTAL: &str = "edge-admission/definitions/gateway-api-experimental.json";
/// The definitions that `edgectl` installs, and that labs have.
const INSTALLED: &str = "edgectl/gateway-api";
/// The module that pins the version of Gateway API.
const PINNED_BY: &str = "e2e/kubelab/conformance";

/// Schemas of our own kinds.
pub(super) fn ours() -> Result<Vec<u8>> {
    written(edge_crds::definition::all()?)
}

/// Schemas of Gateway API's standard channel.
pub(super) fn standard(root: &Path) -> Result<Vec<u8>> {
    written(definitions(&root.join(INSTALLED))?)
}

/// Schemas of Gateway API's experimental channel.
pub(super) fn experimental(root: &Path) -> Result<Vec<u8>> {
    let output = Command::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api"])
        .current_dir(root.join(PINNED_BY))
        .env("GOTOOLCHAIN", "auto")
        .output()
        .context("go can't be started: install Go")?;
    let folder = String::from_utf8(output.stdout)?;
    if !output.status.success() || folder.trim().is_empty() {
        bail!(
            "go doesn't know the module: run `go mod download` in {PINNED_BY}. {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let folder = Path::new(folder.trim()).join("config/crd/experimental");
    written(definitions(&folder)?)
}

fn definitions(folder: &Path) -> Result<Vec<Value>> {
    let mut definitions = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{} can't be read", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let documents: Vec<Value> = serde_yaml::from_multiple(&fs::read_to_string(&path)?)
            .with_context(|| format!("{} is not YAML", path.display()))?;
        definitions.extend(
            documents
                .into_iter()
                .filter(|d| d["kind"] == "CustomResourceDefinition"),
        );
    }
    Ok(definitions)
}

/// A line for each version of a kind, so that a difference can be read.
fn written(definitions: Vec<Value>) -> Result<Vec<u8>> {
    let mut lines = Vec::new();
    for definition in definitions {
        let spec = &definition["spec"];
        let versions = spec["versions"].as_array().context("a definition without versions")?;
        for version in versions.iter().filter(|version| version["served"] == true) {
            let mut schema = version["schema"]["openAPIV3Schema"].clone();
            bare(&mut schema);
            if let Some(properties) = schema["properties"].as_object_mut() {
                // Others write it, and it isn't looked at when an object is made.
                properties.remove("status");
            }
            lines.push(serde_json::to_string(&json!({
                "group": spec["group"],
                "version": version["name"],
                "kind": spec["names"]["kind"],
                "schema": schema,
            }))?);
        }
    }
    lines.sort();
    Ok(format!("[\n{}\n]\n", lines.join(",\n")).into_bytes())
}

/// Takes descriptions away.
fn bare(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    keywords.remove("description");
    for (keyword, below) in keywords {
        match (keyword.as_str(), below) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(bare),
            ("items" | "additionalProperties" | "not", below) => bare(below),
            ("oneOf" | "anyOf" | "allOf", Value::Array(choices)) => choices.iter_mut().for_each(bare),
            _ => {}
        }
    }
}
