//! What policies decide under each parent of a route: listeners with the same context share what is bound, others
//! don't.

use crate::rig::{Rig, all_closed, hosts, is_closed};
use edge_ir::{Cluster, Fleet, Network, Route};
use edge_translate::api::Kind;
use serde_json::json;
use std::sync::Arc;

const BACKEND: &str = r"
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

/// The fleet of that Gateway.
const PASSING: &str = "default/passing";

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
        "tls.crt": include_str!("../data/exact-ec.crt"), "tls.key": include_str!("../data/exact-ec.key"),
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

/// With the backend, and then these, one after another.
fn world(texts: &[&str]) -> Rig {
    let mut rig = Rig::new(BACKEND);
    for text in texts {
        rig.put(text);
    }
    rig
}

fn fleet<'a>(rig: &'a Rig, name: &str) -> &'a Fleet {
    &rig.last.fleets[name]
}

fn routes(rig: &Rig, name: &str) -> Vec<Arc<Route>> {
    let hosts = hosts(fleet(rig, name));
    hosts.iter().flat_map(|host| &host.routes).cloned().collect()
}

fn clusters<'a>(rig: &'a Rig, name: &str) -> Vec<&'a str> {
    fleet(rig, name).clusters.iter().map(|c| &*c.name).collect()
}

fn cluster<'a>(rig: &'a Rig, name: &str) -> &'a Cluster {
    let clusters = &fleet(rig, PASSING).clusters;
    clusters.iter().find(|c| &*c.name == name).unwrap()
}

/// Clusters that the streams of each socket go to.
fn streams(rig: &Rig) -> Vec<(String, String)> {
    let chains = fleet(rig, PASSING).listeners.iter().flat_map(|listener| {
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

/// Whether the references of a route are resolved, under its first parent: the reason.
fn resolved(rig: &Rig, kind: Kind) -> String {
    let condition = rig.condition(kind, "r", "ResolvedRefs").unwrap();
    condition.reason.into_owned()
}

#[test]
fn listeners_with_one_context_share_what_is_bound() {
    let mut rig = world(&[HTTP]);
    let (near, far) = (routes(&rig, "default/near"), routes(&rig, "default/far"));
    assert_eq!((near.len(), far.len()), (2, 2));
    assert!(near.iter().chain(&far).all(|route| Arc::ptr_eq(route, &near[0])));
    // Another context is bound once, too.
    rig.put(GUARD);
    let far = routes(&rig, "default/far");
    assert!(Arc::ptr_eq(&far[0], &far[1]) && is_closed(&far[0]));
}

#[test]
fn a_policy_over_one_parent_closes_the_route_there_and_nowhere_else() {
    let mut rig = world(&[HTTP]);
    let open = routes(&rig, "default/near");
    rig.put(GUARD);
    assert_eq!(routes(&rig, "default/near"), open);
    assert!(all_closed(&routes(&rig, "default/far")));
    // Nothing goes to its backend there, so that fleet needn't know it.
    assert_eq!(clusters(&rig, "default/near"), ["service/default/s/443"]);
    assert_eq!(clusters(&rig, "default/far"), [""; 0]);
    assert_eq!(rig.reasons(Kind::EdgeExtensionPolicy, "guard"), ["Accepted Invalid"]);
    rig.remove(Kind::EdgeExtensionPolicy, "guard");
    assert_eq!(routes(&rig, "default/far"), open);
}

#[test]
fn a_context_that_changes_nothing_of_a_backend_is_no_other_cluster() {
    let rig = world(&[TLS]);
    assert_eq!(clusters(&rig, PASSING), ["service/default/s/443"]);
}

#[test]
fn two_contexts_make_two_clusters_of_a_backend_with_one_set_of_endpoints() {
    let mut rig = world(&[TLS, PLAIN, &policy("s.example.com", "System")]);
    let own = "service/default/s/443";
    let names = clusters(&rig, PASSING);
    assert!(
        matches!(*names, [a, b] if a == own && b.starts_with(&format!("{own}~"))),
        "{names:?}"
    );
    let passed_on = names[1].to_owned();
    let on = |port: &str| (port.to_owned(), passed_on.clone());
    assert_eq!(streams(&rig), [on("tcp-8443"), on("tcp-9443")]);
    let tls = |rig: &Rig, name: &str| cluster(rig, name).tls.clone();
    assert_eq!(tls(&rig, &passed_on), None);
    assert_eq!(&*tls(&rig, own).unwrap().server_name, "s.example.com");
    assert_eq!(fleet(&rig, PASSING).endpoints.len(), 1);
    // What the policy says of the backend is the backend's own: an edit renames nothing, and moves one cluster.
    let before = cluster(&rig, &passed_on).clone();
    rig.put(&policy("other.example.com", "System"));
    assert_eq!(clusters(&rig, PASSING), [own, &passed_on]);
    assert_eq!(&*tls(&rig, own).unwrap().server_name, "other.example.com");
    assert_eq!(*cluster(&rig, &passed_on), before);
}

#[test]
fn a_backend_that_is_refused_is_closed_where_its_own_settings_count() {
    let rig = world(&[TLS, PLAIN, &policy("s.example.com", "Unheard")]);
    let names = clusters(&rig, PASSING);
    assert!(matches!(*names, [one] if one.contains('~')), "{names:?}");
    assert_eq!(streams(&rig).len(), 2);
    assert!(all_closed(&routes(&rig, PASSING)));
    assert_eq!(resolved(&rig, Kind::TlsRoute), "ResolvedRefs");
    assert_eq!(resolved(&rig, Kind::HttpRoute), "InvalidBackendTLS");
}

#[test]
fn a_listener_that_ends_tls_counts_the_backends_own_settings() {
    let own = "service/default/s/443";
    let ports = |rig: &Rig| -> Vec<(String, bool)> {
        let streams = streams(rig).into_iter();
        streams.map(|(port, cluster)| (port, cluster == own)).collect()
    };
    let on = |port: &str, own: bool| (port.to_owned(), own);
    let mut rig = world(&[TLS, &terminating(), &policy("s.example.com", "System")]);
    let all = [on("tcp-7443", true), on("tcp-8443", false), on("tcp-9443", false)];
    assert_eq!(ports(&rig), all);
    // Refused, they close what would go there in clear; what clients encrypt passes as before.
    rig.put(&policy("s.example.com", "Unheard"));
    assert_eq!(ports(&rig), all[1..]);
    assert_eq!(resolved(&rig, Kind::TlsRoute), "InvalidBackendTLS");
}
