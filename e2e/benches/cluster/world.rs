//! The objects of the bench's world, made so that a size always means the same objects.

use serde_json::{Value, json};
use std::ops::Range;

/// Of the backend that answers.
pub(crate) const ECHO: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: { name: echo, namespace: TENANT }
spec:
  replicas: 3
  selector: { matchLabels: { app: echo } }
  template:
    metadata: { labels: { app: echo } }
    spec:
      containers:
        - name: echo
          image: edge-echo:test
          readinessProbe: { httpGet: { path: /, port: 3000 }, periodSeconds: 1 }
          # Its address is known to proxies for a moment after its end was asked for.
          lifecycle: { preStop: { sleep: { seconds: 2 } } }
---
apiVersion: v1
kind: Service
metadata: { name: echo, namespace: TENANT }
spec:
  selector: { app: echo }
  ports: [{ name: http, port: 80, targetPort: 3000 }]
";

/// HTTPRoutes of two rules and three matches each, and for every two of them a Service with two endpoints.
///
/// The Services have no address in the cluster: that is the business of its service proxy, which isn't measured.
pub(crate) fn routes_with_services(namespace: &str, numbers: Range<usize>) -> Vec<Value> {
    let mut all = Vec::new();
    for number in numbers {
        if number % 2 == 0 {
            all.extend(service(namespace, number / 2));
        }
        all.push(route(namespace, number));
    }
    all
}

fn route(namespace: &str, number: usize) -> Value {
    let backend = json!([{ "name": format!("svc-{}", number / 2), "port": 8080 }]);
    let header = json!({ "name": "x-route", "value": format!("route-{number}") });
    let first = json!({
        "matches": [
            { "path": { "type": "PathPrefix", "value": "/api" } },
            { "path": { "type": "Exact", "value": "/healthz" } },
        ],
        "filters": [{ "type": "RequestHeaderModifier", "requestHeaderModifier": { "set": [header] } }],
        "backendRefs": backend,
    });
    let canary = json!({ "type": "Exact", "name": "x-canary", "value": "true" });
    let second = json!({
        "matches": [{ "path": { "type": "PathPrefix", "value": "/canary" }, "headers": [canary] }],
        "backendRefs": backend,
    });
    http_route(namespace, &format!("route-{number}"), &json!([first, second]))
}

/// A route from a host of its name to the backend that answers.
pub(crate) fn route_to_echo(namespace: &str, name: &str) -> Value {
    http_route(
        namespace,
        name,
        &json!([{ "backendRefs": [{ "name": "echo", "port": 80 }] }]),
    )
}

/// The host of a route.
pub(crate) fn host(name: &str) -> String {
    format!("{name}.example.com")
}

fn http_route(namespace: &str, name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "parentRefs": [{ "name": "front" }], "hostnames": [host(name)], "rules": rules },
    })
}

fn service(namespace: &str, number: usize) -> [Value; 2] {
    let name = format!("svc-{number}");
    let endpoint = |net: usize| json!({ "addresses": [format!("10.{net}.{}.{}", number / 250, number % 250 + 1)], "conditions": { "ready": true } });
    [
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": name, "namespace": namespace },
            "spec": { "clusterIP": "None", "ports": [{ "name": "http", "port": 8080, "targetPort": 3000 }] },
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": format!("{name}-abcde"), "namespace": namespace,
                "labels": {
                    "kubernetes.io/service-name": name,
                    "endpointslice.kubernetes.io/managed-by": "edge-bench",
                },
            },
            "addressType": "IPv4",
            "ports": [{ "name": "http", "port": 3000, "protocol": "TCP" }],
            "endpoints": [endpoint(64), endpoint(128)],
        }),
    ]
}
