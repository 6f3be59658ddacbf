use super::*;
use crate::json::from_json;
use edge_ir::{
    BootstrapPatch, Compressor, Encoding, JsonPatchOperation, MetricHost, MetricSink, MetricTls, SubjectName,
    Temporality, TlsParameters,
};
use envoy_types::pb::envoy::config::bootstrap::v3::Bootstrap;
use serde_json::json;

fn default() -> Value {
    default_bootstrap(&BootstrapSettings::default())
}

fn operation(op: &str, path: &str, value: Value) -> JsonPatchOperation {
    JsonPatchOperation {
        op: op.into(),
        path: Some(path.into()),
        json_path: None,
        from: None,
        value: Some(value.to_string().into()),
    }
}

fn error(patch: BootstrapPatch) -> String {
    customise(default(), &patch).unwrap_err().to_string()
}

#[test]
fn the_default_reads_strictly_as_a_bootstrap() {
    for settings in [
        BootstrapSettings::default(),
        BootstrapSettings {
            memory_limit_bytes: Some(1 << 30),
            stats_port: None,
            certificate_path: None,
            token_path: Some("/sds/xds_service_account_token.json".to_owned()),
            node: Some(NodeIdentity {
                id: "p".to_owned(),
                cluster: "default/gw".to_owned(),
            }),
            ..BootstrapSettings::default()
        },
    ] {
        from_json::<Bootstrap>(default_bootstrap(&settings)).unwrap();
    }
}

#[test]
fn the_default_says_where_the_controller_is() {
    let default = default();
    assert_eq!(
        default["admin"]["address"]["socket_address"],
        json!({"address": "127.0.0.1", "port_value": 19000})
    );
    assert_eq!(default["header_prefix"], "x-edge");
    assert_eq!(default["layered_runtime"]["layers"][0]["name"], "runtime-0");
    assert_eq!(default["dynamic_resources"]["ads_config"]["api_type"], "DELTA_GRPC");
    let xds = &default["static_resources"]["clusters"][1];
    assert_eq!(
        (&xds["name"], &xds["connect_timeout"]),
        (&json!("xds_cluster"), &json!("10s"))
    );
    let address = &xds["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"];
    assert_eq!(
        *address,
        json!({"socket_address": {"address": "edge-gateway", "port_value": 18000}})
    );
}

