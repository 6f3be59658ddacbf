//! Worlds of a given size, for measurements: one Gateway, N HTTPRoutes with two rules each, a Service with an
//! EndpointSlice of two endpoints for every two routes, ten routes a namespace. Same size, same bytes.

mod policies;

pub use policies::{Spread, Where, alike, policies, policy};

use std::fmt::Write;

/// A world of `routes` HTTPRoutes as YAML.
pub fn yaml(routes: usize) -> String {
    let mut text = String::with_capacity(routes * 2048 + 4096);
    text.push_str(BASE);
    let services = routes.div_ceil(2);
    for namespace in 0..routes.div_ceil(10) {
        // Writing to a String can't fail.
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: ns-{namespace}\n"
        );
    }
    for service in 0..services {
        push_service(&mut text, service);
    }
    for route in 0..routes {
        push_route(&mut text, route, Version::First);
    }
    text
}

/// The text of one route in one of two versions: writing the other one is an edit.
pub fn route_yaml(route: usize, version: Version) -> String {
    let mut text = String::new();
    push_route(&mut text, route, version);
    text
}

/// Which text a route has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// As in [`yaml`].
    First,
    /// One path differs.
    Second,
}

const BASE: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata:
  name: edge
spec:
  controllerName: gateway.edge/gatewayclass-controller
---
apiVersion: v1
kind: Namespace
metadata:
  name: infra
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: gw
  namespace: infra
spec:
  gatewayClassName: edge
  listeners:
  - name: http
    protocol: HTTP
    port: 8000
    allowedRoutes:
      namespaces:
        from: All
";

fn push_service(text: &mut String, service: usize) {
    let namespace = service * 2 / 10;
    let (a, b, c) = ((service >> 16) & 63, (service >> 8) & 255, service & 255);
    let _ = write!(
        text,
        "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: svc-{service}\n  namespace: ns-{namespace}\nspec:\n  \
         clusterIP: 10.{a}.{b}.{c}\n  selector:\n    app: app-{service}\n  ports:\n  - name: http\n    port: 8080\n    \
         protocol: TCP\n    targetPort: 3000\n\
         ---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: svc-{service}-abcde\n  \
         namespace: ns-{namespace}\n  labels:\n    kubernetes.io/service-name: svc-{service}\naddressType: IPv4\n\
         ports:\n- name: http\n  port: 3000\n  protocol: TCP\nendpoints:\n"
    );
    for base in [64, 128] {
        let _ = write!(
            text,
            "- addresses:\n  - 10.{}.{b}.{c}\n  conditions:\n    ready: true\n",
            base + a
        );
    }
}

fn push_route(text: &mut String, route: usize, version: Version) {
    let namespace = route / 10;
    let service = route / 2;
    let path = match version {
        Version::First => "/api",
        Version::Second => "/edited",
    };
    let _ = write!(
        text,
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: route-{route}\n  \
         namespace: ns-{namespace}\nspec:\n  parentRefs:\n  - name: gw\n    namespace: infra\n  hostnames:\n  \
         - h{route}.example.com\n  rules:\n  - matches:\n    - path:\n        type: PathPrefix\n        value: {path}\n    \
         - path:\n        type: Exact\n        value: /healthz\n    filters:\n    - type: RequestHeaderModifier\n      \
         requestHeaderModifier:\n        set:\n        - name: x-route\n          value: route-{route}\n    \
         backendRefs:\n    - name: svc-{service}\n      port: 8080\n  - name: canary\n    matches:\n    - path:\n        \
         type: PathPrefix\n        value: /canary\n      headers:\n      - type: Exact\n        name: x-canary\n        \
         value: \"true\"\n    backendRefs:\n    - name: svc-{service}\n      port: 8080\n"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_has_the_size_that_was_asked_for() {
        let text = yaml(25);
        assert_eq!(text.matches("kind: HTTPRoute").count(), 25);
        assert_eq!(text.matches("kind: EndpointSlice").count(), 13);
        assert_eq!(text, yaml(25));
        assert_ne!(route_yaml(3, Version::First), route_yaml(3, Version::Second));
        assert!(text.contains(&route_yaml(3, Version::First)));
    }
}
