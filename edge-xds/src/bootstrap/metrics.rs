//! What a bootstrap says of metrics: which there are, how they are fetched, and whom they are pushed to.

use crate::lower::secret::SYSTEM_BUNDLE;
use edge_ir::{
    Compressor, Encoding, MetricHost, MetricSink, MetricTls, SubjectName, Temporality, TextMatcher, TlsParameters,
    TlsVersion,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// Leaves out metrics but for those that are asked for, and what tells a proxy that stops how many clients it still
/// has.
pub(super) fn keep(bootstrap: &mut Value, kept: &[TextMatcher]) {
    if kept.is_empty() {
        return;
    }
    let pattern = |text: &TextMatcher| match text {
        TextMatcher::Exact(text) => json!({"exact": text}),
        TextMatcher::Prefix(text) => json!({"prefix": text}),
        TextMatcher::Suffix(text) => json!({"suffix": text}),
        TextMatcher::Regex(regex) => json!({"safe_regex": {"regex": regex}}),
    };
    let clients = TextMatcher::Regex(r"listener\..*\.downstream_cx_active".into());
    let patterns: Value = kept.iter().chain([&clients]).map(pattern).collect();
    bootstrap["stats_config"]["stats_matcher"] = json!({"inclusion_list": {"patterns": patterns}});
}

/// Compresses what the stats listener answers, for who takes that.
pub(super) fn compress(bootstrap: &mut Value, compressor: Option<Compressor>) {
    let filters = bootstrap
        .pointer_mut("/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters")
        .and_then(Value::as_array_mut);
    let (Some(compressor), Some(filters)) = (compressor, filters) else {
        return;
    };
    let (library, word) = match compressor.encoding {
        Encoding::Gzip => ("Gzip", "gzip"),
        Encoding::Brotli => ("Brotli", "brotli"),
        Encoding::Zstd => ("Zstd", "zstd"),
    };
    let message = |name: String| format!("type.googleapis.com/envoy.extensions.{name}");
    let filter = json!({
        "name": "envoy.filters.http.compressor",
        "typed_config": {
            "@type": message("filters.http.compressor.v3.Compressor".to_owned()),
            "compressor_library": {
                "name": format!("envoy.compression.{word}.compressor"),
                "typed_config": {"@type": message(format!("compression.{word}.compressor.v3.{library}"))},
            },
            "response_direction_config": {
                "common_config": {"min_content_length": compressor.min_length},
            },
        },
    });
    // In front of the router, which is always last.
    filters.insert(0, filter);
}

/// Puts the collectors of a fleet into its bootstrap.
pub(super) fn put(bootstrap: &mut Value, sinks: &[MetricSink]) {
    if sinks.is_empty() {
        return;
    }
    let named = || {
        sinks
            .iter()
            .enumerate()
            .map(|(i, sink)| (format!("otel_metric_sink_{i}"), sink))
    };
    bootstrap["stats_sinks"] = named().map(|(name, one)| sink(&name, one)).collect();
    if let Some(clusters) = bootstrap["static_resources"]["clusters"].as_array_mut() {
        clusters.extend(named().map(|(name, sink)| cluster(&name, sink)));
    }
}

fn sink(cluster: &str, sink: &MetricSink) -> Value {
    let metadata = |(name, value): &(Arc<str>, Arc<str>)| json!({"key": name, "value": value});
    let mut service = json!({"envoy_grpc": {"cluster_name": cluster, "authority": sink.authority}});
    if !sink.headers.is_empty() {
        service["initial_metadata"] = sink.headers.iter().map(metadata).collect();
    }
    let mut config = json!({
        "@type": "type.googleapis.com/envoy.extensions.stat_sinks.open_telemetry.v3.SinkConfig",
        "grpc_service": service,
    });
    if sink.counters == Temporality::Delta {
        config["report_counters_as_deltas"] = true.into();
    }
    if sink.histograms == Temporality::Delta {
        config["report_histograms_as_deltas"] = true.into();
    }
    if !sink.resource.is_empty() {
        let attributes: BTreeMap<&str, &str> = sink.resource.iter().map(|(name, value)| (&**name, &**value)).collect();
        config["resource_detectors"] = json!([{
            "name": "envoy.tracers.opentelemetry.resource_detectors.static_config",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.tracers.opentelemetry.resource_detectors.v3.\
                          StaticConfigResourceDetectorConfig",
                "attributes": attributes,
            },
        }]);
    }
    json!({"name": "envoy.stat_sinks.open_telemetry", "typed_config": config})
}

fn cluster(name: &str, sink: &MetricSink) -> Value {
    let mut cluster = json!({
        "name": name,
        "type": "STRICT_DNS",
        "connect_timeout": "10s",
        "dns_lookup_family": "V4_PREFERRED",
        "load_assignment": {"cluster_name": name, "endpoints": endpoints(&sink.hosts)},
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            },
        },
    });
    if let Some(tls) = &sink.tls {
        cluster["transport_socket"] = transport_socket(tls);
    }
    cluster
}

/// One group for each priority.
fn endpoints(hosts: &[MetricHost]) -> Value {
    let mut groups: BTreeMap<u32, Vec<Value>> = BTreeMap::new();
    for host in hosts {
        groups.entry(host.priority).or_default().push(json!({
            "load_balancing_weight": host.weight,
            "endpoint": {
                "address": {"socket_address": {"address": host.host, "port_value": host.port}},
            },
        }));
    }
    // Priorities have no gaps.
    let groups = groups.into_values().enumerate();
    groups
        .map(|(priority, endpoints)| json!({"priority": priority, "lb_endpoints": endpoints}))
        .collect()
}

fn transport_socket(tls: &MetricTls) -> Value {
    let subject = |subject: &SubjectName| match subject {
        SubjectName::Dns(name) => json!({"san_type": "DNS", "matcher": {"exact": name}}),
        SubjectName::Uri(uri) => json!({"san_type": "URI", "matcher": {"exact": uri}}),
        SubjectName::Ip(ip) => json!({"san_type": "IP_ADDRESS", "matcher": {"exact": ip.to_string()}}),
    };
    let mut validation = json!({
        "match_typed_subject_alt_names": tls.subjects.iter().map(subject).collect::<Vec<_>>(),
    });
    validation["trusted_ca"] = match &tls.authorities {
        Some(pem) => json!({"inline_string": pem}),
        None => json!({"filename": SYSTEM_BUNDLE}),
    };
    json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "sni": tls.server_name,
            "common_tls_context": {
                "tls_params": parameters(&tls.parameters),
                "alpn_protocols": ["h2"],
                "validation_context": validation,
            },
        },
    })
}

/// What is left out is the proxy's own choice, apart from the highest version.
fn parameters(parameters: &TlsParameters) -> Value {
    let version = |version| match version {
        TlsVersion::V1_0 => "TLSv1_0",
        TlsVersion::V1_1 => "TLSv1_1",
        TlsVersion::V1_2 => "TLSv1_2",
        TlsVersion::V1_3 => "TLSv1_3",
    };
    let mut params = json!({"tls_maximum_protocol_version": parameters.max_version.map_or("TLSv1_3", version)});
    if let Some(least) = parameters.min_version {
        params["tls_minimum_protocol_version"] = version(least).into();
    }
    let lists = [
        ("cipher_suites", &parameters.ciphers),
        ("ecdh_curves", &parameters.curves),
        ("signature_algorithms", &parameters.signature_algorithms),
    ];
    for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        params[name] = list.iter().map(|text| Value::from(&**text)).collect();
    }
    params
}
