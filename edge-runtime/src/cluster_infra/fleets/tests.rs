//! Who is given work, with an API server that answers nothing.

use super::*;
use crate::{
    cluster::objects::Marks,
    cluster_infra::{
        observe::{Places, Watches},
        seen::ObservedObject,
        write::AT_A_TIME,
    },
    metrics::Metrics,
    state::{Availability, Coverage, FleetState, Reports},
};
use edge_infra::ObjectKind;
use edge_ir::{ClusterSettings, ProxySettings, RateLimitClients, RateLimitInfra, RedisAddress, RedisSecurity};
use edge_translate::{Feature, Settings};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
};
use tokio::sync::{Mutex, mpsc};
use tower::service_fn;

fn infra(key: &str) -> Arc<Infra> {
    Arc::new(Infra {
        key: key.into(),
        name: "edge".into(),
        namespace: "system".into(),
        placement: edge_ir::Placement::Controller,
        owner: None,
        extra_labels: edge_ir::StringMap::default(),
        labels: edge_ir::StringMap::default(),
        annotations: edge_ir::StringMap::default(),
        ports: Vec::new(),
        addresses: Vec::new(),
        proxy: Arc::default(),
        origins: [].into(),
    })
}

fn published(fleets: &[(&str, Option<&Arc<Infra>>)]) -> Option<Arc<Published>> {
    let state = |(key, infra): &(&str, Option<&Arc<Infra>>)| {
        let state = FleetState {
            snapshot: Arc::default(),
            infra: infra.cloned(),
            last_infra: None,
            home: None,
            alternatives: Vec::new(),
        };
        (FleetKey::new(*key), state)
    };
    Some(Arc::new(Published {
        fleets: fleets.iter().map(state).collect(),
        coverage: Coverage::Whole,
        ..Published::default()
    }))
}

const KEY: &str = "service:edge-ratelimit";

fn rate_limits() -> Arc<RateLimitInfra> {
    Arc::new(RateLimitInfra {
        cluster: ClusterSettings::default(),
        clients: RateLimitClients::Certified,
        redis: RedisAddress::Url("redis:6379".into()),
        redis_tls: RedisSecurity::Clear,
        prometheus: true,
        traces: None,
    })
}

fn fleets() -> Fleets {
    fleets_that_ask(&Arc::default(), None)
}

