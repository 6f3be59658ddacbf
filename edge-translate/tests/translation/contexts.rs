//! What policies decide under each parent of a route: listeners with the same context share what is bound, others don't.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use edge_ir::{Cluster, Fleet, Network, Route, RouteAction};
use edge_translate::{
    Change, Settings, Translation, Translator,
    api::{Kind, ObjectKey},
    load::{Limits, Source, load},
};
use serde_json::json;
use std::sync::Arc;

const WORLD: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: edge}
spec: {controllerName: gateway.edge/gatewayclass-controller}
---
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {ports: [{port: 443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv4
metadata: {name: s, labels: {kubernetes.io/service-name: s}}
endpoints: [{addresses: [10.0.0.1]}]
ports: [{port: 8443}]
";

/// Two HTTP Gateways with two listeners each, and a route on all four.
const HTTP: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: near}
spec:
  gatewayClassName: edge
  listeners: [{name: a, protocol: HTTP, port: 80}, {name: b, protocol: HTTP, port: 8080}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: far}
spec:
  gatewayClassName: edge
  listeners: [{name: a, protocol: HTTP, port: 80}, {name: b, protocol: HTTP, port: 8080}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r}
spec:
  parentRefs: [{name: near}, {name: far}]
  rules: [{backendRefs: [{name: s, port: 443}]}]
";

const GUARD: &str = r"
apiVersion: gateway.edge/v1alpha1
kind: EdgeExtensionPolicy
metadata: {name: guard}
spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: far}], lua: [{}]}
";

/// A Gateway that passes TLS through on two ports, and a route under both.
const TLS: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: passing}
spec:
  gatewayClassName: edge
  listeners:
  - {name: a, protocol: TLS, port: 8443, tls: {mode: Passthrough}}
  - {name: b, protocol: TLS, port: 9443, tls: {mode: Passthrough}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: r}
spec:
  parentRefs: [{name: passing}]
  hostnames: [www.example.com]
  rules: [{backendRefs: [{name: s, port: 443}]}]
";

fn policy(hostname: &str, authorities: &str) -> String {
    format!(
        r"
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {{name: tls}}
spec:
  targetRefs: [{{group: '', kind: Service, name: s}}]
  validation: {{hostname: {hostname}, wellKnownCACertificates: {authorities}}}
"
    )
}

/// The same Gateway with a listener that ends TLS beside the others, and its certificate.
fn terminating() -> String {
    let gateway = TLS.split("---").next().unwrap().trim_end();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c"}, "stringData": {
        "tls.crt": include_str!("data/exact-ec.crt"), "tls.key": include_str!("data/exact-ec.key"),
    }});
    let listener = "{name: d, protocol: TLS, port: 7443, tls: {certificateRefs: [{name: c}]}}";
    format!("{gateway}\n  - {listener}\n---\n{secret}\n")
}

/// An HTTP listener in front of the same backend, which encrypts what it sends there.
const PLAIN: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: passing}
spec:
  gatewayClassName: edge
  listeners:
  - {name: a, protocol: TLS, port: 8443, tls: {mode: Passthrough}}
  - {name: b, protocol: TLS, port: 9443, tls: {mode: Passthrough}}
  - {name: c, protocol: HTTP, port: 80}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r}
spec:
  parentRefs: [{name: passing, sectionName: c}]
  rules: [{backendRefs: [{name: s, port: 443}]}]
";

struct Engine {
    translator: Translator,
    last: Translation,
}

impl Engine {
    fn new(texts: &[&str]) -> Self {
        let mut engine = Self {
            translator: Translator::new(Settings::default()),
            last: Translation::default(),
        };
        engine.put(WORLD);
        texts.iter().for_each(|text| engine.put(text));
        engine
    }

    fn put(&mut self, text: &str) {
        let loaded = load(&Source { name: "world", text }, &Limits::default());
        assert_eq!(loaded.findings, []);
        for object in loaded.objects {
            self.translator.apply(Change::Put(object.object));
        }
        self.last = self.translator.translate();
    }

    fn remove(&mut self, kind: Kind, name: &str) {
        self.translator
            .apply(Change::Remove(ObjectKey::new(kind, "default", name)));
        self.last = self.translator.translate();
    }

    fn fleet(&self, name: &str) -> &Fleet {
        &self.last.fleets[name]
    }

    fn routes(&self, fleet: &str) -> Vec<Arc<Route>> {
        let hosts = self.fleet(fleet).route_tables.iter().flat_map(|t| t.hosts.iter());
        hosts.flat_map(|host| &host.routes).cloned().collect()
    }

    fn clusters(&self, fleet: &str) -> Vec<&str> {
        self.fleet(fleet).clusters.iter().map(|c| &*c.name).collect()
    }

    fn cluster(&self, fleet: &str, name: &str) -> &Cluster {
        let clusters = &self.fleet(fleet).clusters;
        clusters.iter().find(|c| &*c.name == name).unwrap()
    }

    /// Clusters that the streams of each socket go to.
    fn streams(&self, fleet: &str) -> Vec<(String, String)> {
        let chains = self.fleet(fleet).listeners.iter().flat_map(|listener| {
            let chains = listener.chains.iter().chain(&listener.default_chain);
            chains.map(move |chain| (listener, chain))
        });
        let shares = chains.flat_map(|(listener, chain)| match &chain.network {
            Network::Tcp(stream) => stream
                .shares
                .iter()
                .map(|share| (listener.name.to_string(), share.cluster.to_string()))
                .collect(),
            Network::Http(_) => Vec::new(),
        });
        shares.collect()
    }

