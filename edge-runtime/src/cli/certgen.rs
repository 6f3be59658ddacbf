//! `edgegateway certgen`: certificates on this machine or in a cluster.

use super::{say, variable};
use crate::{
    Error,
    certs::{self, Existing, Installation, Outcome, Webhook},
    cluster::{client, fault},
    folders,
};
use clap::Args;
use edge_translate::Settings;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct CertgenArgs {
    /// Write files on this machine, for standalone mode, instead of Secrets into the cluster.
    #[arg(short, long)]
    local: bool,
    /// Folder of the configuration; certificates go to `certs` in it. Default: ~/.config/edge-gateway
    #[arg(long, value_name = "DIR", requires = "local")]
    config_home: Option<PathBuf>,
    /// Replace certificates that are there already.
    #[arg(short, long)]
    overwrite: bool,
    /// Leave the configuration of the topology injector's webhook alone.
    #[arg(long, conflicts_with = "local")]
    disable_topology_injector: bool,
}

pub(super) fn certgen(args: CertgenArgs) -> Result<(), Error> {
    let existing = match args.overwrite {
        true => Existing::Overwrite,
        false => Existing::Keep,
    };
    match args.local {
        true => local(args.config_home, existing),
        false => in_cluster(existing, args.disable_topology_injector),
    }
}

fn local(config_home: Option<PathBuf>, existing: Existing) -> Result<(), Error> {
    let folder = config_home.map_or_else(folders::config_home, Ok)?.join("certs");
    let settings = Settings::default();
    let outcome = certs::ensure(&folder, &settings.controller_namespace, &settings.dns_domain, existing)?;
    tell(&outcome, &folder.display().to_string())
}

fn in_cluster(existing: Existing, leaves_webhook: bool) -> Result<(), Error> {
    let default = Settings::default();
    let namespace = variable("EDGE_GATEWAY_NAMESPACE").unwrap_or(default.controller_namespace);
    let dns_domain = variable("KUBERNETES_CLUSTER_DOMAIN").unwrap_or(default.dns_domain);
    let place = Installation {
        namespace: &namespace,
        dns_domain: &dns_domain,
        describe: fault::describe,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| Error::System {
        purpose: "can't start the runtime",
        source,
    })?;
    runtime.block_on(async {
        let client = client::infer().await?;
        let outcome = certs::ensure_secrets(client.clone(), &place, existing).await?;
        tell(&outcome, &format!("Secrets of namespace {namespace}"))?;
        if leaves_webhook {
            return Ok(());
        }
        match certs::trust_webhook(client, &place).await? {
            Webhook::Trusting => say("the topology injector's webhook trusts the authority\n"),
            Webhook::Absent => say("there is no webhook of the topology injector; run this again when there is\n"),
        }
    })
}

fn tell(outcome: &Outcome, place: &str) -> Result<(), Error> {
    say(&match outcome {
        Outcome::Made => format!("certificates were made in {place}\n"),
        Outcome::Renewed(which) => format!("certificates were renewed in {place}: {which}\n"),
        Outcome::Kept => format!("certificates in {place} are complete and stay (--overwrite replaces them)\n"),
    })
}
