//! Families of traces and who gathers their spans → [`Tracer`], [`Collector`].

use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
use envoy_types::pb::envoy::config::trace::v3::tracing::Http as Provider;
use envoy_types::pb::envoy::config::trace::v3::tracing::http::ConfigType;
use envoy_types::pb::envoy::config::trace::v3::zipkin_config::CollectorEndpointVersion;
use envoy_types::pb::envoy::config::trace::v3::{OpenTelemetryConfig, ZipkinConfig};
use envoy_types::pb::envoy::extensions::tracers::opentelemetry::samplers::v3::{
    AlwaysOnSamplerConfig, ParentBasedSamplerConfig, TraceIdRatioBasedSamplerConfig,
};
use envoy_types::pb::google::protobuf::BoolValue;
use envoy_types::pb::opentelemetry::proto::common::v1::InstrumentationScope;
use http::uri::PathAndQuery;
use prost::Message;

use crate::compile::Context;
use crate::compile::collector::{self, Gathering};
use crate::compile::field::{At, Rejection, fields, is, type_name, unpack};
use crate::compile::resource::{NO_SERVICE, Resource, config};
use crate::compile::route::fraction;
use crate::config::collector::{Collector, Form};
use crate::config::tracing::{Sampler, Tracer};

/// Compiles a provider.
pub(super) fn tracer(
    context: &mut Context,
    at: &At<'_>,
    message: &Provider,
) -> Result<(Tracer, Arc<Collector>), Rejection> {
    fields!(at, message => Provider { name, config_type; ignore; refuse });
    let Some(ConfigType::TypedConfig(config)) = config_type else {
        return Err(at.error(format!("tracer {name:?} needs typed_config")));
    };
    let at_config = at.field("typed_config");
    if is::<OpenTelemetryConfig>(config) {
        return opentelemetry(context, &at_config, &unpack(&at_config, config)?);
    }
    if is::<ZipkinConfig>(config) {
        return zipkin(context, &at_config, &unpack(&at_config, config)?);
    }
    let kind = type_name(config);
    Err(at.error(format!("tracer {name:?} ({kind}) is not supported by this proxy")))
}

fn opentelemetry(
    context: &mut Context,
    at: &At<'_>,
    message: &OpenTelemetryConfig,
) -> Result<(Tracer, Arc<Collector>), Rejection> {
    fields!(at, message => OpenTelemetryConfig {
        grpc_service, service_name, resource_detectors, sampler, set_telemetry_sdk_resource_attributes,
        set_service_name_resource_attribute, set_instrumentation_scope;
        // What waits is bounded in bytes.
        ignore max_cache_size;
        refuse http_service, exporter
    });
    let name = Some(service_name.as_str()).filter(|name| !name.is_empty());
    let mut resource = Resource::default();
    let is_wanted = |set: &Option<BoolValue>| set.as_ref().is_none_or(|set| set.value);
    if is_wanted(set_service_name_resource_attribute) {
        resource.name(name.unwrap_or(NO_SERVICE));
    }
    if is_wanted(set_telemetry_sdk_resource_attributes) {
        resource.maker();
    }
    resource.detect(&at.field("resource_detectors"), resource_detectors)?;
    let scope = match is_wanted(set_instrumentation_scope) {
        true => InstrumentationScope {
            name: "edge-proxy".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        },
        false => InstrumentationScope::default(),
    };
    let form = Form::OtlpSpans {
        resource: resource.encoded(),
        scope: Bytes::from(scope.encode_to_vec()),
    };
    let collector = collector::grpc(context, at, grpc_service.as_ref(), Gathering::default(), form)?;
    let sampler = sampler
        .as_ref()
        .map(|message| self::sampler(&at.field("sampler"), message));
    let tracer = Tracer::OpenTelemetry {
        sampler: sampler.transpose()?,
    };
    Ok((tracer, context.scopes.collector(collector, &message.encode_to_vec())))
}

fn sampler(at: &At<'_>, message: &TypedExtensionConfig) -> Result<Sampler, Rejection> {
    let config = config(at, message)?;
    if is::<AlwaysOnSamplerConfig>(config) {
        return Ok(Sampler::All);
    }
    if is::<TraceIdRatioBasedSamplerConfig>(config) {
        let message: TraceIdRatioBasedSamplerConfig = unpack(at, config)?;
        fields!(at, &message => TraceIdRatioBasedSamplerConfig { sampling_percentage; ignore; refuse });
        let share = fraction(&at.field("sampling_percentage"), sampling_percentage.as_ref())?;
        return Ok(Sampler::Ratio(share));
    }
    if is::<ParentBasedSamplerConfig>(config) {
        let message: ParentBasedSamplerConfig = unpack(at, config)?;
        fields!(at, &message => ParentBasedSamplerConfig { wrapped_sampler; ignore; refuse });
        let at = at.field("wrapped_sampler");
        let Some(wrapped) = wrapped_sampler else {
            return Err(at.error("is required"));
        };
        return Ok(Sampler::Parent(Box::new(sampler(&at, wrapped)?)));
    }
    let kind = type_name(config);
    Err(at.error(format!("sampler {kind} is not supported by this proxy")))
}

fn zipkin(context: &mut Context, at: &At<'_>, message: &ZipkinConfig) -> Result<(Tracer, Arc<Collector>), Rejection> {
    fields!(at, message => ZipkinConfig {
        collector_cluster, collector_endpoint, trace_id_128bit, shared_span_context, collector_endpoint_version,
        collector_hostname;
        ignore;
        refuse split_spans_for_request, trace_context_option, collector_service,
               timestamp_trace_ids
    });
    if CollectorEndpointVersion::try_from(*collector_endpoint_version) != Ok(CollectorEndpointVersion::HttpJson) {
        return Err(at.unsupported("collector_endpoint_version"));
    }
    let target = PathAndQuery::try_from(collector_endpoint.as_str()).ok();
    let target = target.filter(|_| collector_endpoint.starts_with('/'));
    let form = Form::ZipkinSpans {
        target: target.ok_or_else(|| at.field("collector_endpoint").error("is not a path"))?,
    };
    let collector = collector::http(context, at, collector_cluster, collector_hostname, form)?;
    let tracer = Tracer::Zipkin {
        long_ids: *trace_id_128bit,
        shared: shared_span_context.as_ref().is_none_or(|shared| shared.value),
    };
    Ok((tracer, context.scopes.collector(collector, &message.encode_to_vec())))
}
