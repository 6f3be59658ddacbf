//! What an API server would refuse and a file may hold all the same: it must not make two things of one name.

use crate::rig::{Rig, hosts};
use edge_translate::api::Kind;

/// A Gateway with these listeners, and what else there is.
fn world(listeners: &str, rest: &str) -> Rig {
    Rig::new(&format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: gw}}
spec:
  gatewayClassName: edge
  listeners:
{listeners}{rest}"
    ))
}

#[test]
fn the_first_listener_of_a_name_counts_and_the_gateway_says_so() {
    let listeners = "
  - {name: http, port: 8080, protocol: HTTP}
  - {name: http, port: 8081, protocol: HTTP}
";
    let rig = world(listeners, "");
    let ports: Vec<u16> = rig.fleet().listeners.iter().map(|l| l.port).collect();
    assert_eq!(ports, [8080]);
    let accepted = rig.condition(Kind::Gateway, "gw", "Accepted").unwrap();
    assert!(accepted.message.contains("Listeners not valid: http"), "{accepted:?}");
}

#[test]
fn a_listener_with_a_hostname_that_is_none_does_not_serve() {
    let rig = world(
        "  - {name: http, port: 8080, protocol: HTTP, hostname: a_b.example.com}\n",
        "",
    );
    assert_eq!(rig.fleet().listeners.len(), 0);
    let programmed = rig.listener_condition("gw", "http", "Programmed").unwrap();
    assert!(programmed.message.contains("is not a DNS name"), "{programmed:?}");
}

#[test]
fn a_route_hostname_that_is_none_is_left_out() {
    let route = "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r}
spec:
  parentRefs: [{name: gw}]
  hostnames: [a.b.example.com, a_b.example.com]
";
    let rig = world("  - {name: http, port: 8080, protocol: HTTP}\n", route);
    let hosts = hosts(rig.fleet());
    let domains: Vec<String> = hosts
        .iter()
        .flat_map(|host| host.domains.iter().map(ToString::to_string))
        .collect();
    assert_eq!(domains, ["a.b.example.com"]);
}
