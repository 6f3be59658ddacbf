//! The topology injector: a webhook that writes the zone of a node onto our proxies as they are bound to it, where they
//! read it from their environment (`EDGE_SERVICE_ZONE`).
//!
//! A pod can't know its node's labels otherwise. A pod without its zone is better than none: whatever goes wrong, the
//! binding is allowed as it is.

use crate::{
    certs::ServerTls,
    cluster::{PROXY_LABELS, fault::describe},
    http::serve_each,
    metrics::{Counter, Metrics},
    task::Stop,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client, core::PartialObjectMeta};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, convert::Infallible, io, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    time,
};
use tokio_rustls::TlsAcceptor;

#[cfg(test)]
mod tests;

/// Where the API server finds it.
pub const PORT: u16 = 9443;
/// The path that the webhook's configuration names.
const PATH: &str = "/inject-pod-topology";
/// The label of a node, and the annotation of a pod.
const ZONE: &str = "topology.kubernetes.io/zone";
/// Largest review that is read. A binding is a name.
const MAX_BODY: usize = 64 << 10;
/// How long a handshake, a request's head and the questions to the API server may take each. The API server itself
/// gives up after ten seconds.
const PATIENCE: Duration = Duration::from_secs(4);

/// Whom it asks, and where it counts.
#[derive(Clone)]
pub struct Injector {
    /// The API server.
    pub client: Client,
    /// Measurements.
    pub metrics: Arc<Metrics>,
}

/// Answers the API server until asked to stop.
pub async fn serve(listener: TcpListener, mut tls: ServerTls, injector: Injector, stop: Stop) {
    serve_each(listener, stop, |socket| {
        let mut config = tls.current().as_ref().clone();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        connection(socket, TlsAcceptor::from(Arc::new(config)), injector.clone())
    })
    .await;
}

async fn connection(socket: TcpStream, acceptor: TlsAcceptor, injector: Injector) {
    let accepted = time::timeout(PATIENCE, acceptor.accept(socket)).await;
    let stream = match accepted.map_err(io::Error::from) {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) | Err(error) => {
            return tracing::warn!(%error, "a connection to the topology injector failed in its TLS handshake");
        }
    };
    let service = service_fn(move |request| {
        let injector = injector.clone();
        async move { Ok::<_, Infallible>(answer(request, injector).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection to the topology injector failed");
    }
}

async fn answer(request: Request<Incoming>, injector: Injector) -> Response<Full<Bytes>> {
    if (request.method(), request.uri().path()) != (&Method::POST, PATH) {
        return reply(
            StatusCode::NOT_FOUND,
            &json!(format!("only POST {PATH} is answered here")),
        );
    }
    let read = time::timeout(PATIENCE, Limited::new(request.into_body(), MAX_BODY).collect()).await;
    let Ok(Ok(body)) = read else {
        return reply(StatusCode::BAD_REQUEST, &json!("no AdmissionReview, or too large"));
    };
    match serde_json::from_slice::<Review>(&body.to_bytes()) {
        Ok(review) => reply(StatusCode::OK, &injector.judge(&review).await),
        Err(error) => reply(StatusCode::BAD_REQUEST, &json!(format!("no AdmissionReview: {error}"))),
    }
}

fn reply(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// What is read of an AdmissionReview (`admission.k8s.io/v1`).
#[derive(Debug, Deserialize)]
struct Review {
    request: AdmissionRequest,
}

#[derive(Debug, Deserialize)]
struct AdmissionRequest {
    uid: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    object: Binding,
}

/// A pod and its node.
#[derive(Debug, Deserialize)]
struct Binding {
    #[serde(default)]
    metadata: BindingMeta,
    target: Target,
}

#[derive(Debug, Default, Deserialize)]
struct BindingMeta {
    #[serde(default)]
    name: String,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
struct Target {
    #[serde(default)]
    name: String,
}

impl Injector {
    /// The binding is allowed, with the zone if it is one of ours and there is one.
    async fn judge(&self, review: &Review) -> Value {
        let AdmissionRequest { uid, object, .. } = &review.request;
        let mut response = json!({"uid": uid, "allowed": true});
        if let Some(zone) = self.zone(&review.request).await {
            let operation = match &object.metadata.annotations {
                // The API server hands annotations of a binding on to its pod.
                Some(_) => {
                    json!({"op": "add", "path": format!("/metadata/annotations/{}", ZONE.replace('/', "~1")), "value": zone})
                }
                None => json!({"op": "add", "path": "/metadata/annotations", "value": {ZONE: zone}}),
            };
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode(json!([operation]).to_string()).into();
        }
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }

    /// The zone that a pod is to be told. What keeps it from being found out is in the log.
    async fn zone(&self, request: &AdmissionRequest) -> Option<String> {
        let found = time::timeout(PATIENCE, zone_for(request, &self.client)).await;
        let problem = match found {
            Ok(Ok(zone)) => {
                self.metrics.count(match zone {
                    Some(_) => Counter::ZonesTold,
                    None => Counter::ZonesUntold,
                });
                return zone;
            }
            Ok(Err(error)) => describe(&error),
            Err(_) => "no answer in time".to_owned(),
        };
        self.metrics.count(Counter::ZonesUnknown);
        let (namespace, node) = (&request.namespace, &request.object.target.name);
        tracing::warn!(namespace, node, "a proxy isn't told its zone: {problem}");
        None
    }
}

/// The zone of the node that a proxy of ours is bound to; none if the pod isn't ours or the node has none.
async fn zone_for(request: &AdmissionRequest, client: &Client) -> Result<Option<String>, kube::Error> {
    let AdmissionRequest {
        name,
        namespace,
        object,
        ..
    } = request;
    let pod = if name.is_empty() { &object.metadata.name } else { name };
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let Some(pod) = pods.get_metadata_opt(pod).await? else {
        return Ok(None);
    };
    let is_ours = PROXY_LABELS.iter().all(|(key, value)| label(&pod, key) == Some(*value));
    if !is_ours || object.target.name.is_empty() {
        return Ok(None);
    }
    let nodes: Api<Node> = Api::all(client.clone());
    let node = nodes.get_metadata_opt(&object.target.name).await?;
    Ok(node.and_then(|node| label(&node, ZONE).map(str::to_owned)))
}

fn label<'a, K>(object: &'a PartialObjectMeta<K>, key: &str) -> Option<&'a str> {
    let labels = object.metadata.labels.as_ref()?;
    labels.get(key).map(String::as_str)
}
