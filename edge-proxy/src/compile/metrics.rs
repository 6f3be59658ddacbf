//! Which metrics there are, and whom they are pushed to → [`Kept`], [`Sink`].

use std::num::NonZeroUsize;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::metrics::v3::stats_matcher::StatsMatcher as Choice;
use envoy_types::pb::envoy::config::metrics::v3::stats_sink::ConfigType;
use envoy_types::pb::envoy::config::metrics::v3::{StatsConfig, StatsMatcher, StatsSink};
use envoy_types::pb::envoy::extensions::stat_sinks::open_telemetry::v3::SinkConfig;
use envoy_types::pb::envoy::extensions::stat_sinks::open_telemetry::v3::sink_config::ProtocolSpecifier;
use envoy_types::pb::envoy::r#type::matcher::v3::ListStringMatcher;
use envoy_types::pb::google::protobuf::Duration as ProtoDuration;

use crate::compile::Context;
use crate::compile::collector::{self, Gathering};
use crate::compile::field::{At, Rejection, duration_or, fields, is, type_name, unpack};
use crate::compile::header::string_condition;
use crate::compile::resource::Resource;
use crate::config::collector::Form;
use crate::config::header::StringCondition;
use crate::config::metrics::{Kept, Naming, Sink, Temporality};

/// Envoy's default of how often sinks are told.
const INTERVAL: Duration = Duration::from_secs(5);

/// Compiles what a bootstrap keeps.
pub fn kept(at: &At<'_>, message: &StatsConfig) -> Result<Kept, Rejection> {
    fields!(at, message => StatsConfig {
        stats_matcher;
        // Names and buckets are those of Envoy's defaults.
        ignore stats_tags, use_all_default_tags, histogram_bucket_settings, allow_default_tag_overrides;
        refuse
    });
    let at = at.field("stats_matcher");
    let Some(matcher) = stats_matcher else {
        return Ok(Kept::All);
    };
    fields!(at, matcher => StatsMatcher { stats_matcher; ignore; refuse });
    match stats_matcher {
        None => Err(at.error("reject_all, exclusion_list or inclusion_list is required")),
        Some(Choice::RejectAll(true)) => Ok(Kept::Nothing),
        Some(Choice::RejectAll(false)) => Ok(Kept::All),
        Some(Choice::ExclusionList(list)) => conditions(&at.field("exclusion_list"), list).map(Kept::Without),
        Some(Choice::InclusionList(list)) => conditions(&at.field("inclusion_list"), list).map(Kept::Only),
    }
}

fn conditions(at: &At<'_>, list: &ListStringMatcher) -> Result<Box<[StringCondition]>, Rejection> {
    let at = at.field("patterns");
    let conditions = list.patterns.iter().enumerate();
    conditions
        .map(|(index, matcher)| string_condition(&at.index(index), matcher))
        .collect()
}

/// How often sinks are told.
pub fn interval(at: &At<'_>, message: Option<&ProtoDuration>) -> Result<Duration, Rejection> {
    let interval = duration_or(at, message, INTERVAL)?;
    // Envoy's bounds.
    if (Duration::from_millis(1)..Duration::from_secs(300)).contains(&interval) {
        return Ok(interval);
    }
    Err(at.error("must be from 1ms to less than 300s"))
}

/// Compiles a sink, which must be in one of the bootstrap's clusters.
pub fn sink(
    context: &mut Context,
    at: &At<'_>,
    message: &StatsSink,
    interval: Duration,
    clusters: &[Cluster],
) -> Result<Sink, Rejection> {
    fields!(at, message => StatsSink { name, config_type; ignore; refuse });
    let Some(ConfigType::TypedConfig(config)) = config_type else {
        return Err(at.error(format!("sink {name:?} needs typed_config")));
    };
    if !is::<SinkConfig>(config) {
        let kind = type_name(config);
        return Err(at.error(format!("sink {name:?} ({kind}) is not supported by this proxy")));
    }
    let at = at.field("typed_config");
    let sink = open_telemetry(context, &at, &unpack(&at, config)?, interval)?;
    let cluster = &*sink.collector.cluster_name;
    // As in Envoy: what comes and goes may not be there when it is needed.
    if !clusters.iter().any(|known| known.name == cluster) {
        let at = at.field("grpc_service");
        let at = at.field("envoy_grpc");
        return Err(at
            .field("cluster_name")
            .error(format!("{cluster:?} is none of the clusters of static_resources")));
    }
    Ok(sink)
}

fn open_telemetry(
    context: &mut Context,
    at: &At<'_>,
    message: &SinkConfig,
    interval: Duration,
) -> Result<Sink, Rejection> {
    fields!(at, message => SinkConfig {
        protocol_specifier, resource_detectors, report_counters_as_deltas, report_histograms_as_deltas,
        emit_tags_as_attributes, use_tag_extracted_name, prefix, max_data_points_per_request;
        ignore;
        refuse custom_metric_conversions
    });
    let service = match protocol_specifier {
        Some(ProtocolSpecifier::GrpcService(service)) => Some(service),
        Some(ProtocolSpecifier::HttpService(_)) => return Err(at.unsupported("http_service")),
        None => None,
    };
    let mut resource = Resource::default();
    // Without a name of a service, where none is given.
    resource.maker();
    resource.detect(&at.field("resource_detectors"), resource_detectors)?;
    let form = Form::OtlpMetrics {
        resource: resource.encoded(),
    };
    let temporality = |is_delta: bool| match is_delta {
        true => Temporality::Delta,
        false => Temporality::Cumulative,
    };
    Ok(Sink {
        collector: collector::grpc(context, at, service, Gathering::default(), form)?,
        interval,
        counters: temporality(*report_counters_as_deltas),
        histograms: temporality(*report_histograms_as_deltas),
        naming: match use_tag_extracted_name.as_ref().is_none_or(|set| set.value) {
            true => Naming::Tagged,
            false => Naming::Whole,
        },
        has_attributes: emit_tags_as_attributes.as_ref().is_none_or(|set| set.value),
        prefix: match prefix.as_str() {
            "" => Box::default(),
            prefix => format!("{prefix}.").into(),
        },
        most: NonZeroUsize::new(*max_data_points_per_request as usize),
    })
}

