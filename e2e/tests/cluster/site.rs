//! What most scenarios put into a tenant's namespace.

use e2e::stack::DataPlane;

/// A backend that answers with what it was asked.
pub(crate) const ECHO: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: { name: echo, namespace: TENANT }
spec:
  selector: { matchLabels: { app: echo } }
  template:
    metadata: { labels: { app: echo } }
    spec:
      containers:
        - name: echo
          image: edge-echo:test
          readinessProbe: { httpGet: { path: /, port: 3000 }, periodSeconds: 1 }
---
apiVersion: v1
kind: Service
metadata: { name: echo, namespace: TENANT }
spec:
  selector: { app: echo }
  ports: [{ name: http, port: 80, targetPort: 3000 }]
";

/// A Gateway, and a route for `www.example.com` to the backend.
pub(crate) const FRONT: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: front, namespace: TENANT }
spec:
  gatewayClassName: TENANT
  listeners: [{ name: http, protocol: HTTP, port: 80 }]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: www, namespace: TENANT }
spec:
  parentRefs: [{ name: front }]
  hostnames: [www.example.com]
  rules: [{ backendRefs: [{ name: echo, port: 80 }] }]
";

/// A tenant's name for a data plane.
pub(crate) fn name(scenario: &str, plane: &DataPlane) -> String {
    let plane = match plane {
        DataPlane::EdgeProxy => "edge-proxy",
        DataPlane::Envoy(_) => "envoy",
    };
    format!("{scenario}-{plane}")
}
