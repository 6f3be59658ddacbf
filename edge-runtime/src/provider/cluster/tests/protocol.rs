//! Corners of the watch protocol, against an API server in this process: real ones can't be made to show them at will.

use super::super::{
    arrived::Content,
    follow::{News, Signal, Source, Watch, follow},
};
use super::resource;
use crate::{
    cluster::{ReadKind, discovery},
    task::StopSource,
};
use edge_translate::api::{CustomKind, CustomRole, Kind};
use http::{Request, Response, StatusCode};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::{Notify, mpsc, watch};
use tower::service_fn;

/// An API server that answers by the number of the request and its path with the query.
fn server(answer: impl Fn(usize, &str) -> (u16, String) + Send + Sync + 'static) -> Client {
    let (count, answer) = (AtomicUsize::new(0), Arc::new(answer));
    let count = Arc::new(count);
    let service = service_fn(move |request: Request<Body>| {
        let (code, text) = answer(count.fetch_add(1, Ordering::Relaxed), &request.uri().to_string());
        let mut response = Response::new(Body::from(text.into_bytes()));
        *response.status_mut() = StatusCode::from_u16(code).unwrap();
        async move { Ok::<_, Infallible>(response) }
    });
    Client::new(service, "default")
}

fn fault(code: u16, message: &str) -> (u16, String) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Test", "message": message, "code": code,
    });
    (code, status.to_string())
}

fn route(name: &str, version: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "ns", "resourceVersion": version }, "spec": {} })
}

fn list(version: &str, items: &[Value]) -> (u16, String) {
    let list = json!({
        "kind": "HTTPRouteList", "apiVersion": "gateway.networking.k8s.io/v1",
        "metadata": { "resourceVersion": version }, "items": items,
    });
    (200, list.to_string())
}

fn events(events: &[(&str, Value)]) -> (u16, String) {
    let lines = events
        .iter()
        .map(|(kind, object)| json!({ "type": kind, "object": object }).to_string() + "\n");
    (200, lines.collect())
}

fn watch_routes(client: Client, streams_lists: bool) -> (mpsc::Receiver<Signal>, tokio::task::JoinHandle<()>) {
    let (out, signals) = mpsc::channel(64);
    let watch = Watch {
        source: Source {
            kind: ReadKind::Known(Kind::HttpRoute),
            namespace: None,
        },
        number: 1,
        client,
        resource: resource(Kind::HttpRoute),
        streams_lists,
        metrics: Arc::default(),
    };
    (signals, tokio::spawn(follow(watch, out)))
}

/// The next `count` things that a watch says, in short.
async fn heard(signals: &mut mpsc::Receiver<Signal>, count: usize) -> Vec<String> {
    let mut said = Vec::new();
    while said.len() < count {
        let signal = tokio::time::timeout(std::time::Duration::from_secs(30), signals.recv());
        said.push(match signal.await.unwrap().unwrap().news {
            News::Begin => "begin".to_owned(),
            News::Complete => "complete".to_owned(),
            News::Gone(key) => format!("-{}", key.name),
            News::Fails(reason) => reason,
            News::Works => "works".to_owned(),
            News::Unserved => "unserved".to_owned(),
            News::Put(taken) => match taken.content {
                Content::Malformed(malformed) => format!("!{} {}", taken.key.name, malformed.message),
                _ => format!("+{}", taken.key.name),
            },
        });
    }
    said
}

#[tokio::test]
async fn a_watch_that_fell_behind_lists_again() {
    let client = server(|number, path| match number {
        0 => list("5", &[route("a", "3")]),
        1 => {
            assert!(
                path.contains("watch=true") && path.contains("resourceVersion=5"),
                "{path}"
            );
            let gone = json!({ "kind": "Status", "code": 410, "reason": "Expired", "message": "too old" });
            events(&[("ADDED", route("b", "6")), ("ERROR", gone)])
        }
        2 => list("9", &[route("b", "6")]),
        _ => fault(429, "slow down"),
    });
    let (mut signals, _task) = watch_routes(client, false);
    let said = heard(&mut signals, 8).await;
    assert_eq!(said[..7], ["begin", "+a", "complete", "+b", "begin", "+b", "complete"]);
    assert_eq!(said[7], "the API server is overloaded and asks for patience: slow down");
}

/// The API server of a busy cluster sends clients away, by priority and fairness.
#[tokio::test]
async fn an_api_server_that_asks_for_patience_is_told_and_asked_again() {
    let client = server(|number, path| match number {
        0 => fault(429, "too many requests"),
        1 => list("5", &[route("a", "3")]),
        // What was seen isn't asked for again.
        2 | 3 => {
            assert!(
                path.contains("watch=true") && path.contains("resourceVersion=5"),
                "{path}"
            );
            match number {
                2 => fault(429, "too many requests"),
                _ => events(&[("ADDED", route("b", "6"))]),
            }
        }
        // The version is too old, told as an answer and not as an event.
        4 => fault(410, "too old resource version"),
        5 => {
            assert!(!path.contains("watch=true"), "{path}");
            list("9", &[route("b", "6")])
        }
        _ => fault(500, "out of order"),
    });
    let (mut signals, _task) = watch_routes(client, false);
    let said = heard(&mut signals, 11).await;
    let patience = "the API server is overloaded and asks for patience: too many requests";
    let failing = "the API server fails (500): out of order";
    let wanted = [
        "begin", patience, "begin", "+a", "complete", patience, "+b", "begin", "+b", "complete", failing,
    ];
    assert_eq!(said, wanted);
}

