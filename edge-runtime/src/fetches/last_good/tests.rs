//! What is kept where, and how much of it.

use super::*;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::Value;
use std::{convert::Infallible, os::unix::fs::PermissionsExt as _};
use tokio::sync::watch;
use tower::service_fn;

/// Writes whatever waits for it.
async fn write(kept: &mut LastGood) -> Result<(), String> {
    kept.begin_write();
    let result = kept.write.take().unwrap().await;
    kept.wrote(result.clone());
    result
}

async fn read(storage: &Storage) -> LastGood {
    let mut kept = LastGood::at(storage.clone());
    kept.read().await;
    kept
}

/// The next controller knows what one kept, and not what it forgot.
async fn is_kept(storage: &Storage) {
    let (a, b) = ("https://a.example/?key=swordfish", "https://b.example/");
    let mut kept = read(storage).await;
    assert_eq!(kept.due(), None, "nothing was there");
    kept.keep(a, &"one".into(), [].into_iter());
    kept.keep(b, &"two".into(), [].into_iter());
    write(&mut kept).await.unwrap();
    assert_eq!(kept.due(), None);
    kept.keep(a, &"one".into(), [].into_iter());
    assert_eq!(kept.due(), None, "nothing is new");
    kept.forget(b);
    write(&mut kept).await.unwrap();
    let next = read(storage).await;
    assert_eq!((next.text(a), next.text(b)), (Some(&"one".into()), None));
    assert_eq!(next.texts.len(), 1);
}

#[tokio::test]
async fn a_folder_keeps_texts_for_the_controller_alone() {
    let state = tempfile::tempdir().unwrap();
    let storage = Storage::below_state(state.path());
    is_kept(&storage).await;
    let folder = state.path().join(FOLDER);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let file = fs::read_dir(&folder).unwrap().next().unwrap().unwrap();
    assert_eq!(mode(&file.path()), 0o600);
    let name = file.file_name().into_string().unwrap();
    assert!(is_key(&name), "a URL may hold a secret: {name}");
    // Whatever else lies there is nobody's text.
    fs::write(folder.join("note"), "x").unwrap();
    fs::write(folder.join("a".repeat(64)), "x".repeat(LONGEST + 1)).unwrap();
    assert_eq!(read(&storage).await.texts.len(), 1);
}

/// An API server with one ConfigMap, or none.
fn api(map: &Arc<watch::Sender<Option<Value>>>) -> Api {
    let map = Arc::clone(map);
    let service = service_fn(move |request: Request<Body>| {
        let map = Arc::clone(&map);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let given: Value = serde_json::from_slice(&body).unwrap_or_default();
            let is_there = map.borrow().is_some();
            let is_ours = head
                .uri
                .path()
                .ends_with("/namespaces/system/configmaps/edge-gateway-documents");
            let (code, answer) = match (head.method, is_there) {
                (Method::POST, false) => {
                    map.send_replace(Some(given.clone()));
                    (201, given)
                }
                (Method::PATCH, true) if is_ours => {
                    map.send_modify(|map| {
                        let data = map.as_mut().unwrap()["data"].as_object_mut().unwrap();
                        for (key, text) in given["data"].as_object().unwrap() {
                            data.remove(key);
                            data.extend((!text.is_null()).then(|| (key.clone(), text.clone())));
                        }
                    });
                    (200, map.borrow().clone().unwrap())
                }
                (Method::GET, true) if is_ours => (200, map.borrow().clone().unwrap()),
                _ => (
                    404,
                    json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"}),
                ),
            };
            let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
            *response.status_mut() = StatusCode::from_u16(code).unwrap();
            Ok::<_, Infallible>(response)
        }
    });
    Api::of(Client::new(service, "default"))
}

#[tokio::test]
async fn a_config_map_keeps_the_texts_of_all_replicas() {
    let map = Arc::new(watch::Sender::new(None));
    let storage = Storage::ConfigMap(Box::new(api(&map)), "system".into());
    is_kept(&storage).await;
    let (mut one, mut other) = (read(&storage).await, read(&storage).await);
    one.keep("https://c.example/", &"three".into(), [].into_iter());
    other.keep("https://d.example/", &"four".into(), [].into_iter());
    write(&mut one).await.unwrap();
    write(&mut other).await.unwrap();
    assert_eq!(read(&storage).await.texts.len(), 3);
}

#[tokio::test]
async fn what_has_no_room_is_not_kept_and_what_nobody_asks_for_makes_room() {
    let state = tempfile::tempdir().unwrap();
    let mut kept = read(&Storage::below_state(state.path())).await;
    let url = |n: usize| format!("https://{n}.example/");
    let long: Arc<str> = "x".repeat(LONGEST).into();
    kept.keep("https://long.example/", &format!("{long}x").into(), [].into_iter());
    assert_eq!(kept.due(), None, "too long");
    for n in 0..MOST / LONGEST {
        kept.keep(&url(n), &long, [].into_iter());
    }
    let all: Vec<String> = (0..MOST / LONGEST).map(url).collect();
    kept.keep("https://more.example/", &long, all.iter().map(|url| &**url));
    assert_eq!(kept.text("https://more.example/"), None);
    kept.keep(&url(0), &long.replace('x', "y").into(), all.iter().map(|url| &**url));
    assert!(kept.text(&url(0)).unwrap().starts_with('y'), "it has its own room");
    kept.keep("https://more.example/", &long, all[1..].iter().map(|url| &**url));
    assert_eq!(kept.text(&url(0)), None);
    assert_eq!(kept.text("https://more.example/"), Some(&long));
    assert_eq!(kept.texts.len(), MOST / LONGEST);
}

#[tokio::test]
async fn a_write_that_fails_is_made_up_for() {
    let state = tempfile::tempdir().unwrap();
    let storage = Storage::below_state(state.path());
    // A file is in the way of the folder.
    fs::write(state.path().join(FOLDER), "").unwrap();
    let mut kept = read(&storage).await;
    kept.keep("a", &"one".into(), [].into_iter());
    let begun = Instant::now();
    write(&mut kept).await.unwrap_err();
    assert!(kept.due().unwrap() > begun, "after a pause");
    kept.keep("a", &"two".into(), [].into_iter());
    fs::remove_file(state.path().join(FOLDER)).unwrap();
    write(&mut kept).await.unwrap();
    assert_eq!(read(&storage).await.text("a"), Some(&"two".into()));
}
