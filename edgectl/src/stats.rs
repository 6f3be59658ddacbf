//! `edgectl x stats`: what proxies in a cluster count.

use crate::{
    cli::OutputFormat,
    cluster::{
        client,
        pods::{self, PodSelection},
    },
    translate::show::write_value,
};
use anyhow::{Context, Result};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// Whose statistics.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum StatsCommand {
    /// Those of proxies.
    #[command(name = "envoy-proxy", visible_aliases = ["edge-proxy", "proxy", "ep"])]
    Proxy(StatsArgs),
}

/// Which statistics, and how they are shown.
#[derive(Clone, Debug, clap::Args)]
pub struct StatsArgs {
    /// The pod; without it, those of --labels or of all namespaces.
    pod: Option<String>,
    /// Format of the output.
    #[arg(short, long, value_enum, default_value = "prom")]
    output: Form,
    /// Statistics of everything, or the state of each cluster's endpoints.
    #[arg(short = 't', long = "type", value_enum, default_value = "server")]
    about: About,
    #[command(flatten)]
    place: PodSelection,
}

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// Text: Prometheus' format for statistics, and the proxy's own for clusters.
    Prom,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum About {
    /// The whole proxy.
    Server,
    /// Its clusters.
    #[value(alias = "cluster")]
    Clusters,
}

impl Form {
    fn structured(self) -> Option<OutputFormat> {
        match self {
            Self::Prom => None,
            Self::Json => Some(OutputFormat::Json),
            Self::Yaml => Some(OutputFormat::Yaml),
        }
    }
}

/// The proxy's page with it.
fn path(about: About, form: Form) -> &'static str {
    match (about, form) {
        (About::Server, Form::Prom) => "/stats/prometheus",
        (About::Server, _) => "/stats?format=json",
        (About::Clusters, Form::Prom) => "/clusters",
        (About::Clusters, _) => "/clusters?format=json",
    }
}

/// Runs a command.
///
/// # Errors
/// When the cluster or a pod can't be asked.
pub fn run(command: &StatsCommand) -> Result<()> {
    let StatsCommand::Proxy(args) = command;
    let which = args.place.proxies(args.pod.as_deref())?;
    let pages = client::block_on(async {
        let client = args.place.connection.client().await?;
        let mut pages = BTreeMap::new();
        let found = args.place.find(&client, which).await?;
        for (pod, page) in pods::pages(&client, which, found, path(args.about, args.output)).await? {
            pages.insert(pod.to_string(), page);
        }
        Ok(pages)
    })?;
    let mut out = io::stdout().lock();
    let Some(format) = args.output.structured() else {
        for (pod, page) in &pages {
            // A comment to whatever reads this format.
            writeln!(out, "# {pod}")?;
            out.write_all(page)?;
        }
        return Ok(());
    };
    let mut values: BTreeMap<&str, Value> = BTreeMap::new();
    for (pod, page) in &pages {
        let page = serde_json::from_slice(page);
        values.insert(pod, page.with_context(|| format!("{pod}: its answer is not JSON"))?);
    }
    write_value(&values, format, &mut out)
}
