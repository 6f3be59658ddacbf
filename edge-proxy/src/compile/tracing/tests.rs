use edge_xds::json::from_json;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::Tracing as ProtoTracing;

use super::*;
use crate::compile::files::Disk;
use crate::compile::prefixed_headers;
use crate::config::collector::Form;
use crate::config::tracing::{Sampler, Tracer};

fn context() -> Context {
    Context::new(Box::new(Disk), prefixed_headers("").unwrap(), 1)
}

/// Compiles what a manager says; the provider is OpenTelemetry's unless it says otherwise.
fn compiled(yaml: &str) -> Option<Arc<Tracing>> {
    const PROVIDER: &str = "provider: {name: o, typed_config: {\"@type\": \
        type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig, \
        grpc_service: {envoy_grpc: {cluster_name: c}}}}";
    let provider = if yaml.contains("provider") { "" } else { PROVIDER };
    let document = serde_yaml::from_str(&format!("{yaml}\n{provider}")).unwrap();
    let message: ProtoTracing = from_json(document).unwrap();
    manager(&mut context(), &At::root(), Some(&message))
}

#[test]
fn shares_are_those_of_envoy() {
    let of = |yaml: &str| compiled(yaml).unwrap().shares;
    let fraction = |numerator, denominator| Fraction { numerator, denominator };
    let all = of("");
    assert_eq!(all.client, fraction(100, 100));
    assert_eq!(all.random, fraction(10_000, 10_000));
    let some = of("client_sampling: {value: 12.9}\nrandom_sampling: {value: 0.1}\noverall_sampling: {value: 50}");
    assert_eq!(some.client, fraction(12, 100));
    assert_eq!(some.random, fraction(10, 10_000));
    assert_eq!(some.overall, fraction(5_000, 10_000));
}

#[test]
fn a_tag_that_cannot_be_told_is_left_out_alone() {
    let tracing = compiled(
        "custom_tags: [{tag: a, literal: {value: x}}, {tag: b, value: '%NO_SUCH%'}, {tag: c, literal: {}}, \
         {tag: d, environment: {name: CARGO_PKG_NAME}}, {tag: e, environment: {name: EDGE_NO_SUCH}}, \
         {tag: f, metadata: {kind: {route: {}}}}, {tag: g, request_header: {name: X-A, default_value: other}}]",
    )
    .unwrap();
    let tags: Vec<_> = tracing.spans.tags.iter().map(|tag| (&*tag.name, &tag.value)).collect();
    assert_eq!(
        tags,
        [
            ("a", &TagValue::Fixed("x".into())),
            ("d", &TagValue::Fixed("edge-proxy".into())),
            ("g", &TagValue::Field(0, "other".into())),
        ]
    );
    assert_eq!(tracing.spans.wanted.request, ["x-a"]);
}

#[test]
fn a_tracer_that_is_not_known_is_left_out() {
    for provider in [
        "{name: d, typed_config: {\"@type\": type.googleapis.com/envoy.config.trace.v3.DatadogConfig, \
         collector_cluster: c, service_name: s}}",
        "{name: z, typed_config: {\"@type\": type.googleapis.com/envoy.config.trace.v3.ZipkinConfig, \
         collector_cluster: c, collector_endpoint: /x, collector_endpoint_version: HTTP_PROTO}}",
        "{name: o, typed_config: {\"@type\": type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig, \
         http_service: {http_uri: {uri: 'http://c/v1/traces', cluster: c, timeout: 1s}}}}",
    ] {
        assert!(compiled(&format!("provider: {provider}")).is_none(), "{provider}");
    }
    assert!(manager(&mut context(), &At::root(), Some(&ProtoTracing::default())).is_none());
}

#[test]
fn providers_say_who_decides_and_who_gathers() {
    let zipkin = compiled(
        "provider: {name: z, typed_config: {\"@type\": type.googleapis.com/envoy.config.trace.v3.ZipkinConfig, \
         collector_cluster: c, collector_endpoint: /api/v2/spans, collector_endpoint_version: HTTP_JSON, \
         trace_id_128bit: true, shared_span_context: false}}",
    )
    .unwrap();
    assert_eq!(
        zipkin.tracer,
        Tracer::Zipkin {
            long_ids: true,
            shared: false
        }
    );
    assert_eq!(zipkin.collector.authority, "c");
    assert!(matches!(&zipkin.collector.form, Form::ZipkinSpans { target } if target == "/api/v2/spans"));
    let sampler = "type.googleapis.com/envoy.extensions.tracers.opentelemetry.samplers.v3";
    let own = compiled(&format!(
        "provider: {{name: o, typed_config: {{\"@type\": type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig, \
         grpc_service: {{envoy_grpc: {{cluster_name: c}}}}, sampler: {{name: p, typed_config: {{\"@type\": \
         {sampler}.ParentBasedSamplerConfig, wrapped_sampler: {{name: r, typed_config: {{\"@type\": \
         {sampler}.TraceIdRatioBasedSamplerConfig, sampling_percentage: {{numerator: 5}}}}}}}}}}}}}}"
    ))
    .unwrap();
    let ratio = Sampler::Ratio(Fraction {
        numerator: 5,
        denominator: 100,
    });
    let expected = Tracer::OpenTelemetry {
        sampler: Some(Sampler::Parent(Box::new(ratio))),
    };
    assert_eq!(own.tracer, expected);
}
