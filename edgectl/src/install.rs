//! `edgectl x install` and `edgectl x uninstall`: the controller in a cluster, without Helm.
//!
//! The objects are those of the chart ([`objects`], made from the chart's [`values`]); `crate::cluster` speaks with the
//! cluster. What was installed is listed in a ConfigMap beside it, so that the next installation and the end of all of
//! them know it.

use crate::cluster::{Connection, client, inventory::Inventory, objects::Objects, progress::Progress};
use anyhow::{Context, Result, ensure};
use edge_translate::{Settings, load::Source};
use edge_xds::bootstrap;
use serde_json::Value;
use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};

mod classes;
mod definitions;
mod images;
pub mod objects;
mod rivals;
mod steps;
pub mod values;

use objects::Release;
use steps::Removal;

/// The label that says who keeps an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Who we are there.
pub const MANAGER: &str = "edgectl";
/// Who the controller is there, and the job that makes its certificates.
pub const CONTROLLER: &str = "edge-gateway";
/// The label that says of which installation an object is.
pub const INSTANCE: &str = "app.kubernetes.io/instance";

/// Which installation.
#[derive(Clone, Debug, clap::Args)]
pub struct Target {
    /// Name of the installation.
    #[arg(long, default_value = "edge-gateway", value_parser = subdomain)]
    pub name: String,
    /// Namespace of the controller; each tenant has its own.
    #[arg(short, long, default_value = "edge-gateway-system", value_parser = subdomain)]
    pub namespace: String,
    /// Longest wait for each step.
    #[arg(long, default_value = "300s", value_parser = duration)]
    pub timeout: Duration,
    /// Prints what would be done, and does nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Tells each step on a line of its own, on a terminal too.
    #[arg(long)]
    pub debug: bool,
    #[command(flatten)]
    connection: Connection,
}

/// What to install.
#[derive(Clone, Debug, clap::Args)]
pub struct InstallArgs {
    #[command(flatten)]
    target: Target,
    /// Leaves the definitions of kinds as they are.
    #[arg(long, conflicts_with = "only_crds")]
    skip_crds: bool,
    /// Installs the definitions of kinds, and nothing else.
    #[arg(long)]
    only_crds: bool,
    /// Definitions of Gateway API over those that are there: a file, e.g. its experimental-install.yaml. Without it,
    /// those of its standard channel are installed where the cluster has none.
    #[arg(long, value_name = "FILE")]
    gateway_api: Option<PathBuf>,
    /// Version of the images, wherever they are; without it, that of this program.
    #[arg(long = "version", value_name = "VERSION")]
    version: Option<String>,
    /// Values over those of the chart. May be given again.
    #[arg(short = 'f', long = "values", value_name = "FILE")]
    values: Vec<PathBuf>,
    /// One value, e.g. deployment.replicas=2. May be given again.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// Writes the objects into a file as well.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What to remove.
#[derive(Clone, Debug, clap::Args)]
pub struct UninstallArgs {
    #[command(flatten)]
    target: Target,
    /// Removes the definitions of our kinds too, and with them every object of these kinds.
    #[arg(long)]
    with_crds: bool,
    /// Waits until everything is gone. The controller is waited for in any case.
    #[arg(long)]
    wait: bool,
}

impl Target {
    fn progress(&self) -> Progress {
        match self.debug {
            true => Progress::of_lines(),
            false => Progress::start(),
        }
    }
}

/// A name that a namespace can have, and objects named after an installation.
fn label(text: &str) -> Result<String, String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match text.chars().all(is_part) && !text.is_empty() && text.len() <= 63 && text.trim_matches('-') == text {
        true => Ok(text.to_owned()),
        false => Err("write at most 63 small letters, digits and '-', no '-' at an end".to_owned()),
    }
}

/// A name of an installation, of which others are made; as Helm has it, with dots.
fn subdomain(text: &str) -> Result<String, String> {
    text.split('.').try_for_each(|part| label(part).map(drop))?;
    Ok(text.to_owned())
}

/// A time such as `300s` or `5m`.
fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "s" | "" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(format!("{text:?} is no time; write e.g. 300s or 5m")),
    };
    let seconds = number
        .parse::<u32>()
        .map_err(|_| format!("{text:?} is no time; write e.g. 300s or 5m"))?;
    Ok(Duration::from_secs(u64::from(seconds) * factor))
}

