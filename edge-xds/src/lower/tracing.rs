//! Traces of all requests of a fleet.

use super::{
    access_log::grpc,
    common::{any, extension, fractional, yes},
    route::tag,
};
use crate::wire::{MAP_KEY, MAP_VALUE, put_message, put_str};
use edge_ir::{FleetTracing, Fraction, Pairs, SampledShare, Sampler, TraceProvider};
use envoy_types::{
    pb::{
        envoy::{
            config::{
                core::v3::TypedExtensionConfig,
                trace::v3::{
                    DatadogConfig, OpenTelemetryConfig, ZipkinConfig,
                    tracing::{Http, http},
                    zipkin_config::CollectorEndpointVersion,
                },
            },
            extensions::{
                filters::network::http_connection_manager::v3::http_connection_manager::Tracing,
                tracers::opentelemetry::{
                    resource_detectors::v3::StaticConfigResourceDetectorConfig,
                    samplers::v3::{AlwaysOnSamplerConfig, ParentBasedSamplerConfig, TraceIdRatioBasedSamplerConfig},
                },
            },
            r#type::v3::Percent,
        },
        google::protobuf::BoolValue,
    },
    util::pack_any,
};
use prost::{Message, Name};

/// Path of a Zipkin collector that takes spans.
const ZIPKIN_PATH: &str = "/api/v2/spans";
/// `StaticConfigResourceDetectorConfig.attributes`.
const ATTRIBUTES: u32 = 1;

/// What a manager traces. A proxy is a hop of its own: it tells of its requests to backends in spans of their own.
pub(super) fn lower(tracing: &FleetTracing) -> Tracing {
    Tracing {
        client_sampling: tracing.client_sampling.map(percent),
        random_sampling: Some(percent(tracing.random_sampling)),
        overall_sampling: tracing.overall_sampling.map(percent),
        custom_tags: tracing.tags.iter().map(|(name, value)| tag(name, value)).collect(),
        provider: Some(provider(&tracing.provider)),
        spawn_upstream_span: yes(),
        operation: tracing.server_span.as_deref().unwrap_or_default().to_owned(),
        upstream_operation: tracing.client_span.as_deref().unwrap_or_default().to_owned(),
        ..Default::default()
    }
}

fn percent(Fraction(millionths): Fraction) -> Percent {
    Percent {
        value: f64::from(millionths) / 10_000.0,
    }
}

fn provider(provider: &TraceProvider) -> Http {
    match provider {
        TraceProvider::OpenTelemetry {
            collector,
            service_name,
            resource,
            sampler,
        } => http(
            "envoy.tracers.opentelemetry",
            OpenTelemetryConfig {
                grpc_service: Some(grpc(collector)),
                service_name: service_name.to_string(),
                resource_detectors: (!resource.is_empty())
                    .then(|| attributes(resource))
                    .into_iter()
                    .collect(),
                sampler: sampler.map(self::sampler),
                ..Default::default()
            },
        ),
        TraceProvider::Zipkin {
            collector,
            long_ids,
            shared_spans,
        } => http(
            "envoy.tracers.zipkin",
            ZipkinConfig {
                collector_cluster: collector.cluster.to_string(),
                collector_endpoint: ZIPKIN_PATH.to_owned(),
                trace_id_128bit: *long_ids,
                shared_span_context: Some(BoolValue { value: *shared_spans }),
                collector_endpoint_version: CollectorEndpointVersion::HttpJson.into(),
                collector_hostname: collector.authority.to_string(),
                ..Default::default()
            },
        ),
        TraceProvider::Datadog {
            collector,
            service_name,
        } => http(
            "envoy.tracers.datadog",
            DatadogConfig {
                collector_cluster: collector.cluster.to_string(),
                service_name: service_name.to_string(),
                collector_hostname: collector.authority.to_string(),
                ..Default::default()
            },
        ),
    }
}

fn http<M: Message + Name>(name: &str, config: M) -> Http {
    Http {
        name: name.to_owned(),
        config_type: Some(http::ConfigType::TypedConfig(pack_any(config))),
    }
}

/// Attributes of the resource. A map, so it is written entry by entry.
fn attributes(pairs: &Pairs) -> TypedExtensionConfig {
    let mut config = Vec::new();
    for (key, value) in pairs {
        put_message(&mut config, ATTRIBUTES, |out| {
            put_str(out, MAP_KEY, key);
            put_str(out, MAP_VALUE, value);
        });
    }
    TypedExtensionConfig {
        name: "envoy.tracers.opentelemetry.resource_detectors.static_config".to_owned(),
        typed_config: Some(any::<StaticConfigResourceDetectorConfig>(config)),
    }
}

fn sampler(sampler: Sampler) -> TypedExtensionConfig {
    match sampler {
        Sampler::Own(share) => own(share),
        Sampler::OfParent(share) => extension(
            "envoy.tracers.opentelemetry.samplers.parent_based",
            ParentBasedSamplerConfig {
                wrapped_sampler: Some(own(share)),
            },
        ),
    }
}

fn own(share: SampledShare) -> TypedExtensionConfig {
    match share {
        SampledShare::All => extension(
            "envoy.tracers.opentelemetry.samplers.always_on",
            AlwaysOnSamplerConfig {},
        ),
        SampledShare::Ratio(share) => extension(
            "envoy.tracers.opentelemetry.samplers.trace_id_ratio_based",
            TraceIdRatioBasedSamplerConfig {
                sampling_percentage: Some(fractional(share)),
            },
        ),
    }
}