    fn status(&self, kind: Kind, name: &str) -> String {
        format!(
            "{:?}",
            self.translator.statuses()[&ObjectKey::new(kind, "default", name)]
        )
    }
}

/// Whether there are routes, and all of them are closed.
fn all_closed(routes: &[Arc<Route>]) -> bool {
    !routes.is_empty() && routes.iter().all(|route| is_closed(route))
}

fn is_closed(route: &Route) -> bool {
    matches!(&route.effect.action, RouteAction::Respond(answer) if answer.status == 500)
}

#[test]
fn listeners_with_one_context_share_what_is_bound() {
    let mut engine = Engine::new(&[HTTP]);
    let (near, far) = (engine.routes("default/near"), engine.routes("default/far"));
    assert_eq!((near.len(), far.len()), (2, 2));
    assert!(near.iter().chain(&far).all(|route| Arc::ptr_eq(route, &near[0])));
    // Another context is bound once, too.
    engine.put(GUARD);
    let far = engine.routes("default/far");
    assert!(Arc::ptr_eq(&far[0], &far[1]) && is_closed(&far[0]));
}

#[test]
fn a_policy_over_one_parent_closes_the_route_there_and_nowhere_else() {
    let mut engine = Engine::new(&[HTTP]);
    let open = engine.routes("default/near");
    engine.put(GUARD);
    assert_eq!(engine.routes("default/near"), open);
    assert!(all_closed(&engine.routes("default/far")));
    // Nothing goes to its backend there, so that fleet needn't know it.
    assert_eq!(engine.clusters("default/near"), ["service/default/s/443"]);
    assert_eq!(engine.clusters("default/far"), [""; 0]);
    let status = engine.status(Kind::EdgeExtensionPolicy, "guard");
    assert_eq!(status.matches("Invalid").count(), 1, "{status}");
    engine.remove(Kind::EdgeExtensionPolicy, "guard");
    assert_eq!(engine.routes("default/far"), open);
}

#[test]
fn a_context_that_changes_nothing_of_a_backend_is_no_other_cluster() {
    let engine = Engine::new(&[TLS]);
    assert_eq!(engine.clusters("default/passing"), ["service/default/s/443"]);
}

#[test]
fn two_contexts_make_two_clusters_of_a_backend_with_one_set_of_endpoints() {
    let mut engine = Engine::new(&[TLS, PLAIN, &policy("s.example.com", "System")]);
    let own = "service/default/s/443";
    let names = engine.clusters("default/passing");
    assert!(
        matches!(*names, [a, b] if a == own && b.starts_with(&format!("{own}~"))),
        "{names:?}"
    );
    let passed_on = names[1].to_owned();
    let on = |port: &str| (port.to_owned(), passed_on.clone());
    assert_eq!(engine.streams("default/passing"), [on("tcp-8443"), on("tcp-9443")]);
    let tls = |engine: &Engine, name: &str| engine.cluster("default/passing", name).tls.clone();
    assert_eq!(tls(&engine, &passed_on), None);
    assert_eq!(&*tls(&engine, own).unwrap().server_name, "s.example.com");
    assert_eq!(engine.fleet("default/passing").endpoints.len(), 1);
    // What the policy says of the backend is the backend's own: an edit renames nothing, and moves one cluster.
    let before = engine.cluster("default/passing", &passed_on).clone();
    engine.put(&policy("other.example.com", "System"));
    assert_eq!(engine.clusters("default/passing"), [own, &passed_on]);
    assert_eq!(&*tls(&engine, own).unwrap().server_name, "other.example.com");
    assert_eq!(*engine.cluster("default/passing", &passed_on), before);
}

#[test]
fn a_backend_that_is_refused_is_closed_where_its_own_settings_count() {
    let engine = Engine::new(&[TLS, PLAIN, &policy("s.example.com", "Unheard")]);
    let names = engine.clusters("default/passing");
    assert!(matches!(*names, [one] if one.contains('~')), "{names:?}");
    assert_eq!(engine.streams("default/passing").len(), 2);
    assert!(all_closed(&engine.routes("default/passing")));
    let status = engine.status(Kind::TlsRoute, "r");
    assert!(status.contains("Resolved all the Object references"), "{status}");
    let status = engine.status(Kind::HttpRoute, "r");
    assert!(status.contains("InvalidBackendTLS"), "{status}");
}

#[test]
fn a_listener_that_ends_tls_counts_the_backends_own_settings() {
    let own = "service/default/s/443";
    let ports = |engine: &Engine| -> Vec<(String, bool)> {
        let streams = engine.streams("default/passing").into_iter();
        streams.map(|(port, cluster)| (port, cluster == own)).collect()
    };
    let on = |port: &str, own: bool| (port.to_owned(), own);
    let mut engine = Engine::new(&[TLS, &terminating(), &policy("s.example.com", "System")]);
    let all = [on("tcp-7443", true), on("tcp-8443", false), on("tcp-9443", false)];
    assert_eq!(ports(&engine), all);
    // Refused, they close what would go there in clear; what clients encrypt passes as before.
    engine.put(&policy("s.example.com", "Unheard"));
    assert_eq!(ports(&engine), all[1..]);
    let status = engine.status(Kind::TlsRoute, "r");
    assert!(status.contains("InvalidBackendTLS"), "{status}");
}
