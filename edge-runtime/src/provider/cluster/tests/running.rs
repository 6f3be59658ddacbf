//! The whole provider, against an API server in this process whose parts fail and change at will.

use super::resource;
use crate::{
    cluster::{
        Api, ReadKind, Served, Unreadable,
        terms::{ClientLimits, Election},
    },
    config::{Cluster, Deploy, Scope},
    metrics::{Counter, Metrics},
    provider::cluster::{Kinds, Outputs, run},
    state::Input,
    task::Task,
};
use edge_translate::{Change, Feature, api::Kind};
use http::{Request, Response, StatusCode};
use kube::{Client, client::Body, core::ApiResource};
use serde_json::{Value, json};
use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::{self, Instant},
};
use tower::service_fn;

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the API server holds.
#[derive(Default)]
struct State {
    version: u64,
    /// Objects by the path of their list, then by namespace and name.
    objects: BTreeMap<String, BTreeMap<(String, String), Value>>,
    /// Every change: its version, the path of the list, and the event.
    changes: Vec<(u64, String, Value)>,
    /// Paths that are answered otherwise.
    broken: BTreeMap<String, Broken>,
    /// When a broken path was asked for.
    failures: Vec<Instant>,
}

#[derive(Clone, Copy)]
enum Broken {
    /// With this code.
    Code(u16),
    /// By a bug of the client, so many times.
    Bug(u32),
}

#[derive(Clone, Default)]
struct Server(Arc<watch::Sender<State>>);

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (code, text) = server.answer(request.uri()).await;
                let mut response = Response::new(Body::from(text.into_bytes()));
                *response.status_mut() = StatusCode::from_u16(code).unwrap();
                Ok::<_, Infallible>(response)
            }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, uri: &http::Uri) -> (u16, String) {
        let path = uri.path().to_owned();
        let broken = self.0.borrow().broken.get(&path).copied();
        if let Some(broken) = broken {
            self.0.send_modify(|state| state.failures.push(Instant::now()));
            match broken {
                Broken::Code(code) => return fault(code),
                Broken::Bug(0) => {}
                Broken::Bug(left) => {
                    self.set_broken(&path, Broken::Bug(left - 1));
                    panic!("a test's bug");
                }
            }
        }
        let parameter = |name: &str| {
            let pairs = uri.query().unwrap_or_default().split('&');
            pairs
                .filter_map(|pair| pair.split_once('='))
                .find(|(key, _)| *key == name)
        };
        match parameter("watch") {
            Some(_) => {
                let since = parameter("resourceVersion").unwrap().1.parse().unwrap();
                (200, self.events(&path, since).await)
            }
            None => self.list(&path),
        }
    }

    fn list(&self, path: &str) -> (u16, String) {
        let state = self.0.borrow();
        let items: Vec<&Value> = state.objects.get(path).into_iter().flat_map(BTreeMap::values).collect();
        let metadata = json!({ "resourceVersion": state.version.to_string() });
        let list = json!({ "kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items });
        (200, list.to_string())
    }

    /// What has changed below a path since a version; it is waited for.
    async fn events(&self, path: &str, since: u64) -> String {
        let mut changes = self.0.subscribe();
        let is_new = |(version, of, _): &&(u64, String, Value)| *version > since && of == path;
        let state = changes
            .wait_for(|state| state.changes.iter().any(|change| is_new(&change)))
            .await
            .unwrap();
        let events = state.changes.iter().filter(is_new);
        events.map(|(_, _, event)| event.to_string() + "\n").collect()
    }

    fn put(&self, list: &str, mut object: Value) {
        self.0.send_modify(|state| {
            state.version += 1;
            object["metadata"]["resourceVersion"] = state.version.to_string().into();
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            let key = (text("namespace"), text("name"));
            let event = json!({ "type": "MODIFIED", "object": object });
            state.changes.push((state.version, list.to_owned(), event));
            state.objects.entry(list.to_owned()).or_default().insert(key, object);
        });
    }

    fn set_broken(&self, path: &str, broken: Broken) {
        self.0.send_modify(|state| {
            state.broken.insert(path.to_owned(), broken);
        });
    }
}

impl Server {
    fn mend(&self, path: &str) {
        self.0.send_modify(|state| {
            state.broken.remove(path);
        });
    }
}

fn fault(code: u16) -> (u16, String) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Test", "message": "test", "code": code,
    });
    (code, status.to_string())
}

fn object(name: &str, spec: Value) -> Value {
    json!({ "metadata": { "name": name, "namespace": "ns", "generation": 1 }, "spec": spec })
}

fn namespace(name: &str, team: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "team": team } } })
}

