//! `edgectl config`: what proxies and the controller in a cluster have in force, by their own words.

use crate::{
    cli::OutputFormat,
    cluster::{
        client,
        pods::{self, PodSelection, Running, Which},
    },
    kinds,
    translate::show::write_value,
};
use anyhow::{Context, Result};
use edge_translate::api::Kind;
use edge_xds::json::{Codec, Names};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{self, Write as _},
};

/// Where the upstream service of rate limits tells what it has in force (`DEBUG_PORT` of envoyproxy/ratelimit).
const RATE_LIMIT_DEBUG_PORT: u16 = 6070;

/// Whose configuration.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum ConfigCommand {
    /// What proxies have.
    #[command(name = "envoy-proxy", visible_aliases = ["edge-proxy", "proxy"])]
    Proxy(ProxyArgs),
    /// What the controller says of the resources that it reads.
    #[command(name = "envoy-gateway", visible_aliases = ["edge-gateway", "gateway"])]
    Gateway(GatewayArgs),
    /// What the service of global rate limits counts, as it says itself.
    #[command(name = "envoy-ratelimit", visible_aliases = ["edge-ratelimit", "ratelimit", "rl"])]
    RateLimit(RateLimitArgs),
}

/// What to show of proxies.
#[derive(Clone, Debug, clap::Args)]
pub struct ProxyArgs {
    /// The part of the configuration.
    #[arg(value_enum)]
    part: Part,
    /// The pod; without it, those of --labels or of all namespaces.
    pod: Option<String>,
    /// Format of the output.
    #[arg(short, long, value_enum, default_value = "json")]
    output: OutputFormat,
    #[command(flatten)]
    place: PodSelection,
}

/// Types of the messages that a dump is made of.
const DUMPS: &str = "type.googleapis.com/envoy.admin.v3.";

/// A part of a proxy's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Everything.
    All,
    /// The bootstrap.
    #[value(alias = "b")]
    Bootstrap,
    /// Clusters.
    #[value(alias = "c")]
    Cluster,
    /// Endpoints.
    #[value(alias = "e")]
    Endpoint,
    /// Listeners.
    #[value(alias = "l")]
    Listener,
    /// Route configurations.
    #[value(alias = "r")]
    Route,
}

impl Part {
    /// The message of Envoy's admin API (envoy.admin.v3) that holds it.
    fn message(self) -> Option<&'static str> {
        match self {
            Self::All => None,
            Self::Bootstrap => Some("BootstrapConfigDump"),
            Self::Cluster => Some("ClustersConfigDump"),
            Self::Endpoint => Some("EndpointsConfigDump"),
            Self::Listener => Some("ListenersConfigDump"),
            Self::Route => Some("RoutesConfigDump"),
        }
    }

    /// This part of a dump.
    fn of(self, dump: Value) -> Value {
        let Some(message) = self.message() else {
            return dump;
        };
        let is_meant = |config: &&Value| {
            let name = config["@type"].as_str().and_then(|url| url.strip_prefix(DUMPS));
            name == Some(message)
        };
        let configs = dump["configs"].as_array();
        configs
            .and_then(|configs| configs.iter().find(is_meant).cloned())
            .unwrap_or(Value::Null)
    }
}

/// What to show of the controller.
#[derive(Clone, Debug, clap::Args)]
pub struct GatewayArgs {
    /// Kind of the resources, or its short name; `all` for every kind.
    #[arg(value_parser = kind, default_value = "all")]
    resource: String,
    /// Format of the output.
    #[arg(short, long, value_enum, default_value = "json")]
    output: OutputFormat,
    #[command(flatten)]
    place: PodSelection,
}

/// What to show of the service of global rate limits.
#[derive(Clone, Debug, clap::Args)]
pub struct RateLimitArgs {
    #[command(flatten)]
    place: PodSelection,
}

fn kind(text: &str) -> Result<String, String> {
    if text == "all" {
        return Ok(text.to_owned());
    }
    match kinds::find(text) {
        Some(kind) => Ok(kind.to_string()),
        None => {
            let known = kinds::list(Kind::ALL.iter().copied());
            Err(format!("no such kind; there are all, {known}"))
        }
    }
}

/// A dump with the names that `edgectl x translate` writes too. What nobody here knows (an extension of another build
/// of the proxy) stays as the proxy writes it.
fn in_camel_case(dump: Value) -> Value {
    const DUMP: &str = "envoy.admin.v3.ConfigDump";
    let renamed = Codec::cached().ok().and_then(|codec| {
        let bytes = codec.bytes_from_json(DUMP, dump.clone()).ok()?;
        codec.bytes_to_json(DUMP, &bytes, Names::Camel).ok()
    });
    renamed.unwrap_or(dump)
}

