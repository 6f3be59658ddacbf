//! Logs that services take: Envoy's access log service, and OTLP.

use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::{ApiVersion, Node};
use envoy_types::pb::envoy::extensions::access_loggers::grpc::v3::{
    CommonGrpcAccessLogConfig, HttpGrpcAccessLogConfig, TcpGrpcAccessLogConfig,
};
use envoy_types::pb::envoy::extensions::access_loggers::open_telemetry::v3::OpenTelemetryAccessLogConfig;
use envoy_types::pb::envoy::service::accesslog::v3::StreamAccessLogsMessage;
use envoy_types::pb::envoy::service::accesslog::v3::stream_access_logs_message::Identifier;
use envoy_types::pb::opentelemetry::proto::common::v1::any_value::Value;
use envoy_types::pb::opentelemetry::proto::common::v1::{AnyValue, KeyValueList};
use http::HeaderName;
use prost::Message;

use crate::compile::Context;
use crate::compile::access_log::format::{self, Words};
use crate::compile::collector::{self, Gathering, pair};
use crate::compile::field::{At, Rejection, fields};
use crate::config::access_log::{CapturedFields, HttpEntries, OtlpFormat, OtlpValue, Sink};
use crate::config::collector::{Collector, Form};

/// Envoy's access log service, with entries of HTTP.
pub(super) fn http(
    context: &mut Context,
    at: &At<'_>,
    message: &HttpGrpcAccessLogConfig,
    wanted: &mut CapturedFields,
) -> Result<Sink, Rejection> {
    fields!(at, message => HttpGrpcAccessLogConfig {
        common_config, additional_request_headers_to_log, additional_response_headers_to_log,
        additional_response_trailers_to_log;
        ignore;
        refuse
    });
    let prefixed = Arc::clone(&context.prefixed);
    let mut own = |name: &str| place(at, name, &mut wanted.request);
    let entries = HttpEntries {
        user_agent: own("user-agent")?,
        referer: own("referer")?,
        forwarded_for: own("x-forwarded-for")?,
        request_id: own("x-request-id")?,
        original_path: own(prefixed.original_path.as_str())?,
        request_headers: places(
            &at.field("additional_request_headers_to_log"),
            additional_request_headers_to_log,
            &mut wanted.request,
        )?,
        response_headers: places(
            &at.field("additional_response_headers_to_log"),
            additional_response_headers_to_log,
            &mut wanted.response,
        )?,
        response_trailers: places(
            &at.field("additional_response_trailers_to_log"),
            additional_response_trailers_to_log,
            &mut wanted.trailers,
        )?,
    };
    let collector = common(context, at, common_config.as_ref(), |identifier| Form::HttpLogs {
        identifier,
    })?;
    Ok(Sink::HttpService {
        entries: Box::new(entries),
        collector: context.scopes.collector(collector, &message.encode_to_vec()),
    })
}

/// The same with entries of connections.
pub(super) fn stream(context: &mut Context, at: &At<'_>, message: &TcpGrpcAccessLogConfig) -> Result<Sink, Rejection> {
    fields!(at, message => TcpGrpcAccessLogConfig { common_config; ignore; refuse });
    let collector = common(context, at, common_config.as_ref(), |identifier| Form::StreamLogs {
        identifier,
    })?;
    Ok(Sink::StreamService {
        collector: context.scopes.collector(collector, &message.encode_to_vec()),
    })
}

fn common(
    context: &mut Context,
    at: &At<'_>,
    message: Option<&CommonGrpcAccessLogConfig>,
    form: impl FnOnce(Bytes) -> Form,
) -> Result<Collector, Rejection> {
    let at = at.field("common_config");
    let Some(message) = message else {
        return Err(at.error("is required"));
    };
    fields!(at, message => CommonGrpcAccessLogConfig {
        log_name, grpc_service, transport_api_version, buffer_flush_interval, buffer_size_bytes;
        ignore;
        refuse filter_state_objects_to_log, grpc_stream_retry_policy, custom_tags
    });
    // Where nothing is said Envoy takes version 3, as there is no other one left.
    if !matches!(
        ApiVersion::try_from(*transport_api_version),
        Ok(ApiVersion::V3 | ApiVersion::Auto)
    ) {
        return Err(at.unsupported("transport_api_version"));
    }
    let identifier = Identifier {
        node: Some(context.node.clone()),
        log_name: log_name.clone(),
    };
    // The first message of a stream is this with entries behind it.
    let first = StreamAccessLogsMessage {
        identifier: Some(identifier),
        log_entries: None,
    };
    let gathering = Gathering {
        interval: buffer_flush_interval.as_ref(),
        size: buffer_size_bytes.as_ref(),
    };
    let form = form(first.encode_to_vec().into());
    collector::grpc(context, &at, grpc_service.as_ref(), gathering, form)
}

