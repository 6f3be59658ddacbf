//! Clients of the API server.

use super::terms::ClientLimits;
use super::{bounded::Bounded, fault::describe, throttle::Throttle};
use crate::Error;
use kube::{Client, Config, client::ClientBuilder};
use std::{fmt, time::Duration};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take to begin, a watch's included: as long as an API server itself takes for a request.
const ANSWER: Duration = Duration::from_secs(60);
/// How long nothing may come of an answer that has begun. A watch hears a bookmark every minute, and ends after less
/// than five.
const SILENCE: Duration = Duration::from_secs(295);

/// Clients of the API server; cheap to clone.
#[derive(Clone)]
pub struct Api {
    requests: Client,
    urgent: Client,
    address: String,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Api {
    /// Finds the API server as `kubectl` does: by KUBECONFIG or `~/.kube/config`, else by the ServiceAccount of the
    /// pod. Whether it answers isn't asked.
    pub async fn connect(limits: ClientLimits) -> Result<Self, Error> {
        let mut config = infer_config().await?;
        let address = config.cluster_url.to_string();
        // Whoever asks tries again himself, by his own pauses, and says that he has to. Retries below the limits would
        // be neither seen nor counted.
        config.default_retry = false;
        let builder = |config| ClientBuilder::try_from(config).map_err(|error| unfound(&describe(&error)));
        let bounded = tower::layer::layer_fn(|inner| Bounded::new(inner, ANSWER));
        let throttle = tower::layer::layer_fn(move |inner| Throttle::new(inner, limits));
        let requests = builder(config.clone())?
            .with_layer(&bounded)
            .with_layer(&throttle)
            .build();
        let urgent = builder(config)?.with_layer(&bounded).build();
        Ok(Self {
            requests,
            urgent,
            address,
        })
    }

    /// For nearly everything: its requests keep to the limits that the configuration sets, in the order in which they
    /// are made.
    pub fn client(&self) -> Client {
        self.requests.clone()
    }

    /// For what must not wait behind others, and limits itself: the lease of the leader.
    pub fn urgent(&self) -> Client {
        self.urgent.clone()
    }

    /// Where the API server is.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A client that is somebody else's.
    #[cfg(test)]
    pub fn of(client: Client) -> Self {
        Self {
            requests: client.clone(),
            urgent: client,
            address: "test".to_owned(),
        }
    }
}

/// A client for a command that asks little and once.
pub async fn infer() -> Result<Client, Error> {
    Client::try_from(infer_config().await?).map_err(|error| unfound(&describe(&error)))
}

async fn infer_config() -> Result<Config, Error> {
    let mut config = Config::infer().await.map_err(|error| unfound(&error.to_string()))?;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    Ok(config)
}

fn unfound(problem: &str) -> Error {
    Error::Cluster(format!(
        "the API server can't be found: {problem}; set KUBECONFIG, run as a pod with a ServiceAccount, or work on this \
         machine alone (provider.type: Custom, certgen --local)"
    ))
}
