//! Edits of backends that are one cluster: each costs what it changes, and ends where a translation from scratch ends.

use super::{WORLD, objects, put, settled};
use crate::{
    engine::{ObjectKey, Translator},
    settings::Settings,
};
use std::{collections::BTreeMap, sync::Arc};

const ROUTE: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: default}
spec:
  parentRefs: [{name: g}]
  rules: [{backendRefs: [{name: s, port: 80}, {group: gateway.edge, kind: Backend, name: spare}]}]
";

fn slice(address: &str) -> String {
    format!(
        r"
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv4
metadata: {{name: s, namespace: default, labels: {{kubernetes.io/service-name: s}}}}
endpoints: [{{addresses: [{address}]}}]
ports: [{{port: 8080}}]
"
    )
}

fn spare(spec: &str) -> String {
    format!(
        r"
apiVersion: gateway.edge/v1alpha1
kind: Backend
metadata: {{name: spare, namespace: default}}
spec: {{{spec}, endpoints: [{{ip: {{address: 10.9.9.9, port: 9000}}}}]}}
"
    )
}

#[test]
fn a_pod_of_a_set_changes_endpoints_alone() {
    let mut translator = Translator::new(Settings::default());
    let mut world: BTreeMap<ObjectKey, _> = BTreeMap::new();
    let mut edit = |text: &str| {
        put(&mut translator, text);
        world.extend(objects(text).into_iter().map(|object| (object.key(), object)));
        settled(&mut translator, &world)
    };
    edit(WORLD);
    edit(&[ROUTE, &slice("10.0.0.1"), &spare("fallback: true")].join("---"));
    let one = edit(&slice("10.0.0.2"));
    assert!(one.clusters.iter().all(|cluster| cluster.name.starts_with("set/")));
    assert!(one.endpoints.iter().all(|set| set.name.starts_with("set/")));
    let moved = edit(&slice("10.0.0.3"));
    assert!(Arc::ptr_eq(&moved.clusters, &one.clusters));
    assert_eq!(moved.route_tables, one.route_tables);
    assert_ne!(moved.endpoints, one.endpoints);
    // TLS of one of them is told with the endpoints, and renames nothing.
    let secured = edit(&spare(
        "fallback: true, tls: {wellKnownCACertificates: System, sni: spare.example}",
    ));
    assert_eq!(secured.route_tables, one.route_tables);
    assert!(
        secured
            .clusters
            .iter()
            .all(|cluster| cluster.sockets.len() == 2 && cluster.tls.is_some())
    );
    let apart = edit(&spare("fallback: false"));
    assert!(apart.clusters.iter().all(|cluster| !cluster.name.starts_with("set/")));
    assert_eq!(apart.clusters.len(), 2);
}
