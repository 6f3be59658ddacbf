use std::io::Write as _;

use super::*;

fn from_text(text: &str) -> Result<Bootstrap, BootstrapError> {
    load(&Sources {
        path: None,
        text: Some(text.to_owned()),
    })
}

const GENERATED: &str = r#"
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 19000}}}
header_prefix: x-edge
node: {id: node-1, cluster: default/eg}
layered_runtime: {layers: [{name: runtime-0, static_layer: {re2.max_program_size.warn_level: 1000}}]}
dynamic_resources:
  ads_config:
    api_type: DELTA_GRPC
    transport_api_version: V3
    grpc_services: [{envoy_grpc: {cluster_name: xds_cluster}}]
    set_node_on_first_message_only: true
  lds_config: {ads: {}, initial_fetch_timeout: 0s, resource_api_version: V3}
  cds_config: {ads: {}, initial_fetch_timeout: 0s, resource_api_version: V3}
overload_manager:
  resource_monitors:
  - name: envoy.resource_monitors.global_downstream_max_connections
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig
      max_active_downstream_connections: 50000
"#;

#[test]
fn a_generated_bootstrap_is_understood() {
    let bootstrap = from_text(GENERATED).expect("supported");
    assert_eq!(bootstrap.ads_cluster.as_deref(), Some("xds_cluster"));
    assert_eq!(bootstrap.max_connections, Some(50_000));
    assert_eq!(bootstrap.prefixed.internal.as_str(), "x-edge-internal");
    assert_eq!(bootstrap.admin.map(|address| address.port()), Some(19000));
    assert!(bootstrap.warnings.is_empty(), "{:?}", bootstrap.warnings);
}

#[test]
fn the_local_cluster_is_one_of_the_bootstraps_own() {
    let with = |clusters: &str| {
        from_text(&format!(
            "{GENERATED}\ncluster_manager: {{local_cluster_name: default/eg}}\nstatic_resources: {{clusters: [{clusters}]}}\n"
        ))
    };
    let bootstrap = with("{name: default/eg}").expect("supported");
    assert_eq!(bootstrap.local_cluster.as_deref(), Some("default/eg"));
    let error = with("{name: other}").expect_err("nobody knows it").to_string();
    assert!(error.contains("cluster_manager.local_cluster_name"), "{error}");
}

#[test]
fn an_unknown_field_is_named_with_its_place() {
    let error = from_text("static_resources: {listeners: [{nome: a}]}")
        .expect_err("unknown")
        .to_string();
    assert!(
        error.contains("static_resources.listeners[0]") && error.contains("nome"),
        "{error}"
    );
}

#[test]
fn text_is_merged_over_the_file() {
    let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().expect("a file");
    file.write_all(GENERATED.as_bytes()).expect("written");
    let path = Some(file.path().to_owned());
    let text = Some("node: {id: other}".to_owned());
    let bootstrap = load(&Sources { path, text }).expect("supported");
    assert_eq!(
        (bootstrap.node.id.as_str(), bootstrap.node.cluster.as_str()),
        ("other", "default/eg")
    );
}

#[test]
fn a_file_that_is_not_there_or_not_yaml_is_named() {
    let missing = load(&Sources {
        path: Some("/no/such/bootstrap.yaml".into()),
        text: None,
    });
    assert!(
        missing
            .expect_err("missing")
            .to_string()
            .contains("/no/such/bootstrap.yaml")
    );
    assert!(
        from_text("admin: {")
            .expect_err("broken")
            .to_string()
            .contains("--config-yaml")
    );
    assert!(matches!(load(&Sources::default()), Err(BootstrapError::Nothing)));
}

#[test]
fn what_would_change_trust_is_refused() {
    let error = from_text("certificate_provider_instances: {a: {name: b}}")
        .expect_err("refused")
        .to_string();
    assert!(error.contains("certificate_provider_instances"), "{error}");
    let sotw = GENERATED.replace("DELTA_GRPC", "GRPC");
    assert!(from_text(&sotw).expect_err("refused").to_string().contains("api_type"));
}

#[test]
fn a_secret_is_found_by_name_in_an_sds_file() {
    let mut file = tempfile::Builder::new().suffix(".json").tempfile().expect("a file");
    let text = r#"{"resources": [{"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
        "name": "xds_trusted_ca", "validation_context": {"trusted_ca": {"filename": "/certs/ca.crt"},
        "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": "edge-gateway"}}]}}]}"#;
    file.write_all(text.as_bytes()).expect("written");
    let secret = secret_from_file(file.path(), "xds_trusted_ca").expect("found");
    assert_eq!(secret.name, "xds_trusted_ca");
    assert!(
        secret_from_file(file.path(), "other")
            .expect_err("missing")
            .contains("\"other\"")
    );
}
