//! Pods, and the pages that their programs show on loopback: asked through the API server, so that no port is open.

use super::client::explain;
use anyhow::{Context, Result, anyhow, bail, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::ListParams};
use std::time::Duration;
use tokio::time::timeout;

/// Where both the controller and its proxies show their pages.
pub const ADMIN_PORT: u16 = 19000;
/// Longest wait for a page.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    /// One, by its name.
    Named(&'a str),
    /// Those with labels, in the form of `kubectl -l`.
    Labelled(&'a str),
}

/// A pod's place and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Running pods, in a namespace or in all.
///
/// # Errors
/// When the cluster can't be asked, or there are none.
pub async fn find(client: &Client, namespace: Option<&str>, which: Which<'_>) -> Result<Vec<PodName>> {
    let api: Api<Pod> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let params = match which {
        Which::Named(name) => ListParams::default().fields(&format!("metadata.name={name}")),
        Which::Labelled(labels) => ListParams::default().labels(labels),
    };
    let listed = api
        .list(&params)
        .await
        .map_err(|error| explain(error, "pods can't be listed"))?;
    let is_running = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    let mut found: Vec<PodName> = listed
        .items
        .iter()
        .filter(|pod| is_running(pod))
        .map(|pod| PodName {
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
        })
        .collect();
    found.sort();
    if found.is_empty() {
        let place = namespace.map_or_else(|| "any namespace".to_owned(), |name| format!("namespace {name}"));
        let what = match which {
            Which::Named(name) => format!("pod {name}"),
            Which::Labelled(labels) => format!("pod with labels {labels}"),
        };
        bail!("no {what} runs in {place}");
    }
    Ok(found)
}

/// A page of a pod's admin interface.
///
/// # Errors
/// When the pod can't be reached or shows no such page.
pub async fn page(client: &Client, pod: &PodName, path: &str) -> Result<Bytes> {
    let asked = timeout(PATIENCE, ask(client, pod, path)).await;
    let late = || anyhow!("no answer within {} s", PATIENCE.as_secs());
    asked
        .map_err(|_| late())
        .flatten()
        .with_context(|| format!("{}/{}: {path}", pod.namespace, pod.name))
}

async fn ask(client: &Client, pod: &PodName, path: &str) -> Result<Bytes> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let forwarded = api.portforward(&pod.name, &[ADMIN_PORT]).await;
    let mut forwarder = forwarded.map_err(|error| explain(error, "its port can't be forwarded"))?;
    let stream = forwarder.take_stream(ADMIN_PORT).context("no stream to its port")?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(path)
        .header("host", "localhost")
        .body(Empty::<Bytes>::new())?;
    // The connection is driven beside its one exchange, and ends with it.
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(
            status.is_success(),
            "{status}: {}",
            String::from_utf8_lossy(&body).trim()
        );
        Ok(body)
    };
    tokio::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        ended = connection => match ended {
            // All has been read from it, so the answer is complete or never comes.
            Ok(()) => exchange.await,
            Err(error) => Err(error.into()),
        },
    }
}
