//! The proxy as a process: against a configuration server (mutual TLS, activation, rejection, loss of the server,
//! reconnection, graceful end), and its memory.

// Helpers of a test stop where they stand, as the test itself may.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "ads/alone.rs"]
mod alone;
#[path = "ads/ending.rs"]
mod ending;
#[path = "ads/files.rs"]
mod files;
#[path = "ads/floods.rs"]
mod floods;
#[path = "ads/idle.rs"]
mod idle;
#[path = "ads/memory.rs"]
mod memory;
#[path = "ads/secret_files.rs"]
mod secret_files;
#[path = "ads/secrets.rs"]
mod secrets;
#[path = "ads/support.rs"]
mod support;
#[path = "ads/token.rs"]
mod token;

use std::net::SocketAddr;
use std::path::Path;

use support::{Ads, Proxy, Session, ask, backend, certificates, free_port, wait_for};

const CLUSTER: &str = "cluster.v3.Cluster";
const ENDPOINTS: &str = "endpoint.v3.ClusterLoadAssignment";
const LISTENER: &str = "listener.v3.Listener";
const ROUTES: &str = "route.v3.RouteConfiguration";

/// The bootstrap as the controller generates it, with SDS files beside it.
fn bootstrap(folder: &Path, ads: SocketAddr, admin: SocketAddr) -> std::path::PathBuf {
    let secret = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
    let at = folder.display();
    let certificate = format!(
        r#"{{"resources":[{{"@type":"{secret}","name":"xds_certificate","tls_certificate":{{
        "certificate_chain":{{"filename":"{at}/client.crt"}},"private_key":{{"filename":"{at}/client.key"}}}}}}]}}"#
    );
    let authority = format!(
        r#"{{"resources":[{{"@type":"{secret}","name":"xds_trusted_ca","validation_context":{{
        "trusted_ca":{{"filename":"{at}/ca.crt"}},
        "match_typed_subject_alt_names":[{{"san_type":"DNS","matcher":{{"exact":"edge-gateway"}}}}]}}}}]}}"#
    );
    std::fs::write(folder.join("xds-certificate.json"), certificate).unwrap();
    std::fs::write(folder.join("xds-trusted-ca.json"), authority).unwrap();
    let (admin_port, ads_port) = (admin.port(), ads.port());
    let text = format!(
        r#"
admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {admin_port}}}}}}}
header_prefix: x-edge
dynamic_resources:
  ads_config: {{api_type: DELTA_GRPC, transport_api_version: V3, grpc_services: [{{envoy_grpc: {{cluster_name: xds_cluster}}}}]}}
  lds_config: {{ads: {{}}, initial_fetch_timeout: 0s}}
  cds_config: {{ads: {{}}, initial_fetch_timeout: 0s}}
static_resources:
  clusters:
  - name: xds_cluster
    type: STRICT_DNS
    connect_timeout: 10s
    load_assignment: {{cluster_name: xds_cluster, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: localhost, port_value: {ads_port}}}}}}}}}]}}]}}
    dns_lookup_family: V4_ONLY
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{http2_protocol_options: {{connection_keepalive: {{interval: 30s, timeout: 5s}}}}}}
    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: edge-gateway
        common_tls_context:
          tls_params: {{tls_maximum_protocol_version: TLSv1_3}}
          tls_certificate_sds_secret_configs:
          - {{name: xds_certificate, sds_config: {{path_config_source: {{path: "{at}/xds-certificate.json"}}}}}}
          validation_context_sds_secret_config:
            {{name: xds_trusted_ca, sds_config: {{path_config_source: {{path: "{at}/xds-trusted-ca.json"}}}}}}
"#
    );
    let path = folder.join("bootstrap.yaml");
    std::fs::write(&path, text).unwrap();
    path
}

fn cluster(name: &str, extra: &str) -> String {
    format!("{{name: {name}, type: EDS, eds_cluster_config: {{eds_config: {{ads: {{}}}}}}{extra}}}")
}

fn endpoints(name: &str, address: SocketAddr) -> String {
    let socket = format!("{{address: 127.0.0.1, port_value: {}}}", address.port());
    format!(
        "{{cluster_name: {name}, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {socket}}}}}}}]}}]}}"
    )
}

fn listener(port: u16) -> String {
    format!(
        r#"
name: tcp-80
address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
default_filter_chain:
  filters:
  - name: hcm
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: http-80
      rds: {{config_source: {{ads: {{}}}}, route_config_name: r}}
      http_filters:
      - name: router
        typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
"#
    )
}

