//! A proxy that its bootstrap alone configures: what keeps it from starting, and what its admin interface refuses.
//! Envoy 1.40 gives the same answers to all of these.

use super::{Proxy, ask, free_port, wait_for};
use std::net::SocketAddr;
use std::process::Command;

/// A listener with a route table of its own, and a cluster.
fn bootstrap(table: &str, action: &str) -> String {
    format!(
        r#"
static_resources:
  listeners:
  - name: l
    address: {{socket_address: {{address: 127.0.0.1, port_value: 9}}}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: a
          http_filters:
          - {{name: router, typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}}}
          route_config:
            name: r
            {table}
            virtual_hosts: [{{name: v, domains: ["*"], routes: [{{match: {{prefix: /}}, route: {{{action}}}}}]}}]
  clusters:
  - {{name: known, load_assignment: {{cluster_name: known}}}}
"#
    )
}

#[test]
fn a_static_route_to_a_cluster_that_is_not_there_is_refused() {
    let unchecked = "validate_clusters: false";
    let mirrored = "request_mirror_policies: [{cluster: nope}]";
    for (table, action, problem) in [
        ("", "cluster: known", None),
        ("", "cluster: nope", Some("route: unknown cluster \"nope\"")),
        (
            "validate_clusters: true",
            "cluster: nope",
            Some("route: unknown cluster \"nope\""),
        ),
        (unchecked, "cluster: nope", None),
        ("", "cluster_header: x-cluster", None),
        (
            "",
            "weighted_clusters: {clusters: [{name: known, weight: 1}, {name: nope, weight: 1}]}",
            Some("route: unknown weighted cluster \"nope\""),
        ),
        (
            mirrored,
            "cluster: known",
            Some("route: unknown shadow cluster \"nope\""),
        ),
        (
            mirrored,
            "cluster: known, request_mirror_policies: [{cluster: known}]",
            None,
        ),
    ] {
        let mut proxy = Command::new(env!("CARGO_BIN_EXE_edge-proxy"));
        let output = proxy
            .args(["--mode", "validate", "--config-yaml", &bootstrap(table, action)])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.success(), problem.is_none(), "{table} {action}: {said}");
        assert!(said.contains(problem.unwrap_or_default()), "{table} {action}: {said}");
    }
}

#[tokio::test]
async fn the_admin_interface_refuses_what_it_does_not_know() {
    let folder = tempfile::tempdir().unwrap();
    let admin = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let path = folder.path().join("bootstrap.yaml");
    let port = admin.port();
    let text = format!("admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}\n");
    std::fs::write(&path, text).unwrap();
    let proxy = Proxy::start(&path, admin);
    wait_for(admin, "/ready", 200, "LIVE").await;
    let asked = tokio::task::spawn_blocking(move || {
        for (method, path, status, part) in [
            ("GET", "/stats?format=foo", 400, "usage: /stats?format="),
            ("GET", "/stats?format=text", 200, "server.live: 1"),
            ("GET", "/stats?format=", 200, "server.live: 1"),
            ("GET", "/stats?format=json", 200, "\"server.live\""),
            ("POST", "/logging", 200, "all: warn"),
            ("POST", "/logging?level=", 200, "all: warn"),
            ("POST", "/logging?paths=", 200, "all: warn"),
            ("POST", "/logging?foo=debug", 400, "error: unknown logger name"),
            ("POST", "/logging?paths=foo:debug", 400, "error: unknown logger name"),
            (
                "POST",
                "/logging?level=debug&foo=info",
                400,
                "error: invalid number of parameters",
            ),
            ("POST", "/logging?level=loud", 400, "error: unknown log level \"loud\""),
            ("POST", "/logging", 200, "all: warn"),
            ("GET", "/logging?level=debug", 405, "POST"),
            ("POST", "/logging?level=debug", 200, "all: debug"),
        ] {
            let (found, said) = ask(admin, method, path).unwrap();
            assert_eq!(found, status, "{method} {path}: {said}");
            assert!(said.contains(part), "{method} {path}: {said}");
        }
    });
    asked.await.unwrap();
    drop(proxy);
}