/// OTLP.
pub(super) fn otlp(
    context: &mut Context,
    at: &At<'_>,
    message: &OpenTelemetryAccessLogConfig,
    wanted: &mut CapturedFields,
) -> Result<Sink, Rejection> {
    fields!(at, message => OpenTelemetryAccessLogConfig {
        grpc_service, disable_builtin_labels, resource_attributes, body, attributes, formatters, log_name,
        buffer_flush_interval, buffer_size_bytes;
        // Of statistics.
        ignore stat_prefix;
        refuse common_config, http_service, resource_detectors, filter_state_objects_to_log, custom_tags
    });
    format::formatters(at, formatters)?;
    let body = body.as_ref();
    let words = &mut Words::of(context, wanted);
    let format = OtlpFormat {
        body: body.map(|body| value(&at.field("body"), body, words)).transpose()?,
        attributes: pairs(&at.field("attributes"), attributes.as_ref(), words)?,
    };
    let gathering = Gathering {
        interval: buffer_flush_interval.as_ref(),
        size: buffer_size_bytes.as_ref(),
    };
    let log_name = Some(log_name.as_str()).filter(|_| !disable_builtin_labels);
    let form = Form::OtlpLogs {
        resource: resource(&context.node, log_name, resource_attributes.as_ref()),
    };
    let collector = collector::grpc(context, at, grpc_service.as_ref(), gathering, form)?;
    Ok(Sink::OpenTelemetry {
        format: Box::new(format),
        collector: context.scopes.collector(collector, &message.encode_to_vec()),
    })
}

/// Of what the lines are. A resource and a list of pairs look alike on the wire: pairs are field 1 of both.
/// Labels of Envoy's own stand with the name of the log.
fn resource(node: &Node, log_name: Option<&str>, more: Option<&KeyValueList>) -> Bytes {
    let zone = node.locality.as_ref().map(|locality| locality.zone.as_str());
    let own = log_name.into_iter().flat_map(|log_name| {
        [
            pair("log_name", log_name),
            pair("zone_name", zone.unwrap_or_default()),
            pair("cluster_name", &node.cluster),
            pair("node_name", &node.id),
        ]
    });
    let more = more.into_iter().flat_map(|list| list.values.iter().cloned());
    let list = KeyValueList {
        values: own.chain(more).collect(),
    };
    list.encode_to_vec().into()
}

type Pairs = Box<[(Box<str>, OtlpValue)]>;

fn pairs(at: &At<'_>, list: Option<&KeyValueList>, words: &mut Words<'_>) -> Result<Pairs, Rejection> {
    let members = list.iter().flat_map(|list| &list.values);
    let none = AnyValue::default();
    let members = members.map(|pair| {
        let inner = pair.value.as_ref().unwrap_or(&none);
        Ok((pair.key.as_str().into(), value(&at.field(&pair.key), inner, words)?))
    });
    members.collect()
}

fn value(at: &At<'_>, message: &AnyValue, words: &mut Words<'_>) -> Result<OtlpValue, Rejection> {
    match &message.value {
        Some(Value::StringValue(text)) => Ok(OtlpValue::Text(format::pieces(at, text, words)?.into())),
        Some(Value::ArrayValue(list)) => {
            let elements = list.values.iter().enumerate();
            let elements = elements.map(|(index, element)| value(&at.index(index), element, words));
            Ok(OtlpValue::List(elements.collect::<Result<_, _>>()?))
        }
        Some(Value::KvlistValue(list)) => Ok(OtlpValue::Map(pairs(at, Some(list), words)?)),
        _ => Err(at.error("must be a string, a list or a map of them")),
    }
}

/// Names, and where what they name is kept.
type Places = Box<[(Box<str>, usize)]>;

fn places(at: &At<'_>, list: &[String], names: &mut Vec<HeaderName>) -> Result<Places, Rejection> {
    let places = list.iter().enumerate();
    let places = places.map(|(index, name)| {
        let lower = name.to_ascii_lowercase();
        Ok((lower.as_str().into(), place(&at.index(index), &lower, names)?))
    });
    places.collect()
}

/// Where a field is kept.
fn place(at: &At<'_>, name: &str, names: &mut Vec<HeaderName>) -> Result<usize, Rejection> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| at.error(format!("{name:?} is not a field")))?;
    Ok(crate::config::access_log::place(names, name))
}
