//! Tier charts: what Helm says of the charts, and what it renders from them.
//!
//! `charts/golden/<case>` holds values and what becomes of them in a namespace of the case's name. Helm is compiled
//! from its Go module, at one version, into `target/tools`. With `EDGE_UPDATE` set the renders are written anew.

use super::Tally;
use crate::workspace;
use anyhow::{Context, Result, bail};
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
};

/// The module of Helm that we test with.
const MODULE: &str = "helm.sh/helm/v3/cmd/helm";
const VERSION: &str = "v3.22.0";
/// What the charts are rendered for.
const KUBERNETES: &str = "1.36.0";

/// Checks both charts and every case.
pub(super) fn run() -> Result<Tally> {
    let helm = helm()?;
    let charts = workspace::root()?.join("charts");
    let mut tally = Tally::default();
    let mut out = io::stdout();
    let mut count = |name: &str, result: Result<()>| -> Result<()> {
        match result {
            Ok(()) => tally.passed += 1,
            Err(error) => {
                let why = format!("{name}: {error:#}");
                writeln!(out, "{why}")?;
                tally += Tally::failure(why);
            }
        }
        Ok(())
    };
    for chart in ["gateway-helm", "gateway-crds-helm"] {
        count(&format!("lint {chart}"), lint(&helm, &charts.join(chart)))?;
    }
    for case in fs::read_dir(charts.join("golden"))? {
        let case = case?.path();
        let name = case.file_name().unwrap_or_default().to_string_lossy().into_owned();
        count(&name, render(&helm, &charts, &case, &name))?;
    }
    count("definitions", definitions(&helm, &charts))?;
    count("an injector that the configuration disables", injector(&helm, &charts))?;
    Ok(tally)
}

fn lint(helm: &Path, chart: &Path) -> Result<()> {
    let output = Command::new(helm)
        .args(["lint", "--strict", "--kube-version", KUBERNETES])
        .arg(chart)
        .output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stdout));
    }
    Ok(())
}

fn render(helm: &Path, charts: &Path, case: &Path, name: &str) -> Result<()> {
    let namespace = if name == "default" { "edge-gateway-system" } else { name };
    let values = case.join("values.yaml");
    let found = template(
        helm,
        charts,
        namespace,
        &["--set", "crds.enabled=false", "-f", &values.to_string_lossy()],
    )?;
    let path = case.join("rendered.yaml");
    if std::env::var_os("EDGE_UPDATE").is_some() {
        fs::write(&path, &found)?;
    }
    if fs::read_to_string(&path).unwrap_or_default() != found {
        bail!(
            "{} is not what Helm renders: EDGE_UPDATE=1 cargo xtask test --tier charts",
            path.display()
        );
    }
    Ok(())
}

/// With definitions the release holds those of the other chart, and nothing of them is taken for a template.
fn definitions(helm: &Path, charts: &Path) -> Result<()> {
    let found = template(helm, charts, "edge-gateway-system", &[])?;
    for file in fs::read_dir(charts.join("gateway-crds-helm/templates"))? {
        let path = file?.path();
        let text = fs::read_to_string(&path)?;
        if !found.contains(text.trim()) {
            bail!("{} is not rendered as it is", path.display());
        }
    }
    Ok(())
}

/// What the configuration switches off is gone as it is by the values.
fn injector(helm: &Path, charts: &Path) -> Result<()> {
    let render = |set: &str| {
        template(
            helm,
            charts,
            "edge-gateway-system",
            &["--set", "crds.enabled=false", "--set", set],
        )
    };
    let without = render("topologyInjector.enabled=false")?;
    if without.contains("MutatingWebhookConfiguration") {
        bail!("topologyInjector.enabled=false leaves the webhook");
    }
    if render("config.edgeGateway.provider.cluster.proxyTopologyInjector.disabled=true")? != without {
        bail!("config…proxyTopologyInjector.disabled=true isn't topologyInjector.enabled=false");
    }
    Ok(())
}

fn template(helm: &Path, charts: &Path, namespace: &str, more: &[&str]) -> Result<String> {
    let output = Command::new(helm)
        .args(["template", "edge-gateway"])
        .arg(charts.join("gateway-helm"))
        .args(["--kube-version", KUBERNETES, "--namespace", namespace])
        .args(more)
        .output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Helm, compiled where it isn't there.
pub(super) fn helm() -> Result<PathBuf> {
    let folder = workspace::target_dir()?.join("tools").join(format!("helm-{VERSION}"));
    let program = folder.join("helm");
    if program.is_file() {
        return Ok(program);
    }
    fs::create_dir_all(&folder)?;
    let status = Command::new("go")
        .args([
            "install",
            "-p",
            "2",
            "-ldflags",
            "-s -w",
            &format!("{MODULE}@{VERSION}"),
        ])
        .env("GOBIN", &folder)
        .env("GOFLAGS", "-buildvcs=false")
        .env("CGO_ENABLED", "0")
        .status()
        .context("Helm is compiled with Go: install it from https://go.dev/dl and put it on the PATH")?;
    if !status.success() {
        bail!("Helm {VERSION} doesn't compile; it needs Go 1.26 or newer, or one that may fetch it");
    }
    Ok(program)
}
