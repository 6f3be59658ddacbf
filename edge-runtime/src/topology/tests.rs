//! Reviews as the API server sends them, over TLS, with an API server that knows two pods and two nodes.

use super::*;
use crate::{
    certs::{CONTROLLER, Existing, TlsFiles, ensure},
    task::Task,
};
use kube::client::Body;
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

struct Rig {
    folder: tempfile::TempDir,
    address: SocketAddr,
    metrics: Arc<Metrics>,
    _task: Task,
}

fn object(path: &str) -> Option<Value> {
    let (kind, name) = path.rsplit_once('/')?;
    let labels = match (kind, name) {
        ("/api/v1/namespaces/ns/pods", "ours") => PROXY_LABELS.iter().copied().collect(),
        ("/api/v1/namespaces/ns/pods", "theirs") => BTreeMap::from([("app", "x")]),
        ("/api/v1/nodes", "near") => BTreeMap::from([(ZONE, "zone-a")]),
        ("/api/v1/nodes", "bare") => BTreeMap::new(),
        _ => return None,
    };
    let meta = json!({"name": name, "labels": labels});
    Some(json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": meta}))
}

fn client() -> Client {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let path = request.uri().path();
        let (status, value) = match object(path) {
            _ if path.ends_with("/broken") => (500, json!({"kind": "Status", "code": 500, "message": "broken"})),
            Some(object) => (200, object),
            None => (
                404,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound"}),
            ),
        };
        let body = Body::from(value.to_string().into_bytes());
        Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap())
    });
    Client::new(service, "default")
}

impl Rig {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        ensure(folder.path(), "system", "cluster.local", Existing::Keep).unwrap();
        let tls = ServerTls::read(TlsFiles::below(folder.path(), CONTROLLER)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Arc::<Metrics>::default();
        let injector = Injector {
            client: client(),
            metrics: Arc::clone(&metrics),
        };
        let task = Task::spawn("injector", |stop| serve(listener, tls, injector, stop));
        Self {
            folder,
            address,
            metrics,
            _task: task,
        }
    }

    /// Pods that were told, were not, and whose zone isn't known.
    fn counted(&self) -> [u64; 3] {
        [Counter::ZonesTold, Counter::ZonesUntold, Counter::ZonesUnknown].map(|it| self.metrics.counted(it))
    }

    /// Sends a body, as the API server does: it trusts the authority, and asks for the Service's name.
    async fn post(&self, body: &str) -> (u16, Value) {
        let mut roots = rustls::RootCertStore::empty();
        let authority = TlsFiles::below(self.folder.path(), CONTROLLER).authority;
        roots.add_parsable_certificates(CertificateDer::pem_file_iter(authority).unwrap().flatten());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let socket = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("edge-gateway.system.svc").unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(name, socket).await.unwrap();
        let head = format!(
            "POST {PATH}?timeout=10s HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // An end without a farewell is no concern here.
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (
            status,
            serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap(),
        )
    }

    /// The patch of a binding, if there is one; it is allowed in any case.
    async fn patch(&self, pod: &str, node: &str, annotations: Value) -> Option<Value> {
        let mut binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, "namespace": "ns"},
                                 "target": {"kind": "Node", "name": node}});
        if !annotations.is_null() {
            binding["metadata"]["annotations"] = annotations;
        }
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u-1", "name": pod, "namespace": "ns", "operation": "CREATE", "object": binding,
        }});
        let (status, answer) = self.post(&review.to_string()).await;
        assert_eq!(status, 200);
        let response = &answer["response"];
        assert_eq!(
            (&response["uid"], &response["allowed"]),
            (&json!("u-1"), &json!(true)),
            "{answer}"
        );
        let patch = STANDARD.decode(response["patch"].as_str()?).unwrap();
        assert_eq!(response["patchType"], "JSONPatch");
        Some(serde_json::from_slice(&patch).unwrap())
    }
}

#[tokio::test]
async fn a_proxy_is_told_the_zone_of_its_node() {
    let rig = Rig::start().await;
    let patch = rig.patch("ours", "near", Value::Null).await.unwrap();
    assert_eq!(
        patch,
        json!([{"op": "add", "path": "/metadata/annotations", "value": {ZONE: "zone-a"}}])
    );
    let patch = rig.patch("ours", "near", json!({"a": "b"})).await.unwrap();
    let path = "/metadata/annotations/topology.kubernetes.io~1zone";
    assert_eq!(patch, json!([{"op": "add", "path": path, "value": "zone-a"}]));
    assert_eq!(rig.counted(), [2, 0, 0]);
}

#[tokio::test]
async fn whatever_is_missing_or_broken_a_pod_is_bound() {
    let rig = Rig::start().await;
    for (pod, node) in [
        ("theirs", "near"),
        ("ours", "bare"),
        ("ours", "absent"),
        ("absent", "near"),
        ("ours", "broken"),
        ("broken", "near"),
    ] {
        assert_eq!(rig.patch(pod, node, Value::Null).await, None, "{pod} on {node}");
    }
    assert_eq!(rig.counted(), [0, 4, 2]);
    assert_eq!(rig.post("no review").await.0, 400);
    assert_eq!(rig.post(&"x".repeat(MAX_BODY + 1)).await.0, 400);
}