#[tokio::test]
async fn a_server_that_does_not_stream_lists_is_asked_for_a_plain_one() {
    let client = server(|number, path| match number {
        0 => {
            assert!(path.contains("sendInitialEvents=true"), "{path}");
            fault(422, "sendInitialEvents is forbidden")
        }
        1 => {
            assert!(!path.contains("watch=true"), "{path}");
            list("5", &[route("a", "3")])
        }
        _ => fault(500, "out of order"),
    });
    let (mut signals, _task) = watch_routes(client, true);
    let said = heard(&mut signals, 4).await;
    assert_eq!(said[..3], ["begin", "+a", "complete"]);
    assert_eq!(said[3], "the API server fails (500): out of order");
}

#[tokio::test]
async fn one_object_that_cannot_be_read_costs_no_other() {
    let client = server(|number, _| match number {
        0 => {
            let mut odd = route("odd", "4");
            odd["metadata"]["labels"] = json!(7);
            odd["spec"] = json!({ "rules": "none" });
            list("5", &[route("a", "3"), odd, route("z", "4")])
        }
        1 => events(&[
            (
                "MODIFIED",
                json!({ "metadata": { "name": "a", "namespace": "ns", "resourceVersion": "6" }, "spec": 8 }),
            ),
            ("MODIFIED", route("z", "7")),
        ]),
        _ => fault(
            403,
            "httproutes is forbidden: User \"us\" cannot list resource \"httproutes\"",
        ),
    });
    let (mut signals, _task) = watch_routes(client, false);
    let said = heard(&mut signals, 8).await;
    assert_eq!(
        (&*said[1], &*said[3], &*said[4], &*said[6]),
        ("+a", "+z", "complete", "+z"),
        "{said:?}"
    );
    assert!(said[2].starts_with("!odd metadata.labels"), "{said:?}");
    assert!(said[5].starts_with("!a spec"), "{said:?}");
    assert!(
        said[7].ends_with("cannot list resource \"httproutes\"; add that to the role of the ServiceAccount"),
        "{said:?}"
    );
}

#[tokio::test]
async fn a_kind_that_is_installed_later_is_found_and_one_that_goes_is_missed() {
    let (installed, mut changes) = (Arc::new(AtomicUsize::new(0)), Vec::new());
    let state = Arc::clone(&installed);
    let client = server(move |_, path| {
        let resources = |plural: &str, kind: &str| {
            let resource =
                json!({ "name": plural, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["list"] });
            (
                200,
                json!({ "groupVersion": "x/v", "resources": [resource] }).to_string(),
            )
        };
        match path.trim_end_matches('?') {
            "/version" => (
                200,
                json!({ "major": "1", "minor": "36", "gitVersion": "", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": "" })
                .to_string(),
            ),
            "/apis/gateway.networking.k8s.io" if state.load(Ordering::Relaxed) == 1 => {
                let version = |version: &str| json!({ "groupVersion": format!("gateway.networking.k8s.io/{version}"), "version": version });
                let versions = ["v1", "v1alpha2"].map(version);
                (
                    200,
                    json!({ "name": "gateway.networking.k8s.io", "versions": versions }).to_string(),
                )
            }
            "/apis/sample.example.com" if state.load(Ordering::Relaxed) == 1 => {
                let version = json!({ "groupVersion": "sample.example.com/v1", "version": "v1" });
                (
                    200,
                    json!({ "name": "sample.example.com", "versions": [version] }).to_string(),
                )
            }
            "/apis/sample.example.com/v1" => resources("caches", "Cache"),
            "/apis/gateway.networking.k8s.io/v1" => resources("httproutes", "HTTPRoute"),
            "/apis/gateway.networking.k8s.io/v1alpha2" => resources("tlsroutes", "TLSRoute"),
            _ => fault(404, "not found"),
        }
    });
    let served = Arc::new(watch::Sender::new(None));
    let mut found = served.subscribe();
    let again = Arc::new(Notify::new());
    let cache = CustomKind {
        group: "sample.example.com".into(),
        version: "v1".into(),
        kind: "Cache".into(),
        role: CustomRole::Resource,
    };
    let (_custom, named) = watch::channel([cache.clone()].into());
    let cache = ReadKind::Custom(Arc::new(cache));
    let (_source, stop) = StopSource::new();
    let _task = tokio::spawn(discovery::run(client, named, served, Arc::clone(&again), stop));
    for turn in 0..3 {
        found.changed().await.unwrap();
        let served = found.borrow_and_update().clone().unwrap();
        assert!(served.streams_lists);
        let version = |kind| {
            served
                .kinds
                .get(&ReadKind::Known(kind))
                .map(|resource| resource.version.clone())
        };
        changes.push((
            version(Kind::HttpRoute),
            version(Kind::TlsRoute),
            version(Kind::Secret).is_some(),
            served
                .resource_of(&cache.key("ns", "c"))
                .map(|resource| resource.plural.clone()),
        ));
        installed.store((turn + 1) % 2, Ordering::Relaxed);
        again.notify_one();
    }
    let there = (
        Some("v1".to_owned()),
        Some("v1alpha2".to_owned()),
        true,
        Some("caches".to_owned()),
    );
    let nothing = (None, None, true, None);
    assert_eq!(changes, [nothing.clone(), there, nothing]);
}