/// Pages by namespace and pod.
type ByPod = BTreeMap<String, BTreeMap<String, Value>>;

/// Runs a command.
///
/// # Errors
/// When the cluster or a pod can't be asked.
pub fn run(command: &ConfigCommand) -> Result<()> {
    let (pages, output) = match command {
        ConfigCommand::Proxy(args) => {
            let which = args.place.proxies(args.pod.as_deref())?;
            let mut pages = ask(&args.place, which, "/config_dump?include_eds")?;
            for dump in pages.values_mut().flat_map(BTreeMap::values_mut) {
                *dump = args.part.of(in_camel_case(dump.take()));
            }
            (pages, args.output)
        }
        ConfigCommand::Gateway(args) => {
            let path = format!("/api/config_dump?resource={}", args.resource);
            (ask(&args.place, args.place.controllers(), &path)?, args.output)
        }
        ConfigCommand::RateLimit(args) => return limits(&args.place),
    };
    write_value(&pages, output, &mut io::stdout().lock())
}

/// Prints what each pod of the rate limit service counts. It is text of the service's own; where several pods run, a
/// line before it names the pod.
fn limits(place: &PodSelection) -> Result<()> {
    let pages = client::block_on(async {
        let client = place.connection.client().await?;
        let which = place.rate_limits();
        let found = place.find(&client, which).await.context(
            "the controller makes the service of global rate limits where its configuration has `rateLimit`",
        )?;
        let at_debug_port = |pod| Running {
            admin_port: RATE_LIMIT_DEBUG_PORT,
            ..pod
        };
        let found = found.into_iter().map(at_debug_port).collect();
        pods::pages(&client, which, found, "/rlconfig").await
    })?;
    let mut out = io::stdout().lock();
    for (pod, text) in &pages {
        if pages.len() > 1 {
            writeln!(out, "# {pod}")?;
        }
        out.write_all(text)?;
        if !text.ends_with(b"\n") && !text.is_empty() {
            writeln!(out)?;
        }
    }
    Ok(())
}

fn ask(place: &PodSelection, which: Which<'_>, path: &str) -> Result<ByPod> {
    client::block_on(async {
        let client = place.connection.client().await?;
        let mut pages = ByPod::new();
        let found = place.find(&client, which).await?;
        for (pod, body) in pods::pages(&client, which, found, path).await? {
            let page = serde_json::from_slice(&body).context("its answer is not JSON")?;
            let Running { namespace, name, .. } = pod;
            pages.entry(namespace).or_default().insert(name, page);
        }
        Ok(pages)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_part_is_found_by_its_type() {
        let dump = json!({"configs": [
            {"@type": "type.googleapis.com/envoy.admin.v3.ClustersConfigDump", "a": 1},
            {"@type": "type.googleapis.com/envoy.admin.v3.ScopedRoutesConfigDump"},
            {"@type": "type.googleapis.com/envoy.admin.v3.RoutesConfigDump", "b": 2},
        ]});
        assert_eq!(Part::Route.of(dump.clone())["b"], 2);
        assert_eq!(Part::Endpoint.of(dump.clone()), Value::Null, "the proxy has none");
        assert_eq!(Part::All.of(dump.clone()), dump);
    }

    #[test]
    fn names_are_those_of_translations() {
        let routes = "type.googleapis.com/envoy.admin.v3.RoutesConfigDump";
        let dump = json!({"configs": [{"@type": routes, "dynamic_route_configs": [{"version_info": "1"}]}]});
        assert_eq!(
            Part::Route.of(in_camel_case(dump)),
            json!({"@type": routes, "dynamicRouteConfigs": [{"versionInfo": "1"}]})
        );
        let foreign = json!({"configs": [{"@type": "type.googleapis.com/some.Other", "a_b": 1}]});
        assert_eq!(
            in_camel_case(foreign.clone()),
            foreign,
            "unknown, and shown all the same"
        );
    }

    #[test]
    fn kinds_are_known_by_both_names() {
        assert_eq!(kind("hr").unwrap(), "HTTPRoute");
        assert_eq!(kind("gatewayclass").unwrap(), "GatewayClass");
        for name in ["listenerset", "lset"] {
            assert_eq!(kind(name).unwrap(), "ListenerSet");
        }
        for name in ["gw", "gtw"] {
            assert_eq!(kind(name).unwrap(), "Gateway", "a name of any command");
        }
        assert!(kind("pod").unwrap_err().contains("GatewayClass (gc)"));
    }
}
