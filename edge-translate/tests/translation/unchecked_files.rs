//! What an API server would refuse and a file may hold all the same: it must not make two things of one name.

use edge_translate::{
    Change, Settings, Translation, Translator,
    load::{Limits, Source, load},
};

const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: edge}
spec: {controllerName: gateway.edge/gatewayclass-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: edge
  listeners:
";

fn translate(listeners: &str, routes: &str) -> (Translation, String) {
    let text = format!("{GATEWAY}{listeners}{routes}");
    let loaded = load(
        &Source {
            name: "test.yaml",
            text: &text,
        },
        &Limits::default(),
    );
    assert_eq!(loaded.findings, []);
    let mut translator = Translator::new(Settings::default());
    for object in loaded.objects {
        translator.apply(Change::Put(object.object));
    }
    let translation = translator.translate();
    let statuses = format!("{:?}", translation.statuses);
    (translation, statuses)
}

fn hosts(translation: &Translation) -> Vec<String> {
    let tables = translation.fleets.values().flat_map(|f| f.route_tables.iter());
    tables
        .flat_map(|t| t.hosts.iter())
        .map(|h| h.domain.to_string())
        .collect()
}

#[test]
fn the_first_listener_of_a_name_counts_and_the_gateway_says_so() {
    let listeners = "
  - {name: http, port: 8080, protocol: HTTP}
  - {name: http, port: 8081, protocol: HTTP}
";
    let (translation, statuses) = translate(listeners, "");
    let fleet = translation.fleets.values().next().unwrap();
    let ports: Vec<u16> = fleet.listeners.iter().map(|l| l.port).collect();
    assert_eq!(ports, [8080]);
    assert!(statuses.contains("Listeners not valid: http"), "{statuses}");
}

#[test]
fn a_listener_with_a_hostname_that_is_none_does_not_serve() {
    let (translation, statuses) = translate(
        "  - {name: http, port: 8080, protocol: HTTP, hostname: a_b.example.com}\n",
        "",
    );
    let fleet = translation.fleets.values().next().unwrap();
    assert_eq!(fleet.listeners.len(), 0);
    assert!(statuses.contains("is not a DNS name"), "{statuses}");
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
    let (translation, _) = translate("  - {name: http, port: 8080, protocol: HTTP}\n", route);
    assert_eq!(hosts(&translation), ["a.b.example.com"]);
}