fn routes(cluster: &str) -> String {
    format!(
        "{{name: r, virtual_hosts: [{{name: h, domains: ['*'], routes: [{{match: {{prefix: /}}, route: {{cluster: \
         {cluster}}}}}]}}]}}"
    )
}

/// Gives a new proxy cluster `a` with its endpoint, and hears that it asks for listeners.
async fn give_backend(session: &mut Session, backend: SocketAddr) {
    session.request(CLUSTER).await;
    session.push(CLUSTER, &[("a", "1", cluster("a", ""))], &[]).await;
    session.request(ENDPOINTS).await;
    session
        .push(ENDPOINTS, &[("a", "1", endpoints("a", backend))], &[])
        .await;
    session.request(LISTENER).await;
}

/// Gives a new proxy its first configuration, in the order in which it asks.
async fn configure(session: &mut Session, backend: SocketAddr, port: u16) {
    let first = session.request(CLUSTER).await;
    let node = first.node.expect("the node comes first");
    assert_eq!((node.id.as_str(), node.cluster.as_str()), ("test", "fleet"));
    assert!(
        session
            .push(CLUSTER, &[("a", "1", cluster("a", ""))], &[])
            .await
            .error_detail
            .is_none()
    );
    assert_eq!(session.request(ENDPOINTS).await.resource_names_subscribe, ["a"]);
    assert!(
        session
            .push(ENDPOINTS, &[("a", "1", endpoints("a", backend))], &[])
            .await
            .error_detail
            .is_none()
    );
    session.request(LISTENER).await;
    assert!(
        session
            .push(LISTENER, &[("tcp-80", "1", listener(port))], &[])
            .await
            .error_detail
            .is_none()
    );
    assert_eq!(session.request(ROUTES).await.resource_names_subscribe, ["r"]);
    assert!(
        session
            .push(ROUTES, &[("r", "1", routes("a"))], &[])
            .await
            .error_detail
            .is_none()
    );
}

#[tokio::test]
async fn a_proxy_is_configured_corrected_abandoned_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let (first, second) = (backend("first"), backend("second"));
    let mut ads = Ads::start(folder.path(), 0).await;
    let admin = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let front = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let proxy = Proxy::start(&bootstrap(folder.path(), ads.address, admin), admin);
    let mut session = ads.session().await;
    wait_for(proxy.admin, "/ready", 503, "INITIALIZING").await;
    configure(&mut session, first, front.port()).await;
    wait_for(proxy.admin, "/ready", 200, "LIVE").await;
    wait_for(front, "/", 200, "first").await;

    // One bad cluster beside a good one: the good one is taken, the bad one named.
    let both = [
        ("bad", "1", cluster("bad", ", lb_policy: CLUSTER_PROVIDED")),
        ("b", "1", cluster("b", "")),
    ];
    let nack = session.push(CLUSTER, &both, &[]).await.error_detail.expect("a NACK");
    assert_eq!(nack.message, "bad: lb_policy: not supported by this proxy");
    assert_eq!(session.request(ENDPOINTS).await.resource_names_subscribe, ["b"]);
    session
        .push(ENDPOINTS, &[("b", "1", endpoints("b", second))], &[])
        .await;
    session.push(ROUTES, &[("r", "2", routes("b"))], &[]).await;
    wait_for(front, "/", 200, "second").await;

    // A listener on a port in use is rejected by address, and nothing else happens.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let other = listener(port).replace("tcp-80", "tcp-81");
    let nack = session
        .push(LISTENER, &[("tcp-81", "1", other.clone())], &[])
        .await
        .error_detail
        .expect("a NACK");
    assert!(
        nack.message
            .contains(&format!("tcp-81: address: cannot bind 127.0.0.1:{port}")),
        "{}",
        nack.message
    );
    wait_for(front, "/", 200, "second").await;

    // The port is free again: the listener opens without another change, and asks for what takes the rejection back.
    drop(taken);
    let late = SocketAddr::from(([127, 0, 0, 1], port));
    wait_for(late, "/", 200, "second").await;
    assert_eq!(session.request(LISTENER).await.resource_names_subscribe, ["tcp-81"]);
    let again = session.push(LISTENER, &[("tcp-81", "1", other)], &[]).await;
    assert!(again.error_detail.is_none());
    wait_for(late, "/", 200, "second").await;

    // Without the server everything goes on; when it is back it hears what is held.
    let port = ads.address.port();
    drop(session);
    ads.stop().await;
    wait_for(front, "/", 200, "second").await;
    let mut ads = Ads::start(folder.path(), port).await;
    let mut session = ads.session().await;
    let again = session.request(CLUSTER).await;
    let mut held: Vec<&String> = again.initial_resource_versions.keys().collect();
    held.sort();
    assert_eq!(held, ["a", "b"]);
    let held = session.request(ROUTES).await.initial_resource_versions;
    assert_eq!(held.get("r").map(String::as_str), Some("2"));

    admin_interface(proxy.admin).await;
    session.push(LISTENER, &[], &["tcp-80"]).await;
    let gone = tokio::task::spawn_blocking(move || {
        let start = std::time::Instant::now();
        while ask(front, "GET", "/").is_some() {
            assert!(start.elapsed() < std::time::Duration::from_secs(20), "still listening");
        }
    });
    gone.await.unwrap();
    let code = tokio::task::spawn_blocking(move || proxy.terminate()).await.unwrap();
    assert_eq!(code, Some(0));
}

