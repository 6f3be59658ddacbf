//! Traces as an EdgeProxy asks for them.

use super::{collector::Finder, formats};
use crate::{
    api::edge_proxy::tracing::{
        OpenTelemetryTracing, OtelSampler, OtelSamplerType, ProxyTracing, TracingProvider, TracingProviderType,
    },
    phase::{operators, policies::traffic::Problems, tracing},
    settings::Platform,
};
use edge_ir::{AppProtocol, FleetOwner, FleetTracing, Fraction, Pairs, SampledShare, Sampler, TagValue, TraceProvider};
use std::sync::Arc;

/// All of them.
const ALL: Fraction = Fraction(1_000_000);
/// None.
const NONE: Fraction = Fraction(0);

/// What the proxies of a cluster tell of themselves: tags, and the variables that have their values.
const OF_PODS: [(&str, &str); 2] = [
    ("k8s.namespace.name", "EDGE_POD_NAMESPACE"),
    ("k8s.pod.name", "EDGE_POD_NAME"),
];

/// What was asked for, or why it can't be honoured.
pub(super) fn tracing(finder: &mut Finder<'_, '_>, spec: &ProxyTracing) -> Result<FleetTracing, String> {
    let mut problems = Problems::default();
    let read = tracing::read(spec.spans(), operators::check_of_span, &mut problems);
    if !problems.is_empty() {
        return Err(problems.joined().to_string());
    }
    let random_sampling = match (spec.sampling_rate, read.random_sampling) {
        (Some(_), Some(_)) => return Err("only one of SamplingRate or SamplingFraction can be specified".to_owned()),
        (Some(percent @ 0..=100), None) => Fraction(percent * 10_000),
        (Some(percent), None) => return Err(format!("samplingRate {percent} is more than 100 percent")),
        (None, fraction) => fraction.unwrap_or(ALL),
    };
    let mut tags = read.tags;
    if finder.reader.settings().platform == Platform::Cluster {
        for (tag, variable) in OF_PODS {
            if !tags.iter().any(|(name, _)| **name == *tag) {
                let value = TagValue::Environment {
                    name: variable.into(),
                    otherwise: Arc::default(),
                };
                tags.push((tag.into(), value));
            }
        }
        tags.sort_by(|(a, _), (b, _)| a.cmp(b));
    }
    Ok(FleetTracing {
        random_sampling,
        // A proxy would take what isn't said for all: then any client could have itself traced.
        client_sampling: read.client_sampling.or(Some(Fraction(0))),
        overall_sampling: read.overall_sampling,
        tags,
        server_span: read.server_span,
        client_span: read.client_span,
        provider: provider(finder, &spec.provider)?,
    })
}

fn provider(finder: &mut Finder<'_, '_>, spec: &TracingProvider) -> Result<TraceProvider, String> {
    if spec.service_name.as_deref() == Some("") {
        return Err("serviceName cannot be empty if provided".to_owned());
    }
    if spec.open_telemetry.is_some() && spec.r#type != TracingProviderType::OpenTelemetry {
        return Err("openTelemetry can only be used with type OpenTelemetry".to_owned());
    }
    let service_name = match spec.service_name.as_deref() {
        Some(name) => name.into(),
        None => service_name(finder.fleet),
    };
    let own = OpenTelemetryTracing::default();
    let otlp = spec.open_telemetry.as_deref().unwrap_or(&own);
    let (headers, sampler) = (
        formats::headers(&otlp.headers)?,
        otlp.sampler.as_ref().map(sampler).transpose()?,
    );
    let mut collector =
        |protocol, headers| finder.collector("tracing", protocol, spec.backends(), spec.address(), headers);
    Ok(match &spec.r#type {
        TracingProviderType::OpenTelemetry => TraceProvider::OpenTelemetry {
            collector: collector(AppProtocol::Http2, headers)?,
            service_name,
            resource: formats::pairs(&otlp.resource_attributes),
            sampler,
        },
        TracingProviderType::Zipkin => TraceProvider::Zipkin {
            collector: collector(AppProtocol::Http1, Pairs::new())?,
            long_ids: spec.zipkin.as_ref().and_then(|z| z.enable_128_bit_trace_id) == Some(true),
            shared_spans: spec.zipkin.as_ref().and_then(|z| z.disable_shared_span_context) != Some(true),
        },
        TracingProviderType::Datadog => TraceProvider::Datadog {
            collector: collector(AppProtocol::Http1, Pairs::new())?,
            service_name,
        },
        TracingProviderType::Other(other) => return Err(format!("unsupported tracing provider {other}")),
    })
}

/// `<gateway>.<namespace>`; that of a fleet that Gateways share is its class.
fn service_name(fleet: &str) -> Arc<str> {
    match FleetOwner::of_key(fleet) {
        FleetOwner::Gateway { namespace, name } => format!("{name}.{namespace}").into(),
        FleetOwner::Class(name) => name.into(),
    }
}

fn sampler(spec: &OtelSampler) -> Result<Sampler, String> {
    let share = || match &spec.sampling_percentage {
        None => Ok(SampledShare::All),
        Some(ratio) => match tracing::fraction(ratio) {
            Some(share) => Ok(SampledShare::Ratio(share)),
            None => Err("samplingPercentage must be a fraction from 0 to 1".to_owned()),
        },
    };
    let is_by_ratio = matches!(
        spec.r#type,
        OtelSamplerType::TraceIdRatio | OtelSamplerType::ParentBasedTraceIdRatio
    );
    if spec.sampling_percentage.is_some() && !is_by_ratio {
        return Err("samplingPercentage can only be set with TraceIdRatio or ParentBasedTraceIdRatio".to_owned());
    }
    Ok(match &spec.r#type {
        OtelSamplerType::AlwaysOn => Sampler::Own(SampledShare::All),
        OtelSamplerType::AlwaysOff => Sampler::Own(SampledShare::Ratio(NONE)),
        OtelSamplerType::TraceIdRatio => Sampler::Own(share()?),
        OtelSamplerType::ParentBasedAlwaysOn => Sampler::OfParent(SampledShare::All),
        OtelSamplerType::ParentBasedAlwaysOff => Sampler::OfParent(SampledShare::Ratio(NONE)),
        OtelSamplerType::ParentBasedTraceIdRatio => Sampler::OfParent(share()?),
        OtelSamplerType::Other(other) => return Err(format!("unsupported sampler {other}")),
    })
}
