//! Traces and metrics of the routes that a policy covers.

use super::Problems;
use crate::{
    api::{
        BackendTrafficPolicySpec,
        backend_telemetry::RouteTracing as Spec,
        edge_proxy::tracing::{CustomTag, CustomTagType, NamedTag},
        route_filter::Fraction as Ratio,
    },
    phase::operators,
};
use edge_ir::{Fraction, RouteTracing, TagValue};
use std::{collections::BTreeMap, sync::Arc};

const AREA: &str = "Telemetry";

/// Traces of the routes; none where the policy says nothing of them.
pub(super) fn tracing(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Option<RouteTracing> {
    let tracing = spec.telemetry.as_deref()?.tracing.as_deref()?;
    let mut share = |field, ratio: &Option<Ratio>| ratio.as_ref().and_then(|ratio| fraction(field, ratio, problems));
    let (client_sampling, random_sampling, overall_sampling) = (
        share("clientSamplingFraction", &tracing.client_sampling_fraction),
        share("samplingFraction", &tracing.sampling_fraction),
        share("overallSamplingFraction", &tracing.overall_sampling_fraction),
    );
    let span = tracing.span_name.as_ref();
    let mut name = |text: &str| format(text, "spanName", problems);
    let (server_span, client_span) = (span.map(|s| name(&s.server)), span.map(|s| name(&s.client)));
    Some(RouteTracing {
        client_sampling,
        random_sampling,
        overall_sampling,
        tags: tags(tracing, problems),
        server_span,
        client_span,
    })
}

fn fraction(field: &str, ratio: &Ratio, problems: &mut Problems) -> Option<Fraction> {
    let (numerator, denominator) = (i128::from(ratio.numerator), i128::from(ratio.denominator));
    let millionths = (numerator * 1_000_000).checked_div(denominator);
    let share = millionths
        .and_then(|share| u32::try_from(share).ok())
        .filter(|share| *share <= 1_000_000);
    if share.is_none() {
        problems.add(AREA, format_args!("{field} must be a fraction from 0 to 1"));
    }
    share.map(Fraction)
}

fn format(text: &str, field: &str, problems: &mut Problems) -> Arc<str> {
    if let Err(why) = operators::check(text) {
        problems.add(AREA, format_args!("{field}: {why}"));
    }
    problems.text(AREA, field, text)
}

/// Tags of both forms; where both have one of a name that of the newer form counts.
fn tags(tracing: &Spec, problems: &mut Problems) -> Vec<(Arc<str>, TagValue)> {
    let mut all: BTreeMap<Arc<str>, TagValue> = BTreeMap::new();
    for (name, tag) in &tracing.custom_tags {
        if let Some(value) = custom(name, tag, problems) {
            all.insert((&**name).into(), value);
        }
    }
    for (name, text) in tracing.tags.iter() {
        let text = format(text, "tags", problems);
        let value = match text.contains('%') {
            true => TagValue::Format(text),
            false => TagValue::Text(text),
        };
        all.insert(name.into(), value);
    }
    all.into_iter().collect()
}

fn custom(name: &str, tag: &CustomTag, problems: &mut Problems) -> Option<TagValue> {
    let wanting = |field: &str, problems: &mut Problems| {
        problems.add(AREA, format_args!("{field} must be set for tag {name}"));
        None
    };
    let named = |tag: &NamedTag| {
        (
            Arc::<str>::from(&*tag.name),
            Arc::from(tag.default_value.as_deref().unwrap_or_default()),
        )
    };
    match (&tag.r#type, &tag.literal, &tag.environment, &tag.request_header) {
        (CustomTagType::Literal, Some(literal), ..) => Some(TagValue::Text((&*literal.value).into())),
        (CustomTagType::Environment, _, Some(variable), _) => {
            let (name, otherwise) = named(variable);
            Some(TagValue::Environment { name, otherwise })
        }
        (CustomTagType::RequestHeader, .., Some(header)) => {
            let (name, otherwise) = named(header);
            problems.token(AREA, "header of a tag", &name);
            Some(TagValue::Header { name, otherwise })
        }
        (CustomTagType::Literal, ..) => wanting("literal", problems),
        (CustomTagType::Environment, ..) => wanting("environment", problems),
        (CustomTagType::RequestHeader, ..) => wanting("requestHeader", problems),
        (CustomTagType::Other(other), ..) => {
            problems.add(AREA, format_args!("unsupported type {other} of tag {name}"));
            None
        }
    }
}

/// Operators of the name under which a route is counted.
const OF_ROUTE: [&str; 3] = ["ROUTE_KIND", "ROUTE_NAMESPACE", "ROUTE_NAME"];

/// The name under which requests are counted.
pub(super) fn stat_name(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Option<Arc<str>> {
    let name = spec
        .telemetry
        .as_deref()?
        .metrics
        .as_ref()?
        .route_stat_name
        .as_deref()?;
    let mut parts = name.split('%');
    let is_fine = name.matches('%').count().is_multiple_of(2)
        && !parts.any(|part| part.chars().any(char::is_control))
        && name
            .split('%')
            .skip(1)
            .step_by(2)
            .all(|operator| OF_ROUTE.contains(&operator));
    if !is_fine || name.is_empty() {
        problems.add(
            AREA,
            format_args!(
                "routeStatName {name:?} may hold the operators {} alone",
                OF_ROUTE.join(", ")
            ),
        );
    }
    Some(name.into())
}
