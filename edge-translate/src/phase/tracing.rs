//! What spans tell, as an EdgeProxy and policies write it.

use crate::{
    api::{
        edge_proxy::tracing::{CustomTag, CustomTagType, NamedTag},
        route_filter::Fraction as Ratio,
        shape::Spans,
    },
    phase::policies::traffic::Problems,
};
use edge_ir::{Fraction, RouteTracing, TagValue};
use std::{collections::BTreeMap, sync::Arc};

const AREA: &str = "Telemetry";

/// Whether a proxy takes a format.
type Check = fn(&str) -> Result<(), String>;

/// Reads what spans tell.
pub(crate) fn read(spans: Spans<'_>, check: Check, problems: &mut Problems) -> RouteTracing {
    let mut share = |field, ratio: Option<&Ratio>| {
        let share = ratio.map(fraction);
        if share == Some(None) {
            problems.add(AREA, format_args!("{field} must be a fraction from 0 to 1"));
        }
        share.flatten()
    };
    let (client_sampling, random_sampling, overall_sampling) = (
        share("clientSamplingFraction", spans.client_sampling),
        share("samplingFraction", spans.sampling),
        share("overallSamplingFraction", spans.overall_sampling),
    );
    let mut name = |text: &str| format(text, "spanName", check, problems);
    let (server_span, client_span) = (
        spans.span_name.map(|span| name(&span.server)),
        spans.span_name.map(|span| name(&span.client)),
    );
    RouteTracing {
        client_sampling,
        random_sampling,
        overall_sampling,
        tags: tags(spans, check, problems),
        server_span,
        client_span,
    }
}

/// A share of requests; none where it isn't from 0 to 1.
pub(crate) fn fraction(ratio: &Ratio) -> Option<Fraction> {
    let (numerator, denominator) = (i128::from(ratio.numerator), i128::from(ratio.denominator));
    let millionths = (numerator * 1_000_000).checked_div(denominator)?;
    let share = u32::try_from(millionths).ok();
    share.filter(|share| *share <= 1_000_000).map(Fraction)
}

fn format(text: &str, field: &str, check: Check, problems: &mut Problems) -> Arc<str> {
    if let Err(why) = check(text) {
        problems.add(AREA, format_args!("{field}: {why}"));
    }
    problems.text(AREA, field, text)
}

/// Tags of both forms; where both have one of a name that of the newer form counts.
fn tags(tracing: Spans<'_>, check: Check, problems: &mut Problems) -> Vec<(Arc<str>, TagValue)> {
    let mut all: BTreeMap<Arc<str>, TagValue> = BTreeMap::new();
    for (name, tag) in tracing.custom_tags {
        present(name, "name of a tag", problems);
        if let Some(value) = custom(name, tag, problems) {
            all.insert((&**name).into(), value);
        }
    }
    for (name, text) in tracing.tags.iter() {
        present(name, "name of a tag", problems);
        present(text, &format!("tag {name}"), problems);
        let text = format(text, "tags", check, problems);
        let value = match text.contains('%') {
            true => TagValue::Format(text),
            false => TagValue::Text(text),
        };
        all.insert(name.into(), value);
    }
    all.into_iter().collect()
}

/// A proxy refuses all of a listener, or of a table, for a text that is missing.
fn present(text: &str, what: &str, problems: &mut Problems) {
    if text.is_empty() {
        problems.add(AREA, format_args!("{what} must not be empty"));
    }
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
        (CustomTagType::Literal, Some(literal), ..) => {
            present(&literal.value, &format!("literal of tag {name}"), problems);
            Some(TagValue::Text((&*literal.value).into()))
        }
        (CustomTagType::Environment, _, Some(variable), _) => {
            present(&variable.name, &format!("environment of tag {name}"), problems);
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