/// One bad route of one table, from the start: all else opens, and the NACK names the route.
#[tokio::test]
async fn a_proxy_that_starts_beside_a_bad_table_serves_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let backend = backend("first");
    let mut ads = Ads::start(folder.path(), 0).await;
    let address = || SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (admin, good, bad) = (address(), address(), address());
    let proxy = Proxy::start(&bootstrap(folder.path(), ads.address, admin), admin);
    let mut session = ads.session().await;
    give_backend(&mut session, backend).await;
    let other = listener(bad.port())
        .replace("tcp-80", "tcp-81")
        .replace("_name: r", "_name: s");
    let both = [("tcp-80", "1", listener(good.port())), ("tcp-81", "1", other)];
    assert!(session.push(LISTENER, &both, &[]).await.error_detail.is_none());
    assert_eq!(session.request(ROUTES).await.resource_names_subscribe, ["r", "s"]);
    let routes_of = |prefix: &str| {
        format!(
            "{{name: s, virtual_hosts: [{{name: shop, domains: ['*'], routes: [{{name: rule/0, match: \
             {{path_separated_prefix: {prefix}}}, route: {{cluster: a}}}}]}}]}}"
        )
    };
    let tables = [("s", "1", routes_of("shop")), ("r", "1", routes("a"))];
    let nack = session.push(ROUTES, &tables, &[]).await.error_detail.expect("a NACK");
    let line = r#"s: virtual host "shop": route "rule/0": match.path_separated_prefix: must begin with "/": "shop""#;
    assert_eq!(nack.message, line);
    wait_for(proxy.admin, "/ready", 200, "LIVE").await;
    wait_for(good, "/", 200, "first").await;
    wait_for(bad, "/shop", 404, "").await;
    session.push(ROUTES, &[("s", "2", routes_of("/shop"))], &[]).await;
    wait_for(bad, "/shop", 200, "first").await;
    drop(proxy);
}

async fn admin_interface(admin: SocketAddr) {
    wait_for(admin, "/config_dump?include_eds", 200, "dynamic_endpoint_configs").await;
    wait_for(admin, "/config_dump", 200, "lb_policy: not supported").await;
    wait_for(admin, "/clusters", 200, "b::127.0.0.1:").await;
    wait_for(admin, "/listeners", 200, "tcp-80::127.0.0.1:").await;
    wait_for(
        admin,
        "/stats/prometheus",
        200,
        "envoy_cluster_upstream_rq_total{envoy_cluster_name=\"b\"}",
    )
    .await;
    wait_for(
        admin,
        "/stats?filter=control_plane",
        200,
        "control_plane.connected_state: 1",
    )
    .await;
    wait_for(admin, "/healthcheck/fail", 405, "POST").await;
    let answers = tokio::task::spawn_blocking(move || {
        (
            ask(admin, "POST", "/healthcheck/fail"),
            ask(admin, "GET", "/ready"),
            ask(admin, "POST", "/healthcheck/ok"),
        )
    });
    let (fail, ready, ok) = answers.await.unwrap();
    assert_eq!((fail.unwrap().0, ready.unwrap().0, ok.unwrap().0), (200, 503, 200));
}

#[tokio::test]
async fn a_server_with_another_name_is_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let mut ads = Ads::start(folder.path(), 0).await;
    let admin = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let path = bootstrap(folder.path(), ads.address, admin);
    let file = folder.path().join("xds-trusted-ca.json");
    let right = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, right.replace("edge-gateway", "somebody-else")).unwrap();
    let proxy = Proxy::start(&path, admin);
    wait_for(proxy.admin, "/clusters", 200, "xds_cluster::127.0.0.1:").await;
    wait_for(proxy.admin, "/stats?filter=control_plane", 200, "connected_state: 0").await;
    // The right name in the file is noticed at the next attempt, without a restart.
    std::fs::write(&file, right).unwrap();
    ads.session().await.request(CLUSTER).await;
    drop(proxy);
}
