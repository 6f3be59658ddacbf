//! Against an API server that keeps objects and nothing more; the client is the real one.

use super::*;
use crate::certs::{CONTROLLER, PROXY, check};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use std::{convert::Infallible, sync::Arc};
use tokio::sync::Mutex;

const PLACE: Installation<'static> = Installation {
    namespace: "system",
    dns_domain: "cluster.local",
    describe: ToString::to_string,
};
const WEBHOOK: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/edge-gateway-topology-injector.system";

/// Objects by their path, and every write in order.
#[derive(Debug, Default)]
struct Server {
    objects: BTreeMap<String, Value>,
    writes: Vec<String>,
}

fn client(server: &Arc<Mutex<Server>>) -> Client {
    let server = Arc::clone(server);
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&server);
        async move {
            let (head, body) = request.into_parts();
            let bytes = body.collect().await.unwrap().to_bytes();
            let sent: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let (status, value) = server.lock().await.answer(&head.method, head.uri.path(), sent);
            let body = Body::from(value.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap())
        }
    });
    Client::new(service, "default")
}

impl Server {
    fn answer(&mut self, method: &Method, path: &str, sent: Value) -> (StatusCode, Value) {
        let failure = |code: StatusCode| {
            let reason = code.canonical_reason().unwrap().replace(' ', "");
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(), "reason": reason,
            });
            (code, status)
        };
        match *method {
            Method::GET => match self.objects.get(path) {
                Some(object) => (StatusCode::OK, object.clone()),
                None => failure(StatusCode::NOT_FOUND),
            },
            Method::POST => {
                let name = sent["metadata"]["name"].as_str().unwrap();
                let is_tls = sent["type"] == "kubernetes.io/tls";
                if is_tls && (sent["data"]["tls.crt"].is_null() || sent["data"]["tls.key"].is_null()) {
                    // As the real one checks it.
                    return failure(StatusCode::UNPROCESSABLE_ENTITY);
                }
                self.writes.push(name.to_owned());
                self.objects.insert(format!("{path}/{name}"), sent.clone());
                (StatusCode::CREATED, sent)
            }
            Method::PUT => {
                self.writes.push(sent["metadata"]["name"].as_str().unwrap().to_owned());
                self.objects.insert(path.to_owned(), sent.clone());
                (StatusCode::OK, sent)
            }
            _ => failure(StatusCode::METHOD_NOT_ALLOWED),
        }
    }

    fn file(&self, secret: &str, file: &str) -> Vec<u8> {
        let object = &self.objects[&format!("/api/v1/namespaces/system/secrets/{secret}")];
        STANDARD.decode(object["data"][file].as_str().unwrap()).unwrap()
    }
}

#[tokio::test]
async fn secrets_are_made_once_and_stay() {
    let server = Arc::new(Mutex::new(Server::default()));
    let ensure = |existing| ensure_secrets(client(&server), &PLACE, existing);
    assert_eq!(ensure(Existing::Keep).await.unwrap(), Outcome::Made);
    let made = server.lock().await.writes.clone();
    assert_eq!(made.len(), SECRETS.len(), "{made:?}");
    assert_eq!(ensure(Existing::Keep).await.unwrap(), Outcome::Kept);
    assert_eq!(
        server.lock().await.writes.len(),
        SECRETS.len(),
        "nothing is written anew"
    );

    let leaf = check::all(&server.lock().await.file(CONTROLLER, "tls.crt")).remove(0);
    let (_, leaf) = x509_parser::parse_x509_certificate(&leaf).unwrap();
    let names = leaf.subject_alternative_name().unwrap().unwrap().value.to_owned();
    let names: Vec<String> = names.general_names.iter().map(ToString::to_string).collect();
    let expected = [
        "edge-gateway",
        "edge-gateway.system",
        "edge-gateway.system.svc",
        "edge-gateway.system.svc.cluster.local",
    ];
    assert_eq!(names, expected.map(|name| format!("DNSName({name})")));
}

#[tokio::test]
async fn a_rotation_widens_trust_before_it_changes_a_leaf_and_keeps_what_isnt_ours() {
    let server = Arc::new(Mutex::new(Server::default()));
    let ensure = |existing| ensure_secrets(client(&server), &PLACE, existing);
    ensure(Existing::Keep).await.unwrap();
    let path = format!("/api/v1/namespaces/system/secrets/{PROXY}");
    server.lock().await.objects.get_mut(&path).unwrap()["data"]["theirs"] = "eA==".into();
    server.lock().await.writes.clear();
    assert_eq!(ensure(Existing::Overwrite).await.unwrap(), Outcome::Made);
    let server = server.lock().await;
    assert_eq!(
        check::all(&server.file(PROXY, "ca.crt")).len(),
        2,
        "both authorities are trusted"
    );
    assert_eq!(server.file(PROXY, "theirs"), b"x");
    let writes: Vec<&str> = server.writes.iter().map(String::as_str).collect();
    let twice = ["edge", "edge-gateway", "edge-rate-limit"];
    assert_eq!(writes[writes.len() - 3..], twice, "leaves come last: {writes:?}");
    assert!(
        twice.iter().all(|name| writes[..writes.len() - 3].contains(name)),
        "{writes:?}"
    );
}

#[tokio::test]
async fn the_webhook_is_told_whom_to_trust_if_there_is_one() {
    let server = Arc::new(Mutex::new(Server::default()));
    ensure_secrets(client(&server), &PLACE, Existing::Keep).await.unwrap();
    assert_eq!(trust_webhook(client(&server), &PLACE).await.unwrap(), Webhook::Absent);
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "edge-gateway-topology-injector.system"},
        "webhooks": [{"name": "topology.webhook.gateway.edge", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                      "clientConfig": {"service": {"name": "edge-gateway", "namespace": "system"}}}],
    });
    server.lock().await.objects.insert(WEBHOOK.to_owned(), webhook);
    for _ in 0..2 {
        assert_eq!(trust_webhook(client(&server), &PLACE).await.unwrap(), Webhook::Trusting);
    }
    let server = server.lock().await;
    let bundle = server.objects[WEBHOOK]["webhooks"][0]["clientConfig"]["caBundle"].as_str();
    assert_eq!(bundle, Some(&*STANDARD.encode(server.file(CONTROLLER, "ca.crt"))));
    assert_eq!(
        server.writes.iter().filter(|write| write.contains("injector")).count(),
        1
    );
}

#[tokio::test]
async fn a_missing_right_is_named_with_the_secret() {
    let service = tower::service_fn(|_: Request<Body>| async {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "message": "secrets is forbidden"});
        let body = Body::from(status.to_string().into_bytes());
        Ok::<_, Infallible>(Response::builder().status(403).body(body).unwrap())
    });
    let error = ensure_secrets(Client::new(service, "default"), &PLACE, Existing::Keep)
        .await
        .unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("Secret system/edge-gateway-ca") && error.contains("forbidden"),
        "{error}"
    );
}
