//! How a cluster is found, as `kubectl` finds it.

use anyhow::{Context, Result, anyhow};
use kube::{
    Client, Config, Error,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::{future::Future, path::PathBuf};

/// Which cluster.
#[derive(Clone, Debug, clap::Args)]
pub struct Connection {
    /// File that names clusters; without it KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of that file; without it, its current one.
    #[arg(long)]
    pub context: Option<String>,
}

impl Connection {
    /// A client of the cluster.
    ///
    /// # Errors
    /// When no cluster is named, or its file can't be read.
    pub async fn client(&self) -> Result<Client> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let config = match (&self.kubeconfig, &self.context) {
            (Some(path), _) => {
                let file = Kubeconfig::read_from(path).with_context(|| format!("{}", path.display()))?;
                Config::from_custom_kubeconfig(file, &options).await?
            }
            (None, Some(_)) => Config::from_kubeconfig(&options).await?,
            (None, None) => Config::infer()
                .await
                .context("no cluster is known: set KUBECONFIG or --kubeconfig")?,
        };
        Ok(Client::try_from(config)?)
    }
}

/// Runs a command that waits for a cluster.
///
/// # Errors
/// Those of the command.
pub fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}

/// What a cluster says about a request, and what to do.
pub fn explain(error: Error, what: &str) -> anyhow::Error {
    match error {
        Error::Api(status) => match status.code {
            401 => anyhow!(
                "{what}: the cluster doesn't know you ({}); log in again",
                status.message
            ),
            403 => anyhow!(
                "{what}: not allowed: {}. Use an account with that permission, e.g. one bound to ClusterRole \
                 cluster-admin",
                status.message
            ),
            404 => anyhow!("{what}: the cluster doesn't know this kind: {}", status.message),
            _ => anyhow!("{what}: {}", status.message),
        },
        other => anyhow::Error::new(other).context(format!("{what}: the cluster can't be asked")),
    }
}
