//! Pods, and the pages that their programs show on loopback: asked through the API server, so that no port is open.

use super::{Connection, client::explain};
use anyhow::{Context, Result, anyhow, bail, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Portforwarder},
};
use serde_json::Value;
use std::{
    fmt,
    io::{self, Write},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};

/// Labels of the proxies' pods.
pub const PROXIES: &str = "app.kubernetes.io/name=edge,app.kubernetes.io/component=proxy";
/// Labels of the controller's pods.
pub const CONTROLLERS: &str = "control-plane=edge-gateway";
/// Labels of the pods that count global rate limits.
pub const RATE_LIMITS: &str = "app.kubernetes.io/name=edge-ratelimit,app.kubernetes.io/component=ratelimit";
/// Where both the controller and its proxies show their pages, unless a proxy's bootstrap says otherwise.
const ADMIN_PORT: u16 = edge_ir::pod_port::ADMIN;
/// Longest wait for a page.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where pods are looked for.
#[derive(Clone, Debug, clap::Args)]
pub struct PodSelection {
    /// Namespace of the pods.
    #[arg(short, long, default_value = "edge-gateway-system")]
    pub namespace: String,
    /// Pods of all namespaces.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Pods with these labels only.
    #[arg(short = 'l', long)]
    pub labels: Option<String>,
    /// Which cluster.
    #[command(flatten)]
    pub connection: Connection,
}

impl PodSelection {
    /// The proxy that is named, or those that labels or the namespaces give.
    ///
    /// # Errors
    /// When nothing says which.
    pub fn proxies<'a>(&'a self, pod: Option<&'a str>) -> Result<Which<'a>> {
        match (pod, &self.labels) {
            (Some(pod), _) => Ok(Which::Named(pod)),
            (None, Some(labels)) => Ok(Which::Labelled(labels)),
            (None, None) if self.all_namespaces => Ok(Which::Labelled(PROXIES)),
            (None, None) => bail!("which proxies? Name a pod, or use --labels or --all-namespaces"),
        }
    }

    /// Controllers.
    pub fn controllers(&self) -> Which<'_> {
        Which::Labelled(self.labels.as_deref().unwrap_or(CONTROLLERS))
    }

    /// The service of global rate limits.
    pub fn rate_limits(&self) -> Which<'_> {
        Which::Labelled(self.labels.as_deref().unwrap_or(RATE_LIMITS))
    }

    /// The pods there.
    ///
    /// # Errors
    /// When the cluster can't be asked, or there are none.
    pub async fn find(&self, client: &Client, which: Which<'_>) -> Result<Vec<Running>> {
        let namespace = (!self.all_namespaces).then_some(self.namespace.as_str());
        find(client, namespace, which).await
    }
}