/// Everything that an installation consists of.
#[derive(Debug)]
struct Parts {
    /// Of Gateway API, for a cluster that has none.
    gateway_api: Vec<Value>,
    definitions: Vec<Value>,
    workload: Vec<Value>,
    release: Release,
}

impl Parts {
    /// All objects, as YAML.
    fn text(&self) -> Result<String> {
        let mut text = String::new();
        for object in &self.gateway_api {
            text.push_str("---\n# Installed where the cluster has no definitions of Gateway API.\n");
            text.push_str(&serde_yaml::to_string(object)?);
        }
        for object in self.definitions.iter().chain(&self.workload) {
            text.push_str("---\n");
            text.push_str(&serde_yaml::to_string(object)?);
        }
        Ok(text)
    }
}

impl InstallArgs {
    fn parts(&self) -> Result<Parts> {
        let mut values = values::read(&self.values, &self.settings)?;
        if let Some(version) = &self.version {
            images::set_version(&mut values, version)?;
        }
        let namespace = match values["namespaceOverride"].as_str() {
            Some(namespace) if !namespace.is_empty() => namespace,
            _ => &self.target.namespace,
        };
        let release = Release {
            name: self.target.name.clone(),
            namespace: namespace.to_owned(),
        };
        let (mut gateway_api, mut definitions) = (Vec::new(), Vec::new());
        if !self.skip_crds && values["crds"]["enabled"] != false {
            match &self.gateway_api {
                Some(path) => definitions.extend(definitions::read(path)?),
                None => gateway_api = objects::gateway_api()?,
            }
            definitions.extend(objects::definitions()?);
        }
        let workload = match self.only_crds {
            true => Vec::new(),
            false => objects::workload(&values, &release),
        };
        check_configuration(&workload)?;
        Ok(Parts {
            gateway_api,
            definitions,
            workload,
            release,
        })
    }
}

/// A controller that refuses its configuration never gets ready: that is told before anything is changed.
fn check_configuration(objects: &[Value]) -> Result<()> {
    for text in objects
        .iter()
        .filter_map(|object| object["data"]["edge-gateway.yaml"].as_str())
    {
        let source = Source {
            name: "edge-gateway.yaml",
            text,
        };
        let told: Vec<String> = match edge_admission::configuration(&source, |_| Vec::new()) {
            Ok((config, _)) => {
                let default = Settings::of(&config, Some(bootstrap::check)).check_default_proxy();
                default.err().into_iter().collect()
            }
            Err(findings) => findings.into_iter().map(|finding| finding.message).collect(),
        };
        ensure!(
            told.is_empty(),
            "the controller would refuse its configuration (config.edgeGateway): {}",
            told.join("; ")
        );
    }
    Ok(())
}

/// Installs.
///
/// # Errors
/// When something can't be read, isn't allowed, or doesn't get ready in time.
pub fn install(args: &InstallArgs) -> Result<()> {
    let parts = args.parts()?;
    if args.target.dry_run || args.output.is_some() {
        let text = parts.text()?;
        if let Some(path) = &args.output {
            fs::write(path, &text).with_context(|| format!("{} can't be written", path.display()))?;
        }
        if args.target.dry_run {
            return Ok(io::stdout().write_all(text.as_bytes())?);
        }
    }
    client::block_on(async {
        let objects = Objects::new(args.target.connection.client().await?, args.target.timeout);
        steps::install(&objects, &parts, &mut args.target.progress()).await
    })
}

/// Uninstalls.
///
/// # Errors
/// When the cluster can't be asked, or something isn't allowed.
pub fn uninstall(args: &UninstallArgs) -> Result<()> {
    client::block_on(async {
        let target = &args.target;
        let objects = Objects::new(target.connection.client().await?, target.timeout);
        let installed = Inventory::read(&objects, &target.name, &target.namespace).await?;
        let removal = Removal {
            installed,
            definitions: match args.with_crds {
                true => definitions::entries(&objects::definitions()?),
                false => Vec::new(),
            },
            waits: args.wait,
        };
        removal.check(&objects).await?;
        if target.dry_run {
            let mut out = io::stdout();
            for entry in removal.entries() {
                writeln!(out, "would remove {entry}")?;
            }
            return Ok(());
        }
        steps::uninstall(&objects, &removal, &mut target.progress()).await
    })
}