fn gateway(certificate: Option<&str>) -> Value {
    let listener = match certificate {
        Some(name) => {
            json!({ "name": "l", "port": 443, "protocol": "HTTPS", "tls": { "certificateRefs": [{ "name": name }] } })
        }
        None => json!({ "name": "l", "port": 80, "protocol": "HTTP" }),
    };
    object("gw", json!({ "gatewayClassName": "c", "listeners": [listener] }))
}

fn resource_at(kind: Kind, version: &str, plural: &str) -> ApiResource {
    let api_version = match kind.group() {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    ApiResource {
        version: version.to_owned(),
        api_version,
        plural: plural.to_owned(),
        ..resource(kind)
    }
}

fn served(kinds: &[(Kind, &str, &str)]) -> Arc<Served> {
    let mut served = Served::default();
    for (kind, version, plural) in kinds {
        let resource = resource_at(*kind, version, plural);
        served.kinds.insert(ReadKind::Known(*kind), resource);
    }
    Arc::new(served)
}

struct Rig {
    server: Server,
    served: watch::Sender<Option<Arc<Served>>>,
    inputs: mpsc::Receiver<Input>,
    metrics: Arc<Metrics>,
    awaited: watch::Receiver<Option<Arc<str>>>,
    _task: Task,
}

impl Rig {
    fn start(server: Server, scope: Scope, first: Arc<Served>) -> Self {
        let (served, kinds) = watch::channel(Some(first));
        let (sender, inputs) = mpsc::channel(64);
        let metrics = Arc::<Metrics>::default();
        let (told, awaited) = watch::channel(None);
        let outputs = Outputs {
            inputs: sender,
            mirror: Arc::default(),
            awaited: told,
            metrics: Arc::clone(&metrics),
        };
        let cluster = Cluster {
            namespace: "system".into(),
            scope,
            deploy: Deploy::ControllerNamespace,
            client: ClientLimits { qps: 1000, burst: 1000 },
            election: Election::Off,
            certificates: "none".into(),
            proxy_image: "none".into(),
            shutdown_manager_image: "none".into(),
            topology_injector: Feature::Disabled,
            rate_limit: None,
            secrets: [].into(),
            custom: [].into(),
        };
        let api = Api::of(server.client());
        let kinds = Kinds {
            served: kinds,
            again: Arc::default(),
        };
        Self {
            server,
            served,
            inputs,
            metrics,
            awaited,
            _task: Task::spawn("provider", |stop| run(api, cluster, kinds, outputs, stop)),
        }
    }

    /// What is told next, in short.
    async fn next(&mut self) -> Vec<String> {
        let input = time::timeout(PATIENCE, self.inputs.recv()).await;
        match input.expect("it is told in time").unwrap() {
            Input::Batch(batch) => {
                let changes = batch.changes.iter().map(|change| match change {
                    Change::Put(object) => format!("+{}", object.key()),
                    Change::Remove(key) => format!("-{key}"),
                    Change::Fact(_) => "?".to_owned(),
                });
                changes.collect()
            }
            Input::Synced(..) => vec!["synced".to_owned()],
            other => panic!("{other:?}"),
        }
    }

    /// All that is told until something is.
    async fn until(&mut self, last: &str) -> Vec<String> {
        let mut told = Vec::new();
        while told.last().is_none_or(|told| told != last) {
            told.append(&mut self.next().await);
        }
        told
    }

    /// All that is told until everything was.
    async fn synced(&mut self) -> Vec<String> {
        let mut told = self.until("synced").await;
        told.pop();
        told
    }

    /// Waits until the API server's state is so.
    async fn wait_for(&self, is_so: impl FnMut(&State) -> bool) {
        let mut states = self.server.0.subscribe();
        let waited = time::timeout(PATIENCE, states.wait_for(is_so)).await;
        assert!(waited.expect("it comes in time").is_ok());
    }
}

const ROUTES: &str = "/apis/gateway.networking.k8s.io/v1alpha2/tlsroutes";
const ROUTES_V1: &str = "/apis/gateway.networking.k8s.io/v1/tlsroutes";
const GATEWAYS: &str = "/apis/gateway.networking.k8s.io/v1/gateways";
const SECRETS: &str = "/api/v1/secrets";

#[tokio::test]
async fn a_kind_that_moves_to_another_version_is_followed_there() {
    let server = Server::default();
    server.put(ROUTES, object("a", json!({})));
    let mut rig = Rig::start(server, Scope::All, served(&[(Kind::TlsRoute, "v1alpha2", "tlsroutes")]));
    assert_eq!(rig.synced().await, ["+TLSRoute/ns/a"]);
    rig.server.set_broken(ROUTES, Broken::Code(404));
    rig.server.put(ROUTES_V1, object("a", json!({})));
    rig.server.put(ROUTES_V1, object("b", json!({})));
    rig.served
        .send_replace(Some(served(&[(Kind::TlsRoute, "v1", "tlsroutes")])));
    // What was read goes on being in force, so there is nothing to be taken back.
    assert_eq!(rig.until("+TLSRoute/ns/b").await, ["+TLSRoute/ns/a", "+TLSRoute/ns/b"]);
    rig.server.put(ROUTES_V1, object("c", json!({})));
    assert_eq!(rig.next().await, ["+TLSRoute/ns/c"]);
}

/// SecurityPolicy is served at a version that nobody knows.
fn unreadable() -> Arc<Served> {
    let kind = ReadKind::Known(Kind::SecurityPolicy);
    let mut served = Served::default();
    let namespaces = resource_at(Kind::Namespace, "v1", "namespaces");
    served.kinds.insert(ReadKind::Known(Kind::Namespace), namespaces);
    let how = Unreadable {
        versions: "v1beta1".to_owned(),
        resource: Some(resource_at(Kind::SecurityPolicy, "v1beta1", "securitypolicies")),
    };
    served.unreadable.insert(kind, how);
    Arc::new(served)
}

const POLICIES: &str = "/apis/gateway.edge/v1alpha1/securitypolicies";
const POLICIES_LATER: &str = "/apis/gateway.edge/v1beta1/securitypolicies";

fn policy(name: &str) -> Value {
    object(name, json!({ "targetRef": { "kind": "HTTPRoute", "name": "r" } }))
}

#[tokio::test]
async fn policies_that_are_served_at_an_unknown_version_stay_in_force() {
    let server = Server::default();
    server.put(POLICIES, policy("guard"));
    let kinds = [
        (Kind::SecurityPolicy, "v1alpha1", "securitypolicies"),
        (Kind::Namespace, "v1", "namespaces"),
    ];
    let mut rig = Rig::start(server, Scope::All, served(&kinds));
    assert_eq!(rig.synced().await, ["+SecurityPolicy/ns/guard"]);
    rig.server.set_broken(POLICIES, Broken::Code(404));
    rig.server.put(POLICIES_LATER, policy("guard"));
    rig.served.send_replace(Some(unreadable()));
    let told = time::timeout(PATIENCE, rig.awaited.wait_for(Option::is_some)).await;
    let told = told.expect("it is told in time").unwrap().clone().unwrap();
    assert_eq!(
        &*told,
        "SecurityPolicy can't be read: it is served as v1beta1 only, and read as v1alpha1; what was read before stays in force"
    );
    // Nothing but this is told of the policy.
    rig.server.put("/api/v1/namespaces", namespace("mark", "a"));
    assert_eq!(rig.next().await, ["+Namespace/mark"]);
    rig.server.mend(POLICIES);
    rig.served.send_replace(Some(served(&kinds)));
    assert_eq!(rig.next().await, ["+SecurityPolicy/ns/guard"]);
}

#[tokio::test]
async fn who_begins_beside_policies_at_an_unknown_version_waits() {
    let server = Server::default();
    server.put(POLICIES_LATER, policy("guard"));
    let mut rig = Rig::start(server, Scope::All, unreadable());
    let is_told = |told: &Option<Arc<str>>| {
        told.as_deref()
            .is_some_and(|told| told.starts_with("SecurityPolicy can't be"))
    };
    let told = time::timeout(PATIENCE, rig.awaited.wait_for(is_told)).await;
    assert!(told.expect("it is told in time").is_ok());
    rig.server.put(POLICIES, policy("guard"));
    let kinds = [
        (Kind::SecurityPolicy, "v1alpha1", "securitypolicies"),
        (Kind::Namespace, "v1", "namespaces"),
    ];
    rig.served.send_replace(Some(served(&kinds)));
    assert_eq!(rig.synced().await, ["+SecurityPolicy/ns/guard"]);
    // Where there are none, nothing is missing.
    let mut rig = Rig::start(Server::default(), Scope::All, unreadable());
    assert_eq!(rig.synced().await, [""; 0]);
}

#[tokio::test]
async fn a_named_namespace_that_is_not_there_is_not_waited_for() {
    let server = Server::default();
    let inside = |namespace: &str| format!("/apis/gateway.networking.k8s.io/v1/namespaces/{namespace}/gateways");
    server.put("/api/v1/namespaces", namespace("ns", "a"));
    server.put(&inside("ns"), gateway(None));
    // Nobody may look into one that isn't there.
    server.set_broken(&inside("gone"), Broken::Code(403));
    let scope = Scope::Namespaces(["ns".into(), "gone".into()].into());
    let kinds = served(&[(Kind::Namespace, "v1", "namespaces"), (Kind::Gateway, "v1", "gateways")]);
    let mut rig = Rig::start(server, scope, kinds);
    assert_eq!(rig.synced().await, ["+Namespace/ns", "+Gateway/ns/gw"]);
    rig.server.mend(&inside("gone"));
    let mut other = gateway(None);
    other["metadata"]["namespace"] = "gone".into();
    rig.server.put(&inside("gone"), other);
    rig.server.put("/api/v1/namespaces", namespace("gone", "a"));
    assert_eq!(
        rig.until("+Gateway/gone/gw").await,
        ["+Namespace/gone", "+Gateway/gone/gw"]
    );
}

#[tokio::test]
async fn a_watch_that_fails_after_the_start_is_told_until_it_works_again() {
    let server = Server::default();
    server.put(ROUTES, object("a", json!({})));
    let kinds = served(&[(Kind::TlsRoute, "v1alpha2", "tlsroutes")]);
    let mut rig = Rig::start(server, Scope::All, kinds);
    assert_eq!(rig.synced().await, ["+TLSRoute/ns/a"]);
    rig.server.set_broken(ROUTES, Broken::Code(403));
    // What it was waiting for ends, and it asks again.
    rig.server.put(ROUTES, object("b", json!({})));
    let told = async |rig: &mut Rig, is_so: fn(&Option<Arc<str>>) -> bool| {
        let told = time::timeout(PATIENCE, rig.awaited.wait_for(is_so)).await;
        told.expect("it is told in time").unwrap().clone()
    };
    let failing = told(&mut rig, Option::is_some).await.unwrap();
    assert!(
        failing.starts_with("TLSRoute can't be watched: ") && failing.ends_with("stays in force"),
        "{failing}"
    );
    assert!(rig.metrics.render().contains("\nwatches_failing 1\n"));
    rig.server.mend(ROUTES);
    assert_eq!(told(&mut rig, Option::is_none).await, None);
    assert!(rig.metrics.render().contains("\nwatches_failing 0\n"));
}

#[tokio::test]
async fn with_a_namespace_goes_in_one_step_all_that_it_holds() {
    let server = Server::default();
    let (all, inside) = (
        "/api/v1/namespaces",
        "/apis/gateway.networking.k8s.io/v1/namespaces/ns/gateways",
    );
    server.put(all, namespace("ns", "a"));
    server.put(inside, gateway(None));
    let selector = serde_json::from_value(json!({ "matchLabels": { "team": "a" } })).unwrap();
    let kinds = served(&[(Kind::Namespace, "v1", "namespaces"), (Kind::Gateway, "v1", "gateways")]);
    let mut rig = Rig::start(server, Scope::Selector(selector), kinds);
    assert_eq!(rig.synced().await, ["+Namespace/ns", "+Gateway/ns/gw"]);
    rig.server.put(all, namespace("ns", "b"));
    assert_eq!(rig.next().await, ["+Namespace/ns", "-Gateway/ns/gw"]);
}

#[tokio::test]
async fn a_watch_with_a_bug_is_counted_and_begins_again_after_growing_pauses() {
    let server = Server::default();
    server.put(ROUTES, object("a", json!({})));
    server.set_broken(ROUTES, Broken::Bug(3));
    let mut rig = Rig::start(server, Scope::All, served(&[(Kind::TlsRoute, "v1alpha2", "tlsroutes")]));
    assert_eq!(rig.synced().await, ["+TLSRoute/ns/a"]);
    assert_eq!(rig.metrics.counted(Counter::TaskFailures), 3);
    let failures = rig.server.0.borrow().failures.clone();
    let gaps: Vec<Duration> = failures.windows(2).map(|two| two[1] - two[0]).collect();
    for (gap, least) in gaps.iter().zip([500, 1000, 2000]) {
        assert!(*gap >= Duration::from_millis(least), "{gaps:?}");
    }
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_is_asked_for_less_and_less_and_not_when_nobody_names_it() {
    let server = Server::default();
    let path = "/api/v1/namespaces/ns/secrets/cert";
    server.put(SECRETS, object("cert", json!({})));
    server.put(GATEWAYS, gateway(Some("cert")));
    server.set_broken(path, Broken::Code(403));
    let kinds = served(&[
        (Kind::Gateway, "v1", "gateways"),
        (Kind::Secret, "v1", "secrets"),
        (Kind::ConfigMap, "v1", "configmaps"),
    ]);
    let mut rig = Rig::start(server, Scope::All, kinds);
    rig.wait_for(|state| state.failures.len() >= 3).await;
    let failures = rig.server.0.borrow().failures.clone();
    let gaps: Vec<Duration> = failures.windows(2).map(|two| two[1] - two[0]).collect();
    for (gap, least) in gaps.iter().zip([500, 1000]) {
        assert!(*gap >= Duration::from_millis(least), "{gaps:?}");
    }
    // Who named it is told as soon as it doesn't any more.
    rig.server.put(GATEWAYS, gateway(None));
    assert_eq!(rig.synced().await, ["+Gateway/ns/gw"]);
}