/// Which pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    /// One, by its name.
    Named(&'a str),
    /// Those with labels, in the form of `kubectl -l`.
    Labelled(&'a str),
}

/// A pod that runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Running {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Where its program shows its pages.
    pub admin_port: u16,
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Running {
    /// Of a pod as the cluster has it.
    pub fn of(pod: &Pod) -> Self {
        Self {
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            admin_port: admin_port(pod).unwrap_or(ADMIN_PORT),
        }
    }
}

/// The port that a proxy's bootstrap names, which an EdgeProxy may have changed.
fn admin_port(pod: &Pod) -> Option<u16> {
    let containers = &pod.spec.as_ref()?.containers;
    let args = containers.iter().filter_map(|container| container.args.as_ref());
    let bootstrap = args.flat_map(|args| args.iter().skip_while(|arg| *arg != "--config-yaml").nth(1));
    let bootstrap: Value = serde_yaml::from_str(bootstrap.last()?).ok()?;
    let port = bootstrap.pointer("/admin/address/socket_address/port_value")?;
    u16::try_from(port.as_u64()?).ok()
}

/// Running pods, in a namespace or in all.
///
/// # Errors
/// When the cluster can't be asked, or there are none.
pub async fn find(client: &Client, namespace: Option<&str>, which: Which<'_>) -> Result<Vec<Running>> {
    let listed = list(client, namespace, which).await?;
    let mut found: Vec<Running> = listed.iter().filter(|pod| is_running(pod)).map(Running::of).collect();
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

/// Pods, whatever their state, in a namespace or in all.
///
/// # Errors
/// When the cluster can't be asked.
pub async fn list(client: &Client, namespace: Option<&str>, which: Which<'_>) -> Result<Vec<Pod>> {
    let api: Api<Pod> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let params = match which {
        Which::Named(name) => ListParams::default().fields(&format!("metadata.name={name}")),
        Which::Labelled(labels) => ListParams::default().labels(labels),
    };
    let listed = api.list(&params).await;
    Ok(listed.map_err(|error| explain(error, "pods can't be listed"))?.items)
}

/// A page of each of these pods, in their order. Of pods that were chosen by what they have in common, one that leaves,
/// or has only begun, may have no answer: that is said, and the others are shown.
///
/// # Errors
/// When another pod can't be asked.
pub async fn pages(
    client: &Client,
    which: Which<'_>,
    found: Vec<Running>,
    path: &str,
) -> Result<Vec<(Running, Bytes)>> {
    let mut pages = Vec::with_capacity(found.len());
    for pod in found {
        match page(client, &pod, path).await {
            Ok(body) => pages.push((pod, body)),
            Err(error) if matches!(which, Which::Named(_)) || is_serving(client, &pod).await? => return Err(error),
            Err(error) => writeln!(io::stderr(), "left out, as it comes or goes: {error:#}")?,
        }
    }
    Ok(pages)
}

/// Whether a pod is ready, and stays.
async fn is_serving(client: &Client, pod: &Running) -> Result<bool> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let now = api.get_opt(&pod.name).await;
    let now = now.map_err(|error| explain(error, &format!("{pod} can't be looked at")))?;
    Ok(now.is_some_and(|pod| is_ready(&pod) && pod.metadata.deletion_timestamp.is_none()))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether its programs run.
pub fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

/// A page of a pod's admin interface.
///
/// # Errors
/// When the pod can't be reached or shows no such page.
pub async fn page(client: &Client, pod: &Running, path: &str) -> Result<Bytes> {
    let asked = timeout(PATIENCE, ask(client, pod, path)).await;
    let late = || anyhow!("no answer within {} s", PATIENCE.as_secs());
    asked
        .map_err(|_| late())
        .flatten()
        .with_context(|| format!("{pod}: {path}"))
}

/// A way to a pod's port on loopback, for one connection. It is open for as long as it isn't dropped.
pub struct Tunnel {
    forwarder: Portforwarder,
    port: u16,
}

impl Tunnel {
    /// To the admin interface of a pod.
    ///
    /// # Errors
    /// When the cluster doesn't forward the port.
    pub async fn open(client: &Client, pod: &Running) -> Result<Self> {
        let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
        let forwarded = api.portforward(&pod.name, &[pod.admin_port]).await;
        let forwarder = forwarded.map_err(|error| explain(error, &format!("{pod}: its port can't be forwarded")))?;
        let port = pod.admin_port;
        Ok(Self { forwarder, port })
    }

    /// What goes through it.
    ///
    /// # Errors
    /// When that was taken before.
    pub fn stream(&mut self) -> Result<impl AsyncRead + AsyncWrite + Send + Unpin + use<>> {
        self.forwarder.take_stream(self.port).context("no stream to its port")
    }
}

async fn ask(client: &Client, pod: &Running, path: &str) -> Result<Bytes> {
    let mut tunnel = Tunnel::open(client, pod).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(tunnel.stream()?)).await?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pages_are_where_the_bootstrap_says() {
        let port = |args: Value| {
            let containers = json!([{"name": "edge", "args": args}, {"name": "shutdown-manager"}]);
            let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": containers}});
            Running::of(&serde_json::from_value(pod).unwrap()).admin_port
        };
        let moved = r#"{"admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 20000}}}}"#;
        assert_eq!(
            port(json!(["--service-node", "n", "--config-yaml", moved, "-l", "info"])),
            20000
        );
        assert_eq!(port(json!(["--config-yaml", "{}"])), ADMIN_PORT);
        assert_eq!(port(json!(["server"])), ADMIN_PORT, "a controller");
    }
}