#[test]
fn a_token_is_put_into_requests_to_the_controller_and_stands_in_for_a_certificate() {
    let settings = BootstrapSettings {
        certificate_path: None,
        token_path: Some("/sds/xds_service_account_token.json".to_owned()),
        ..BootstrapSettings::default()
    };
    let bootstrap = default_bootstrap(&settings);
    let xds = &bootstrap["static_resources"]["clusters"][1];
    let filters = &xds["typed_extension_protocol_options"]["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]["http_filters"];
    let credential = &filters[0]["typed_config"]["credential"]["typed_config"];
    assert_eq!(
        credential["credential"],
        json!({
            "name": "jwt-sa-bearer",
            "sds_config": {
                "path_config_source": {"path": "/sds/xds_service_account_token.json"},
                "resource_api_version": "V3",
            },
        })
    );
    assert_eq!(credential["header_value_prefix"], "Bearer ");
    assert_eq!(
        filters[1]["name"], "envoy.filters.http.upstream_codec",
        "the last one sends"
    );
    let tls = &xds["transport_socket"]["typed_config"]["common_tls_context"];
    assert_eq!(tls.get("tls_certificate_sds_secret_configs"), None);
    assert_eq!(tls["validation_context_sds_secret_config"]["name"], "xds_trusted_ca");
    let file = token_file("/var/run/secrets/token/sa-token");
    assert_eq!(file["resources"][0]["name"], "jwt-sa-bearer");
    assert_eq!(
        file["resources"][0]["generic_secret"]["secret"]["filename"],
        "/var/run/secrets/token/sa-token"
    );
}

#[test]
fn without_prometheus_there_is_no_stats_listener() {
    let proxy = ProxySettings {
        prometheus: false,
        ..Default::default()
    };
    let bootstrap = bootstrap(&BootstrapSettings::default(), &proxy).unwrap();
    assert_eq!(bootstrap["static_resources"].get("listeners"), None);
    assert_eq!(bootstrap["static_resources"]["clusters"].as_array().unwrap().len(), 1);
}

#[test]
fn metrics_are_compressed_in_front_of_the_router() {
    let proxy = ProxySettings {
        prometheus: true,
        metrics_compressor: Some(Compressor {
            preferred: false,
            encoding: Encoding::Brotli,
            min_length: 100,
        }),
        ..Default::default()
    };
    let bootstrap = bootstrap(&BootstrapSettings::default(), &proxy).unwrap();
    let _: Bootstrap = from_json(bootstrap.clone()).unwrap();
    let manager = &bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"];
    let [compressor, router] = manager["http_filters"].as_array().unwrap().as_slice() else {
        panic!("{manager}");
    };
    assert_eq!(router["name"], "envoy.filters.http.router");
    let library = &compressor["typed_config"]["compressor_library"];
    assert_eq!(library["name"], "envoy.compression.brotli.compressor");
    let limit = &compressor["typed_config"]["response_direction_config"]["common_config"]["min_content_length"];
    assert_eq!(*limit, 100);
}

#[test]
fn metrics_are_pushed_to_collectors_by_name() {
    let host = |host: &str, priority| MetricHost {
        host: host.into(),
        port: 4317,
        weight: 2,
        priority,
    };
    let sink = |tls| MetricSink {
        hosts: vec![host("a.internal", 0), host("10.0.0.1", 7)],
        authority: "a.internal:4317".into(),
        tls,
        headers: vec![("x-tenant".into(), "edge".into())],
        resource: vec![("service.name".into(), "edge".into())],
        counters: Temporality::Delta,
        histograms: Temporality::Cumulative,
    };
    let tls = |authorities: Option<&str>| MetricTls {
        parameters: TlsParameters::default(),
        server_name: "a.example".into(),
        subjects: vec![
            SubjectName::Dns("a.example".into()),
            SubjectName::Uri("spiffe://a".into()),
        ],
        authorities: authorities.map(Into::into),
    };
    let proxy = ProxySettings {
        metric_sinks: vec![sink(None), sink(Some(tls(None))), sink(Some(tls(Some("PEM"))))],
        // What is customised is read strictly against the type of the message.
        bootstrap: Some(BootstrapPatch::Merge("stats_flush_interval: 7s".into())),
        ..Default::default()
    };
    let bootstrap = bootstrap(&BootstrapSettings::default(), &proxy).unwrap();
    let sinks = &bootstrap["stats_sinks"];
    assert_eq!(sinks.as_array().unwrap().len(), 3);
    let config = &sinks[1]["typed_config"];
    assert_eq!(
        config["grpc_service"]["envoy_grpc"]["cluster_name"],
        "otel_metric_sink_1"
    );
    assert_eq!(config["report_counters_as_deltas"], true);
    assert_eq!(config.get("report_histograms_as_deltas"), None);
    let clusters = bootstrap["static_resources"]["clusters"].as_array().unwrap();
    let is_sink = |cluster: &&Value| cluster["name"].as_str().unwrap().starts_with("otel");
    let clusters: Vec<&Value> = clusters.iter().filter(is_sink).collect();
    let names: Vec<_> = clusters.iter().map(|cluster| &cluster["name"]).collect();
    assert_eq!(
        names,
        ["otel_metric_sink_0", "otel_metric_sink_1", "otel_metric_sink_2"]
    );
    // Priorities have no gaps.
    assert_eq!(clusters[0]["load_assignment"]["endpoints"][1]["priority"], 1);
    assert_eq!(clusters[0].get("transport_socket"), None);
    let context =
        |i: usize| &clusters[i]["transport_socket"]["typed_config"]["common_tls_context"]["validation_context"];
    assert_eq!(
        context(1)["trusted_ca"]["filename"],
        "/etc/ssl/certs/ca-certificates.crt"
    );
    assert_eq!(context(2)["trusted_ca"]["inline_string"], "PEM");
}

#[test]
fn merging_goes_by_name_in_lists() {
    let text = "admin: {address: {socket_address: {port_value: 20000}}}\nstatic_resources:\n  clusters:\n  - {name: xds_cluster, connect_timeout: 3s}\n  - {name: other, type: STATIC}\n";
    let merged = customise(default(), &BootstrapPatch::Merge(text.into())).unwrap();
    assert_eq!(merged["admin"]["address"]["socket_address"]["port_value"], 20000);
    assert_eq!(merged["admin"]["address"]["socket_address"]["address"], "127.0.0.1");
    let clusters = merged["static_resources"]["clusters"].as_array().unwrap();
    assert_eq!(clusters.len(), 3);
    assert_eq!(clusters[1]["connect_timeout"], "3s");
}

#[test]
fn operations_apply_in_order() {
    let operations = vec![
        operation("replace", "/admin/address/socket_address/port_value", json!(20000)),
        operation("add", "/stats_flush_interval", json!("7s")),
    ];
    let patched = customise(default(), &BootstrapPatch::JsonPatch(operations)).unwrap();
    assert_eq!(patched["admin"]["address"]["socket_address"]["port_value"], 20000);
    assert_eq!(patched["stats_flush_interval"], "7s");
}

#[test]
fn a_replacement_stands_for_itself_as_long_as_it_leads_to_the_controller() {
    let mut replacement = default();
    replacement["admin"]["address"]["socket_address"]["port_value"] = json!(20000);
    let replaced = customise(default(), &BootstrapPatch::Replace(replacement.to_string().into())).unwrap();
    assert_eq!(replaced["admin"]["address"]["socket_address"]["port_value"], 20000);
    assert_eq!(
        error(BootstrapPatch::Replace("admin: {}".into())),
        "dynamic_resources must not be changed"
    );
}

#[test]
fn the_bootstrap_of_a_running_proxy_can_be_copied() {
    let address = "/static_resources/clusters/1/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address/address";
    for (name, is_ours) in [
        ("edge-gateway.edge-gateway-system.svc.cluster.local.", true),
        ("edge-gateway.other.svc.example.org", true),
        ("edge-gateway.evil.example", false),
        ("edge-gateway-two.ns.svc.cluster.local", false),
        ("svc.svc.cluster.local", false),
    ] {
        let mut copied = default();
        *copied.pointer_mut(address).unwrap() = name.into();
        let replaced = customise(default(), &BootstrapPatch::Replace(copied.to_string().into()));
        let led = replaced.map(|replaced| replaced.pointer(address).cloned());
        assert_eq!(led == Ok(Some("edge-gateway".into())), is_ours, "{name}: {led:?}");
    }
}

#[test]
fn what_leads_away_from_the_controller_is_refused() {
    let elsewhere = "/static_resources/clusters/1/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address/address";
    let patch = BootstrapPatch::JsonPatch(vec![operation("replace", elsewhere, json!("evil.example"))]);
    assert_eq!(error(patch), "the endpoints of cluster xds_cluster must not be changed");
    let patch = BootstrapPatch::JsonPatch(vec![operation("remove", "/dynamic_resources/lds_config", json!(null))]);
    assert_eq!(error(patch), "dynamic_resources must not be changed");
}

#[test]
fn errors_say_where() {
    let message = error(BootstrapPatch::Merge("admin: {adress: {}}".into()));
    assert!(message.contains("admin") && message.contains("'adress'"), "{message}");
    let message = error(BootstrapPatch::Merge("a: [".into()));
    assert!(message.starts_with("the bootstrap is not valid YAML"), "{message}");
    assert_eq!(
        error(BootstrapPatch::Merge("- a".into())),
        "the bootstrap must be a mapping of fields"
    );
    let message = error(BootstrapPatch::JsonPatch(vec![operation(
        "replace",
        "/nope/x",
        json!(1),
    )]));
    assert!(message.starts_with("the patch can't be applied"), "{message}");
    let message = error(BootstrapPatch::JsonPatch(vec![operation("grow", "/admin", json!(1))]));
    assert!(message.starts_with("operation 0:"), "{message}");
}

#[test]
fn secret_files_name_certificate_key_and_authority() {
    let certificate = certificate_file("/certs/tls.crt", "/certs/tls.key");
    assert_eq!(
        certificate["resources"][0]["tls_certificate"]["private_key"]["filename"],
        "/certs/tls.key"
    );
    let ca = trusted_ca_file("/certs/ca.crt", &["edge-gateway"]);
    let context = &ca["resources"][0]["validation_context"];
    assert_eq!(context["trusted_ca"]["filename"], "/certs/ca.crt");
    assert_eq!(
        context["match_typed_subject_alt_names"][0]["matcher"]["exact"],
        "edge-gateway"
    );
    assert_eq!(
        trusted_ca_file("/ca", &[])["resources"][0]["validation_context"].get("match_typed_subject_alt_names"),
        None
    );
}

/// Envoy takes `1000.0` for a text.
#[test]
fn numbers_of_the_runtime_stay_whole() {
    let merged = "layered_runtime: {layers: [{name: runtime-0, static_layer: {a.limit: 8, a.share: 0.5}}]}";
    let merged = customise(default(), &BootstrapPatch::Merge(merged.into())).unwrap();
    let layer = &merged["layered_runtime"]["layers"][0]["static_layer"];
    assert_eq!(
        layer.to_string(),
        r#"{"a.limit":8,"a.share":0.5,"re2.max_program_size.error_level":4294967295,"re2.max_program_size.warn_level":1000}"#
    );
}

#[test]
fn metrics_are_where_a_change_moves_the_admin_interface() {
    let at = |bootstrap: &Value| {
        let clusters = bootstrap["static_resources"]["clusters"].as_array().unwrap();
        let metrics = clusters
            .iter()
            .find(|cluster| cluster["name"] == "prometheus_stats")
            .unwrap();
        metrics["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]["socket_address"].clone()
    };
    let port = operation("replace", "/admin/address/socket_address/port_value", json!(20_000));
    let patched = customise(default(), &BootstrapPatch::JsonPatch(vec![port.clone()])).unwrap();
    assert_eq!(at(&patched), json!({"address": "127.0.0.1", "port_value": 20_000}));
    let merge = "admin: { address: { socket_address: { address: '::', port_value: 20000 } } }";
    let patched = customise(default(), &BootstrapPatch::Merge(merge.into())).unwrap();
    assert_eq!(at(&patched), json!({"address": "::1", "port_value": 20_000}));
    // Whoever changes the cluster says himself where it leads.
    let clusters = default()["static_resources"]["clusters"].as_array().unwrap().clone();
    let place = clusters
        .iter()
        .position(|cluster| cluster["name"] == "prometheus_stats")
        .unwrap();
    let own = operation(
        "replace",
        &format!(
            "/static_resources/clusters/{place}/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address/port_value"
        ),
        json!(20_001),
    );
    let patched = customise(default(), &BootstrapPatch::JsonPatch(vec![port, own])).unwrap();
    assert_eq!(at(&patched)["port_value"], 20_001);
}