#[cfg(test)]
mod tests {
    use edge_xds::json::Codec;
    use envoy_types::pb::envoy::config::bootstrap::v3::Bootstrap;
    use serde_json::{Value, json};

    use super::*;
    use crate::compile::files::Disk;

    const SINK: &str = "type.googleapis.com/envoy.extensions.stat_sinks.open_telemetry.v3.SinkConfig";

    fn message(value: Value) -> Bootstrap {
        let codec = Codec::for_value::<Bootstrap>(&value).expect("known");
        codec.from_json(value).expect("a bootstrap")
    }

    fn compiled(sink: Value) -> Result<Sink, String> {
        let message =
            message(json!({"stats_sinks": [sink], "static_resources": {"clusters": [{"name": "collector"}]}}));
        let prefixed = crate::compile::prefixed_headers("").expect("names");
        let mut context = Context::new(Box::new(Disk), prefixed, 1);
        let clusters = message.static_resources.expect("there").clusters;
        let sink = &message.stats_sinks[0];
        super::sink(&mut context, &At::root(), sink, INTERVAL, &clusters).map_err(|error| error.to_string())
    }

    fn otlp(more: Value) -> Value {
        let mut config = json!({"@type": SINK, "grpc_service": {"envoy_grpc": {"cluster_name": "collector"}}});
        if let (Some(config), Some(more)) = (config.as_object_mut(), more.as_object()) {
            config.extend(more.clone());
        }
        json!({"name": "sink", "typed_config": config})
    }

    #[test]
    fn a_sink_is_as_envoy_reads_it() {
        let sink = compiled(otlp(json!({"prefix": "edge", "report_counters_as_deltas": true}))).expect("honoured");
        assert_eq!(
            (&*sink.prefix, sink.naming, sink.has_attributes),
            ("edge.", Naming::Tagged, true)
        );
        assert_eq!(
            (sink.counters, sink.histograms),
            (Temporality::Delta, Temporality::Cumulative)
        );
        assert_eq!((&*sink.collector.cluster_name, sink.most), ("collector", None));
    }

    #[test]
    fn a_sink_that_cannot_be_told_is_left_out_by_name() {
        let statsd = json!({"name": "statsd", "typed_config": {
            "@type": "type.googleapis.com/envoy.config.metrics.v3.StatsdSink", "tcp_cluster_name": "collector"}});
        let elsewhere = json!({"grpc_service": {"envoy_grpc": {"cluster_name": "elsewhere"}}});
        let over_http = json!({"name": "sink", "typed_config": {"@type": SINK, "http_service": {"http_uri": {
            "uri": "http://collector", "cluster": "collector", "timeout": "1s"}}}});
        for (sink, reason) in [
            (statsd, "envoy.config.metrics.v3.StatsdSink"),
            (over_http, "typed_config.http_service"),
            (
                otlp(json!({"custom_metric_conversions": {}})),
                "typed_config.custom_metric_conversions",
            ),
            (otlp(elsewhere), "typed_config.grpc_service.envoy_grpc.cluster_name"),
            (json!({"name": "nothing"}), "needs typed_config"),
        ] {
            let error = compiled(sink).expect_err(reason);
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn what_is_kept_is_as_envoy_reads_it() {
        let kept = |matcher: Value| {
            let message = message(json!({"stats_config": {"stats_matcher": matcher}}));
            super::kept(&At::root(), &message.stats_config.expect("there")).map_err(|error| error.to_string())
        };
        let exact = json!({"patterns": [{"exact": "a"}]});
        for (matcher, expected) in [
            (json!({"reject_all": true}), [false, false]),
            (json!({"reject_all": false}), [true, true]),
            (json!({"inclusion_list": exact}), [true, false]),
            (json!({"exclusion_list": exact}), [false, true]),
        ] {
            let kept = kept(matcher.clone()).expect("honoured");
            assert_eq!(["a", "b"].map(|name| kept.has(name)), expected, "{matcher}");
        }
        let error =
            kept(json!({"inclusion_list": {"patterns": [{"safe_regex": {"regex": "("}}]}})).expect_err("no regex");
        assert!(
            error.contains("stats_matcher.inclusion_list.patterns[0].safe_regex"),
            "{error}"
        );
    }

    #[test]
    fn intervals_are_within_bounds() {
        let interval = |seconds, nanos| super::interval(&At::root(), Some(&ProtoDuration { seconds, nanos }));
        assert_eq!(super::interval(&At::root(), None), Ok(Duration::from_secs(5)));
        assert_eq!(interval(0, 1_000_000), Ok(Duration::from_millis(1)));
        for (seconds, nanos) in [(0, 999_999), (300, 0), (-1, 0)] {
            assert!(interval(seconds, nanos).is_err(), "{seconds}.{nanos}");
        }
    }
}
