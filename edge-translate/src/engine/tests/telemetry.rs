//! Edits of what telemetry goes to: each costs what it changes, and ends where a translation from scratch ends.

use super::{WORLD, objects, put, route, settled};
use crate::{
    api::Kind,
    engine::{Change, ObjectKey, Translator},
    settings::Settings,
};
use std::{collections::BTreeMap, sync::Arc};

/// The class of the world, with parameters.
const CLASS: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: edge}
spec:
  controllerName: gateway.edge/gatewayclass-controller
  parametersRef: {group: gateway.edge, kind: EdgeProxy, name: p, namespace: default}
";

const COLLECTOR: &str = r"
apiVersion: v1
kind: Service
metadata: {name: c, namespace: default}
spec: {ports: [{name: otlp, port: 4317}]}
";

const SILENT: &str = r"
apiVersion: gateway.edge/v1alpha1
kind: EdgeProxy
metadata: {name: p, namespace: default}
spec: {}
";

const TELLING: &str = r"
apiVersion: gateway.edge/v1alpha1
kind: EdgeProxy
metadata: {name: p, namespace: default}
spec: {telemetry: {tracing: {provider: {backendRefs: [{name: c, port: 4317}]}}}}
";

fn slice(address: &str) -> String {
    format!(
        r"
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv4
metadata: {{name: c, namespace: default, labels: {{kubernetes.io/service-name: c}}}}
endpoints: [{{addresses: [{address}]}}]
ports: [{{name: otlp, port: 4317}}]
"
    )
}

#[test]
fn collectors_come_and_go_alone() {
    let mut translator = Translator::new(Settings::default());
    let mut world = BTreeMap::new();
    let mut edit = |text: &str| {
        put(&mut translator, text);
        world.extend(objects(text).into_iter().map(|object| (object.key(), object)));
        settled(&mut translator, &world)
    };
    edit(WORLD);
    edit(CLASS);
    let route = route("r", "/", "fine");
    let silent = edit(&[COLLECTOR, &slice("10.0.0.1"), SILENT, &route].join("---"));
    assert!(silent.clusters.iter().all(|cluster| *cluster.name != *"tracing"));
    let telling = edit(TELLING);
    assert!(telling.clusters.iter().any(|cluster| *cluster.name == *"tracing"));
    assert!(
        telling
            .endpoints
            .iter()
            .any(|set| *set.name == *"service/default/c/4317")
    );
    let moved = edit(&slice("10.0.0.2"));
    assert!(Arc::ptr_eq(&moved.listeners, &telling.listeners) && Arc::ptr_eq(&moved.clusters, &telling.clusters));
    assert_ne!(moved.endpoints, telling.endpoints);
    let silent_again = edit(SILENT);
    assert_eq!(silent_again.clusters, silent.clusters);
    assert_eq!(silent_again.endpoints, silent.endpoints);
    let telling = edit(TELLING);
    world.remove(&ObjectKey::new(Kind::Service, "default", "c"));
    translator.apply(Change::Remove(ObjectKey::new(Kind::Service, "default", "c")));
    let gone = settled(&mut translator, &world);
    assert_ne!(gone.clusters, telling.clusters);
    assert!(gone.settings.tracing.is_none());
}
