//! `edgectl x collect`: what helps to find a fault, in one archive to look at elsewhere.
//!
//! Resources with their statuses, what runs and what happened in the namespaces of the controller and its fleets, and
//! of each pod there its log, its metrics and its configuration. Of Secrets only what they are called. What can't be
//! had is named in the archive and on standard error, and the rest is collected all the same.

mod bundle;
mod pages;
mod resources;

use crate::cluster::{
    Connection, client,
    pods::{self, CONTROLLERS, PROXIES, Which},
};
use anyhow::{Context, Result};
use bundle::Bundle;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use pages::Secrets;
use std::{
    collections::BTreeSet,
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// What to collect, and into which file.
#[derive(Clone, Debug, clap::Args)]
pub struct CollectArgs {
    /// The archive; without it edge-gateway-<time>.tar.gz in this folder.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only what is in these namespaces; without it, all that has to do with Edge Gateway.
    #[arg(short, long, visible_alias = "namespace", value_delimiter = ',')]
    namespaces: Vec<String>,
    /// Also which certificates and secrets proxies have; never their keys.
    #[arg(long)]
    sds: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Writes the archive, and prints its name.
///
/// # Errors
/// When the cluster can't be asked for its pods, or the archive can't be written.
pub fn run(args: &CollectArgs) -> Result<()> {
    let name = format!("edge-gateway-{}", Timestamp::now().strftime("%Y%m%dT%H%M%SZ"));
    let path = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{name}.tar.gz")));
    let archive = client::block_on(Box::pin(collect(args, Bundle::new(&name))))?;
    write(&path, &archive)?;
    Ok(writeln!(io::stdout(), "{}", path.display())?)
}

async fn collect(args: &CollectArgs, mut bundle: Bundle) -> Result<Vec<u8>> {
    let client = args.connection.client().await?;
    let proxies = list(&client, &args.namespaces, PROXIES).await?;
    let controllers = list(&client, &args.namespaces, CONTROLLERS).await?;
    let places: BTreeSet<String> = proxies.iter().chain(&controllers).filter_map(Pod::namespace).collect();
    resources::collect(&client, &args.namespaces, &places, &mut bundle).await;
    for pod in &controllers {
        pages::of_controller(&client, pod, &mut bundle).await;
    }
    let secrets = if args.sds { Secrets::Named } else { Secrets::Nothing };
    for pod in &proxies {
        pages::of_proxy(&client, pod, secrets, &mut bundle).await;
    }
    bundle.finish()
}

/// Our pods of a kind, in some namespaces or in all.
async fn list(client: &Client, namespaces: &[String], labels: &str) -> Result<Vec<Pod>> {
    if namespaces.is_empty() {
        return pods::list(client, None, Which::Labelled(labels)).await;
    }
    let mut found = Vec::new();
    for namespace in namespaces {
        found.extend(pods::list(client, Some(namespace), Which::Labelled(labels)).await?);
    }
    Ok(found)
}

/// For the one who collects alone: it says much about a cluster.
fn write(path: &Path, archive: &[u8]) -> Result<()> {
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(archive));
    written.with_context(|| format!("{} can't be written", path.display()))
}
