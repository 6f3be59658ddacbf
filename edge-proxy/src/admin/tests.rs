use std::sync::Arc;

use edge_xds::json::Codec;
use envoy_types::pb::google::protobuf::Any;
use serde_json::json;

use super::*;
use crate::config::Snapshot;
use crate::config::metrics::Kept;
use crate::metrics::{Family, Sample};
use crate::shared::{RuntimeFlags, Shared};
use crate::stats::{ServerStats, Value};

fn shared() -> Shared {
    let (_, snapshot) = tokio::sync::watch::channel(Arc::new(Snapshot::default()));
    let (_, sockets) = tokio::sync::watch::channel(Arc::from([]));
    let (_, drain) = tokio::sync::watch::channel(Drain::Serving);
    let stats = Arc::new(ServerStats::new("", "", 1));
    Shared {
        workers: 1,
        snapshot,
        sockets,
        drain,
        flags: RuntimeFlags::default(),
        logs: crate::log_files::writer::LogWriter::default(),
        stats,
        secrets: crate::stats::SecretScopes::default(),
        admin_address: None,
    }
}

#[test]
fn parameters_are_found_with_and_without_value() {
    assert_eq!(parameter("include_eds&format=json", "include_eds"), Some(""));
    assert_eq!(parameter("include_eds&format=json", "format"), Some("json"));
    assert_eq!(parameter("formats=json", "format"), None);
}

#[test]
fn the_exposition_names_each_metric_once() {
    let shared = shared();
    shared.stats.control().live.set(1);
    let text = stats::exposition(&crate::metrics::samples(&shared, &Snapshot::default(), &Kept::All));
    assert!(
        text.contains("# TYPE envoy_server_live gauge\nenvoy_server_live{} 1\n"),
        "{text}"
    );
    let types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let mut unique = types.clone();
    unique.dedup();
    assert_eq!(types, unique);
}

#[test]
fn the_exposition_has_classes_of_responses_as_labels() {
    let exposed = |name| {
        let sample = Sample {
            family: Family::Cluster,
            prefix: "cluster.a.".into(),
            label: "a".into(),
            name,
            value: Value::Counter(1),
        };
        stats::exposition(&[sample]).lines().last().map(str::to_owned).unwrap()
    };
    assert_eq!(
        exposed("upstream_rq_5xx"),
        r#"envoy_cluster_upstream_rq_xx{envoy_response_code_class="5",envoy_cluster_name="a"} 1"#
    );
    assert_eq!(
        exposed("outlier_detection.ejections_enforced_consecutive_5xx"),
        r#"envoy_cluster_outlier_detection_ejections_enforced_consecutive_5xx{envoy_cluster_name="a"} 1"#
    );
}

#[test]
fn what_is_secret_is_not_shown() {
    let filter = "type.googleapis.com/envoy.extensions.filters.http.basic_auth.v3.BasicAuthPerRoute";
    let basic_auth = json!({"@type": filter, "users": {"inline_string": "anna:{SHA}d95o2uzYI7q7tY7bHI4U1xBug7s="}});
    let table = json!({
        "@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        "typed_per_filter_config": {"envoy.filters.http.basic_auth": basic_auth},
    });
    let dump = json!({"dynamic_route_configs": [{"route_config": table}]});
    let routes = "envoy.admin.v3.RoutesConfigDump";
    let value = Codec::cached().unwrap().bytes_from_json(routes, dump).unwrap();
    let type_url = format!("type.googleapis.com/{routes}");
    let text = dump::render(&[Any { type_url, value }], None).unwrap();
    assert!(text.contains("[redacted]") && !text.contains("anna"), "{text}");
}

#[test]
fn whatever_changes_something_wants_post() {
    let changing: Vec<&str> = PATHS
        .iter()
        .filter(|(_, _, changes)| *changes)
        .map(|(path, _, _)| *path)
        .collect();
    assert_eq!(
        changing,
        [
            "/drain_listeners",
            "/healthcheck/fail",
            "/healthcheck/ok",
            "/quitquitquit",
            "/reopen_logs"
        ]
    );
}