/// `asked`: how many requests the API server has got.
fn fleets_that_ask(asked: &Arc<AtomicUsize>, service: Option<Arc<RateLimitInfra>>) -> Fleets {
    let asked = Arc::clone(asked);
    let silent = service_fn(move |_: Request<Body>| {
        asked.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    fleets_before(Client::new(silent, "default"), service)
}

fn fleets_before(client: Client, service: Option<Arc<RateLimitInfra>>) -> Fleets {
    let terms = edge_infra::Installation {
        controller_name: "c".into(),
        controller_namespace: "system".into(),
        dns_domain: "cluster.local".into(),
        proxy_image: String::new(),
        shutdown_manager_image: String::new(),
        image_pull_policy: String::new(),
        image_pull_secrets: Vec::new(),
        authorities: String::new(),
        controller: None,
    };
    let outputs = Outputs {
        reports: Arc::new(watch::Sender::new(Some(Reports::new()))),
        metrics: Arc::<Metrics>::default(),
    };
    Fleets::new(
        client,
        Rendering {
            terms,
            proxy_zones: Feature::Enabled,
            service,
        },
        BTreeSet::new(),
        outputs,
    )
}

fn seen(name: &str, fleet: &str, content: &Value) -> News {
    seen_of(ObjectKind::Service, name, fleet, content)
}

fn seen_of(kind: ObjectKind, name: &str, fleet: &str, content: &Value) -> News {
    let object = json!({"metadata": {"name": name, "namespace": "system"}, "spec": content});
    let object: kube::core::DynamicObject = serde_json::from_value(object).unwrap();
    let marks = Marks {
        controller: Some("c".to_owned()),
        fleet: Some(fleet.into()),
    };
    let id = ObjectId::of(kind, &object);
    News::Seen(id, marks, Arc::new(ObservedObject::new(kind, object)))
}

/// A fleet whose objects have names that others may ask for too.
fn named(key: &str, account: Option<&str>, service: Option<&str>) -> Arc<Infra> {
    let mut proxy = ProxySettings::default();
    proxy.cluster.account_name = account.map(Arc::from);
    proxy.cluster.service.name = service.map(Arc::from);
    let port = edge_ir::ServicePort {
        name: "http-80".into(),
        port: 80,
        container_port: 10080,
        protocol: edge_ir::PortProtocol::Tcp,
    };
    Arc::new(Infra {
        name: format!("edge-{}", key.replace('/', "-")).into(),
        ports: vec![port],
        proxy: Arc::new(proxy),
        ..Infra::clone(&infra(key))
    })
}

/// What an API server has, by path.
type Objects = Arc<Mutex<BTreeMap<String, Value>>>;

/// As much of an API server as is needed to make objects. Between two requests others have their turn.
async fn serve(objects: Objects, request: Request<Body>) -> Result<Response<Body>, Infallible> {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let sent = body.collect().await.unwrap().to_bytes();
    let mut objects = objects.lock().await;
    if head.method == Method::PATCH {
        objects.insert(path.clone(), serde_json::from_slice(&sent).unwrap());
    }
    let (status, answer) = match objects.get(&path) {
        Some(object) => (StatusCode::OK, object.clone()),
        None => (
            StatusCode::NOT_FOUND,
            json!({"kind": "Status", "status": "Failure", "message": "none", "reason": "NotFound", "code": 404}),
        ),
    };
    let answer = Response::builder()
        .status(status)
        .body(Body::from(answer.to_string().into_bytes()));
    Ok(answer.unwrap())
}

async fn settled(fleets: &Fleets, keys: [&str; 2]) -> BTreeMap<FleetKey, Availability> {
    let mut reports = fleets.outputs.reports.subscribe();
    let looking = reports.wait_for(|reports| {
        let is_told = |key: &&str| {
            let report = reports.as_ref().and_then(|reports| reports.get(&FleetKey::new(*key)));
            report.is_some_and(|report| report.availability != Availability::Starting)
        };
        keys.iter().any(is_told)
    });
    let looked = tokio::time::timeout(std::time::Duration::from_secs(10), looking).await;
    let reports = looked.expect("something is said").unwrap();
    let all = reports.iter().flatten();
    all.map(|(key, report)| (key.clone(), report.availability.clone()))
        .collect()
}

/// Each looks for the name, and none is there yet.
#[tokio::test]
async fn of_fleets_that_ask_for_one_name_at_once_one_gets_it_and_the_others_are_told() {
    let objects = Objects::default();
    let served = Arc::clone(&objects);
    let mut fleets = fleets_before(
        Client::new(
            service_fn(move |request| serve(Arc::clone(&served), request)),
            "default",
        ),
        None,
    );
    let wanted = ["ns/a", "ns/b"].map(|key| named(key, Some("shared"), Some("taken")));
    fleets.publish(published(&[("ns/a", Some(&wanted[0])), ("ns/b", Some(&wanted[1]))]));
    let said = settled(&fleets, ["ns/a", "ns/b"]).await;
    let refused: Vec<_> = said
        .iter()
        .filter(|(_, said)| **said != Availability::Starting)
        .collect();
    let [(loser, Availability::Failed(why))] = refused.as_slice() else {
        panic!("{said:?}")
    };
    assert!(
        why.starts_with("Service system/taken exists and is not of this Gateway"),
        "{why}"
    );
    let objects = objects.lock().await;
    let owner =
        objects["/api/v1/namespaces/system/services/taken"]["metadata"]["annotations"][edge_infra::FLEET].clone();
    assert_ne!(owner, loser.to_string(), "who was first keeps it");
    assert!(
        objects.contains_key("/api/v1/namespaces/system/serviceaccounts/shared"),
        "{objects:?}"
    );
    for deployment in ["edge-ns-a", "edge-ns-b"] {
        let deployment = &objects[&format!("/apis/apps/v1/namespaces/system/deployments/{deployment}")];
        assert_eq!(deployment["spec"]["template"]["spec"]["serviceAccountName"], "shared");
    }
}

/// The objects that a fleet's task works on.
fn names(fleets: &Fleets, key: &str) -> Vec<String> {
    let running = fleets.running.get(&FleetKey::new(key));
    let view = running.map(|running| running.work.borrow().view.clone());
    view.into_iter().flatten().map(|(id, _)| id.name.to_string()).collect()
}

/// The one that made it must not take it from under the others.
#[tokio::test]
async fn an_account_that_fleets_share_goes_with_the_last_of_them() {
    let mut fleets = fleets();
    let wanted = ["ns/a", "ns/b"].map(|key| named(key, Some("shared"), None));
    fleets.hear(seen_of(ObjectKind::ServiceAccount, "shared", "ns/a", &json!({})));
    fleets.publish(published(&[("ns/a", Some(&wanted[0])), ("ns/b", Some(&wanted[1]))]));
    assert_eq!((names(&fleets, "ns/a").len(), names(&fleets, "ns/b").len()), (1, 0));
    fleets.publish(published(&[("ns/b", Some(&wanted[1]))]));
    assert_eq!(names(&fleets, "ns/a"), [""; 0], "it isn't to be deleted");
    assert_eq!(names(&fleets, "ns/b"), ["shared"], "it is to be taken over");
    fleets.hear(seen_of(ObjectKind::ServiceAccount, "shared", "ns/b", &json!({})));
    fleets.publish(published(&[]));
    assert_eq!(names(&fleets, "ns/b"), ["shared"], "nobody runs with it any more");
    assert!(fleets.running[&FleetKey::new("ns/b")].work.borrow().wanted.is_none());
}

/// Its EdgeProxy is gone, and was when this controller began.
#[tokio::test]
async fn an_account_stays_with_a_fleet_of_which_nobody_knows_how_it_is_made() {
    let (mut fleets, own) = (fleets(), named("ns/own", Some("shared"), None));
    let pods = json!({"template": {"spec": {"serviceAccountName": "shared"}}});
    fleets.hear(seen_of(ObjectKind::ServiceAccount, "shared", "ns/own", &json!({})));
    let deployment = seen_of(ObjectKind::Deployment, "front", "ns/front", &pods);
    let News::Seen(id, ..) = &deployment else {
        unreachable!()
    };
    let id = id.clone();
    fleets.hear(deployment);
    fleets.publish(published(&[("ns/front", None), ("ns/own", Some(&own))]));
    assert_eq!(names(&fleets, "ns/own"), ["shared"]);
    fleets.publish(published(&[("ns/front", None)]));
    assert_eq!(names(&fleets, "ns/own"), [""; 0], "it isn't to be deleted");
    let others = json!({"template": {"spec": {"serviceAccountName": "other"}}});
    fleets.hear(seen_of(ObjectKind::Deployment, "front", "ns/front", &others));
    assert_eq!(names(&fleets, "ns/own"), ["shared"], "nobody runs with it any more");
    fleets.hear(seen_of(ObjectKind::Deployment, "front", "ns/front", &pods));
    fleets.follow_all();
    assert_eq!(names(&fleets, "ns/own"), [""; 0]);
    fleets.hear(News::Gone(id));
    assert_eq!(names(&fleets, "ns/own"), ["shared"], "nobody runs with it any more");
}

#[tokio::test]
async fn who_runs_with_an_account_of_another_hears_that_it_is_gone() {
    let (mut fleets, mut receivers) = (fleets(), BTreeMap::new());
    let wanted = ["ns/a", "ns/b"].map(|key| named(key, Some("shared"), None));
    let News::Seen(id, marks, account) = seen_of(ObjectKind::ServiceAccount, "shared", "ns/a", &json!({})) else {
        unreachable!()
    };
    fleets.hear(News::Seen(id.clone(), marks, account));
    fleets.publish(published(&[("ns/a", Some(&wanted[0])), ("ns/b", Some(&wanted[1]))]));
    assert_eq!(woken(&fleets, &mut receivers), ["ns/a", "ns/b"]);
    fleets.hear(News::Gone(id));
    assert_eq!(woken(&fleets, &mut receivers), ["ns/a", "ns/b"]);
}

/// A controller begins while an EdgeProxy can't be used.
#[tokio::test]
async fn a_fleet_that_nobody_knows_how_to_make_is_left_alone_and_said_to_be_as_it_is_seen() {
    let mut fleets = fleets();
    let mut state = Published::clone(&published(&[("ns/a", None)]).unwrap());
    let home = Settings {
        controller_namespace: "system".into(),
        ..Settings::default()
    }
    .home(&"ns/a".into());
    let name = home.as_ref().unwrap().name.to_string();
    for fleet in state.fleets.values_mut() {
        fleet.home.clone_from(&home);
    }
    fleets.publish(Some(Arc::new(state)));
    let said = |fleets: &Fleets| {
        let reports = fleets.outputs.reports.borrow();
        reports
            .as_ref()
            .and_then(|reports| reports.get(&FleetKey::new("ns/a")))
            .cloned()
            .unwrap()
    };
    assert_eq!(said(&fleets).availability, Availability::Starting);
    fleets.hear(seen(
        &name,
        "ns/a",
        &json!({"type": "ClusterIP", "clusterIPs": ["10.96.0.1"]}),
    ));
    assert_eq!(said(&fleets).addresses.len(), 1);
    fleets.hear(seen_of(ObjectKind::Deployment, &name, "ns/a", &json!({"replicas": 2})));
    assert_eq!(said(&fleets).replicas, 2);
    assert!(fleets.running.is_empty(), "nobody works on it");
}

/// It has read the EdgeProxy before that couldn't be used any more, and somebody has changed an object meanwhile.
#[tokio::test]
async fn who_begins_to_lead_repairs_what_was_wanted_last() {
    let (mut fleets, last) = (fleets(), infra("ns/a"));
    let mut state = Published::clone(&published(&[("ns/a", None)]).unwrap());
    for fleet in state.fleets.values_mut() {
        fleet.last_infra = Some(Arc::clone(&last));
    }
    fleets.publish(Some(Arc::new(state)));
    let work = fleets.running[&FleetKey::new("ns/a")].work.borrow();
    let (wanted, _) = work.wanted.as_ref().unwrap();
    assert!(Arc::ptr_eq(wanted, &last));
}

/// The EdgeProxy of a class goes by which its Gateways share a fleet: that isn't to be deleted, nor is anything to be
/// said of fleets that its Gateways would have otherwise.
#[tokio::test]
async fn a_fleet_that_gateways_may_share_stays_while_nobody_can_tell() {
    for is_known in [true, false] {
        let (mut fleets, shared) = (fleets(), infra("class"));
        fleets.hear(seen("edge", "class", &json!({})));
        if is_known {
            fleets.publish(published(&[("class", Some(&shared))]));
        }
        let mut state = Published::clone(&published(&[("ns/a", None)]).unwrap());
        for fleet in state.fleets.values_mut() {
            fleet.alternatives = vec!["class".into()];
        }
        fleets.publish(Some(Arc::new(state)));
        let is_wanted = |fleets: &Fleets| {
            let running = fleets.running.get(&FleetKey::new("class"));
            running.map(|running| running.work.borrow().wanted.is_some())
        };
        assert_eq!(is_wanted(&fleets), is_known.then_some(true));
        let told = fleets.outputs.reports.borrow().clone().unwrap();
        assert!(!told.contains_key(&FleetKey::new("ns/a")), "{told:?}");
        // It is back, and says that each has a fleet of its own.
        let own = infra("ns/a");
        fleets.publish(published(&[("ns/a", Some(&own))]));
        assert_eq!(is_wanted(&fleets), Some(false), "it goes");
    }
}

/// The EdgeProxy of a class says that its Gateways share a fleet, and can't be used: their own stay, and nothing is
/// said of the one that isn't made.
#[tokio::test]
async fn fleets_of_gateways_stay_while_the_one_that_they_shall_share_cant_be_made() {
    let (mut fleets, own, other) = (fleets(), infra("ns/a"), infra("ns/b"));
    fleets.hear(seen("a", "ns/a", &json!({})));
    fleets.hear(seen("b", "ns/b", &json!({})));
    fleets.publish(published(&[("ns/a", Some(&own)), ("ns/b", Some(&other))]));
    let mut state = Published::clone(&published(&[("class", None)]).unwrap());
    for fleet in state.fleets.values_mut() {
        fleet.alternatives = vec!["ns/a".into()];
    }
    fleets.publish(Some(Arc::new(state)));
    let is_wanted = |fleets: &Fleets, key: &str| {
        let running = fleets.running.get(&FleetKey::new(key));
        running.map(|running| running.work.borrow().wanted.is_some())
    };
    assert_eq!(is_wanted(&fleets, "ns/a"), Some(true));
    assert_eq!(is_wanted(&fleets, "ns/b"), Some(false), "its Gateway has gone");
    let told = fleets.outputs.reports.borrow().clone().unwrap();
    assert!(!told.contains_key(&FleetKey::new("class")), "{told:?}");
    // It is made after all.
    let shared = infra("class");
    fleets.publish(published(&[("class", Some(&shared))]));
    assert_eq!(is_wanted(&fleets, "ns/a"), Some(false), "it goes");
}

/// Which tasks have been given other work since the last call.
fn woken(fleets: &Fleets, receivers: &mut BTreeMap<FleetKey, watch::Receiver<Work>>) -> Vec<String> {
    for (key, running) in &fleets.running {
        receivers.entry(key.clone()).or_insert_with(|| {
            let mut receiver = running.work.subscribe();
            receiver.mark_changed();
            receiver
        });
    }
    let is_news = |(_, receiver): &(&FleetKey, &mut watch::Receiver<Work>)| receiver.has_changed().unwrap();
    let woken: Vec<_> = receivers.iter_mut().filter(is_news).collect();
    woken
        .into_iter()
        .map(|(key, receiver)| {
            receiver.mark_unchanged();
            key.to_string()
        })
        .collect()
}

#[tokio::test]
async fn only_those_are_woken_who_have_other_work() {
    let (mut fleets, mut receivers) = (fleets(), BTreeMap::new());
    let (one, two) = (infra("ns/one"), infra("ns/two"));
    fleets.publish(published(&[("ns/one", Some(&one)), ("ns/two", Some(&two))]));
    assert_eq!(woken(&fleets, &mut receivers), ["ns/one", "ns/two"]);
    // Endpoints have changed, or somebody else's routes.
    fleets.publish(published(&[("ns/one", Some(&one)), ("ns/two", Some(&two))]));
    assert_eq!(woken(&fleets, &mut receivers), [""; 0]);
    fleets.publish(published(&[("ns/one", Some(&infra("ns/one"))), ("ns/two", Some(&two))]));
    assert_eq!(woken(&fleets, &mut receivers), ["ns/one"]);
    fleets.hear(seen("a", "ns/two", &json!({})));
    assert_eq!(woken(&fleets, &mut receivers), ["ns/two"]);
    // It says that it is another's now.
    fleets.hear(seen("a", "ns/one", &json!({})));
    assert_eq!(woken(&fleets, &mut receivers), ["ns/one", "ns/two"]);
    fleets.follow_all();
    assert_eq!(woken(&fleets, &mut receivers), [""; 0]);
    let mut rendering = Rendering::clone(&fleets.rendering);
    rendering.terms.authorities = "others".to_owned();
    fleets.render_with(rendering);
    assert_eq!(woken(&fleets, &mut receivers), ["ns/one", "ns/two"]);
}

#[tokio::test]
async fn objects_of_many_fleets_are_written_a_few_at_a_time() {
    let asked = Arc::default();
    let mut fleets = fleets_that_ask(&asked, None);
    let names: Vec<_> = (0..3 * AT_A_TIME).map(|n| format!("ns/{n}")).collect();
    let infra: Vec<_> = names.iter().map(|name| named(name, None, None)).collect();
    let wanted: Vec<_> = names
        .iter()
        .zip(&infra)
        .map(|(name, infra)| (&**name, Some(infra)))
        .collect();
    fleets.publish(published(&wanted));
    while asked.load(Ordering::Relaxed) < AT_A_TIME {
        tokio::task::yield_now().await;
    }
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(asked.load(Ordering::Relaxed), AT_A_TIME);
}

/// It is there although no Gateway asks for it, and goes when the file doesn't ask for it any more.
#[tokio::test]
async fn the_service_of_rate_limits_is_looked_after_like_a_fleet() {
    for service in [Some(rate_limits()), None] {
        let is_wanted = service.is_some();
        let (mut fleets, mut receivers) = (fleets_that_ask(&Arc::default(), service), BTreeMap::new());
        fleets.hear(seen("edge-ratelimit", KEY, &json!({})));
        fleets.publish(published(&[]));
        assert_eq!(woken(&fleets, &mut receivers), [KEY]);
        let work = fleets.running[&FleetKey::from(KEY)].work.borrow();
        assert_eq!(work.wanted.is_some(), is_wanted);
        if let Some((infra, rendering)) = &work.wanted {
            assert_eq!(rendering.objects(infra).unwrap().len(), 4);
        }
    }
}

/// Else nobody would see that it is edited, that it goes, or that it is still there when nobody asks for it.
#[tokio::test]
async fn the_objects_of_the_service_are_among_those_that_are_watched() {
    let (sender, mut asked) = mpsc::unbounded_channel();
    let recording = service_fn(move |request: Request<Body>| {
        let _ = sender.send(request.uri().query().unwrap_or_default().to_owned());
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    let places = Places::Namespaces([Arc::from("system")].into());
    let _watches = Watches::start(Client::new(recording, "default"), &places, Arc::default());
    let query = asked.recv().await.unwrap();
    let selector = query.split('&').find_map(|pair| pair.strip_prefix("labelSelector="));
    let selector = selector.unwrap().replace("%2F", "/").replace("%3D", "=");
    let selector: Vec<(&str, &str)> = selector
        .split("%2C")
        .map(|term| term.split_once('=').unwrap())
        .collect();

    let mut fleets = fleets_that_ask(&Arc::default(), Some(rate_limits()));
    fleets.publish(published(&[]));
    let work = fleets.running[&FleetKey::from(KEY)].work.borrow();
    let (infra, rendering) = work.wanted.as_ref().unwrap();
    for object in rendering.objects(infra).unwrap() {
        for (label, value) in &selector {
            assert_eq!(object.body["metadata"]["labels"][label], *value, "{:?}", object.kind);
        }
    }
}

#[tokio::test]
async fn nodes_matter_to_those_who_are_reached_by_them() {
    let mut fleets = fleets();
    fleets.publish(published(&[("ns/one", Some(&infra("ns/one")))]));
    assert!(fleets.on_nodes.is_empty());
    fleets.hear(seen("a", "ns/one", &json!({"type": "NodePort"})));
    assert_eq!(fleets.on_nodes.len(), 1);
    fleets.hear(seen("a", "ns/one", &json!({"type": "LoadBalancer"})));
    assert!(fleets.on_nodes.is_empty());
}

#[tokio::test]
async fn of_a_fleet_that_cannot_be_made_is_said_what_is_known() {
    let mut fleets = fleets();
    fleets.hear(seen("a", "ns/there", &json!({})));
    fleets.publish(published(&[("ns/there", None), ("ns/nowhere", None)]));
    let told = |fleets: &Fleets| -> Vec<(String, Availability)> {
        let reports = fleets.outputs.reports.borrow();
        let reports = reports.iter().flatten();
        reports
            .map(|(key, report)| (key.to_string(), report.availability.clone()))
            .collect()
    };
    // What there is of the other one is left alone, and so is what was said of it.
    assert_eq!(told(&fleets), [("ns/nowhere".to_owned(), Availability::Starting)]);
    fleets.publish(published(&[]));
    assert_eq!(told(&fleets), []);
}
