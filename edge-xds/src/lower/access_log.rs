//! Access logs: those of connections that no chain is for, of requests and streams, and of tries.

use super::common::{any, extension};
use crate::wire::{put_generated, put_message, put_str, put_struct_str};
use edge_ir::{AccessLog as Logs, AccessLogger, CollectorRef, LogEntries, LogFormat, LogScope, LogSink, Pairs};
use envoy_types::{
    pb::{
        envoy::{
            config::{
                accesslog::v3::{
                    AccessLog, AccessLogFilter, AndFilter, ExtensionFilter, OrFilter, ResponseFlagFilter,
                    access_log::ConfigType, access_log_filter::FilterSpecifier, extension_filter,
                },
                core::v3::{
                    ApiVersion, GrpcService, HeaderValue, TypedExtensionConfig,
                    grpc_service::{EnvoyGrpc, TargetSpecifier},
                },
            },
            extensions::{
                access_loggers::{
                    file::v3::FileAccessLog,
                    filters::cel::v3::ExpressionFilter,
                    grpc::v3::{CommonGrpcAccessLogConfig, HttpGrpcAccessLogConfig, TcpGrpcAccessLogConfig},
                    open_telemetry::v3::OpenTelemetryAccessLogConfig,
                },
                formatter::{cel::v3::Cel, req_without_query::v3::ReqWithoutQuery},
            },
        },
        opentelemetry::proto::common::v1::{AnyValue, KeyValue, KeyValueList, any_value},
    },
    util::pack_any,
};
use prost::{Message, Name};
use std::sync::Arc;

/// Keys of the default log and what stands for them, in the order of the keys.
pub const FIELDS: [(&str, &str); 24] = [
    (":authority", "%REQ(:AUTHORITY)%"),
    ("bytes_received", "%BYTES_RECEIVED%"),
    ("bytes_sent", "%BYTES_SENT%"),
    ("connection_termination_details", "%CONNECTION_TERMINATION_DETAILS%"),
    ("downstream_local_address", "%DOWNSTREAM_LOCAL_ADDRESS%"),
    ("downstream_remote_address", "%DOWNSTREAM_REMOTE_ADDRESS%"),
    ("duration", "%DURATION%"),
    ("method", "%REQ(:METHOD)%"),
    ("protocol", "%PROTOCOL%"),
    ("requested_server_name", "%REQUESTED_SERVER_NAME%"),
    ("response_code", "%RESPONSE_CODE%"),
    ("response_code_details", "%RESPONSE_CODE_DETAILS%"),
    ("response_flags", "%RESPONSE_FLAGS%"),
    ("route_name", "%ROUTE_NAME%"),
    ("start_time", "%START_TIME%"),
    ("upstream_cluster", "%UPSTREAM_CLUSTER%"),
    ("upstream_host", "%UPSTREAM_HOST%"),
    ("upstream_local_address", "%UPSTREAM_LOCAL_ADDRESS%"),
    (
        "upstream_transport_failure_reason",
        "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
    ),
    ("user-agent", "%REQ(USER-AGENT)%"),
    ("x-edge-origin-path", "%REQ(X-EDGE-ORIGINAL-PATH?:PATH)%"),
    ("x-edge-upstream-service-time", "%RESP(X-EDGE-UPSTREAM-SERVICE-TIME)%"),
    ("x-forwarded-for", "%REQ(X-FORWARDED-FOR)%"),
    ("x-request-id", "%REQ(X-REQUEST-ID)%"),
];

/// Name of the log that a collector of OTLP is told of.
const OTLP_LOG: &str = "otel_envoy_accesslog";

/// `FileAccessLog.path`, `.log_format`.
const PATH: u32 = 1;
const LOG_FORMAT: u32 = 5;
/// `SubstitutionFormatString.json_format`, `.text_format_source`, `.formatters`.
const JSON_FORMAT: u32 = 2;
const TEXT_FORMAT: u32 = 5;
const FORMATTERS: u32 = 6;
/// `DataSource.inline_string`.
const INLINE_STRING: u32 = 3;

/// Where in a listener a log stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogPoint {
    /// At the socket, for connections that no chain is for: there is nobody else to log them.
    Unmatched,
    /// Where requests and streams are handled.
    Requests,
    /// Where requests are sent on.
    Tries,
}

/// The logs that are written there.
pub(super) fn at(point: LogPoint, logs: &Logs) -> Vec<AccessLog> {
    match (logs, point) {
        (Logs::Disabled, _) | (Logs::DefaultJson, LogPoint::Tries) => Vec::new(),
        (Logs::DefaultJson, LogPoint::Requests | LogPoint::Unmatched) => {
            vec![filtered(file("/dev/stdout", &LogFormat::DefaultJson), point, &[])]
        }
        (Logs::Of(loggers), _) => {
            let stands = |logger: &&AccessLogger| match logger.scope {
                LogScope::Everything => point != LogPoint::Tries,
                LogScope::Unmatched => point == LogPoint::Unmatched,
                LogScope::Requests => point == LogPoint::Requests,
                LogScope::Tries => point == LogPoint::Tries,
            };
            let here = loggers.iter().filter(stands);
            here.map(|logger| filtered(sink(&logger.sink), point, &logger.matches))
                .collect()
        }
    }
}

/// A log with what decides which entries it gets.
fn filtered(log: AccessLog, point: LogPoint, matches: &[Arc<str>]) -> AccessLog {
    let unmatched = (point == LogPoint::Unmatched).then(|| {
        FilterSpecifier::ResponseFlagFilter(ResponseFlagFilter {
            flags: vec!["NR".to_owned()],
        })
    });
    let any_of = of_several(matches.iter().map(|expression| holds(expression)), |filters| {
        FilterSpecifier::OrFilter(OrFilter { filters })
    });
    let both = of_several(unmatched.into_iter().chain(any_of), |filters| {
        FilterSpecifier::AndFilter(AndFilter { filters })
    });
    AccessLog {
        filter: both.map(wrapped),
        ..log
    }
}

/// One filter as it is, several as one.
fn of_several(
    filters: impl Iterator<Item = FilterSpecifier>,
    join: impl FnOnce(Vec<AccessLogFilter>) -> FilterSpecifier,
) -> Option<FilterSpecifier> {
    let mut filters: Vec<_> = filters.collect();
    match filters.len() {
        0 | 1 => filters.pop(),
        _ => Some(join(filters.into_iter().map(wrapped).collect())),
    }
}

fn wrapped(filter: FilterSpecifier) -> AccessLogFilter {
    AccessLogFilter {
        filter_specifier: Some(filter),
    }
}

fn holds(expression: &str) -> FilterSpecifier {
    FilterSpecifier::ExtensionFilter(ExtensionFilter {
        name: "envoy.access_loggers.extension_filters.cel".to_owned(),
        config_type: Some(extension_filter::ConfigType::TypedConfig(pack_any(ExpressionFilter {
            expression: expression.to_owned(),
            ..Default::default()
        }))),
    })
}

fn sink(sink: &LogSink) -> AccessLog {
    match sink {
        LogSink::File { path, format } => file(path, format),
        LogSink::Service {
            collector,
            log_name,
            entries,
        } => service(collector, log_name, entries),
        LogSink::OpenTelemetry {
            collector,
            body,
            attributes,
            resource,
        } => {
            let formats = body.iter().chain(attributes.iter().map(|(_, value)| value));
            logger(
                "envoy.access_loggers.open_telemetry",
                OpenTelemetryAccessLogConfig {
                    grpc_service: Some(grpc(collector)),
                    log_name: OTLP_LOG.to_owned(),
                    resource_attributes: Some(values(resource)).filter(|list| !list.values.is_empty()),
                    body: body.as_deref().map(value),
                    attributes: Some(values(attributes)).filter(|list| !list.values.is_empty()),
                    formatters: formatters(formats.map(|format| &**format)),
                    ..Default::default()
                },
            )
        }
    }
}

fn service(collector: &CollectorRef, log_name: &str, entries: &LogEntries) -> AccessLog {
    let common_config = Some(common(collector, log_name));
    let texts = |list: &[Arc<str>]| list.iter().map(|text| text.to_string()).collect();
    match entries {
        LogEntries::Http {
            request_headers,
            response_headers,
            response_trailers,
        } => logger(
            "envoy.access_loggers.http_grpc",
            HttpGrpcAccessLogConfig {
                common_config,
                additional_request_headers_to_log: texts(request_headers),
                additional_response_headers_to_log: texts(response_headers),
                additional_response_trailers_to_log: texts(response_trailers),
            },
        ),
        LogEntries::Tcp => logger(
            "envoy.access_loggers.tcp_grpc",
            TcpGrpcAccessLogConfig { common_config },
        ),
    }
}

fn common(collector: &CollectorRef, log_name: &str) -> CommonGrpcAccessLogConfig {
    CommonGrpcAccessLogConfig {
        log_name: log_name.to_owned(),
        grpc_service: Some(grpc(collector)),
        transport_api_version: ApiVersion::V3.into(),
        ..Default::default()
    }
}

/// A collector as a gRPC service.
pub(super) fn grpc(collector: &CollectorRef) -> GrpcService {
    let header = |(key, value): &(Arc<str>, Arc<str>)| HeaderValue {
        key: key.to_string(),
        value: value.to_string(),
        ..Default::default()
    };
    GrpcService {
        target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
            cluster_name: collector.cluster.to_string(),
            authority: collector.authority.to_string(),
            ..Default::default()
        })),
        initial_metadata: collector.headers.iter().map(header).collect(),
        ..Default::default()
    }
}

fn logger<M: Message + Name>(name: &str, config: M) -> AccessLog {
    let extension = extension(name, config);
    AccessLog {
        name: extension.name,
        config_type: extension.typed_config.map(ConfigType::TypedConfig),
        ..Default::default()
    }
}

fn value(text: &str) -> AnyValue {
    AnyValue {
        value: Some(any_value::Value::StringValue(text.to_owned())),
    }
}

fn values(pairs: &Pairs) -> KeyValueList {
    let pair = |(key, text): &(Arc<str>, Arc<str>)| KeyValue {
        key: key.to_string(),
        value: Some(value(text)),
        ..Default::default()
    };
    KeyValueList {
        values: pairs.iter().map(pair).collect(),
    }
}

/// Operators that a proxy knows by extensions.
fn formatters<'a>(formats: impl Iterator<Item = &'a str> + Clone) -> Vec<TypedExtensionConfig> {
    let uses = |operator: &str| formats.clone().any(|format| format.contains(operator));
    let cel = uses("%CEL(").then(|| extension("envoy.formatter.cel", Cel::default()));
    let request =
        uses("%REQ_WITHOUT_QUERY(").then(|| extension("envoy.formatter.req_without_query", ReqWithoutQuery::default()));
    cel.into_iter().chain(request).collect()
}

/// A log in a file. Written field by field, as a JSON format is a map.
fn file(path: &str, format: &LogFormat) -> AccessLog {
    let mut config = Vec::new();
    put_str(&mut config, PATH, path);
    put_message(&mut config, LOG_FORMAT, |out| {
        let formatters = match format {
            LogFormat::DefaultJson => {
                put_message(out, JSON_FORMAT, |out| {
                    FIELDS.iter().for_each(|(key, value)| put_struct_str(out, key, value));
                });
                Vec::new()
            }
            LogFormat::Json(pairs) => {
                put_message(out, JSON_FORMAT, |out| {
                    pairs.iter().for_each(|(key, value)| put_struct_str(out, key, value));
                });
                formatters(pairs.iter().map(|(_, value)| &**value))
            }
            LogFormat::Text(text) => {
                put_message(out, TEXT_FORMAT, |out| put_str(out, INLINE_STRING, text));
                formatters(std::iter::once(&**text))
            }
        };
        for formatter in &formatters {
            put_generated(out, FORMATTERS, formatter);
        }
    });
    AccessLog {
        name: "envoy.access_loggers.file".to_owned(),
        config_type: Some(ConfigType::TypedConfig(any::<FileAccessLog>(config))),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use envoy_types::pb::{
        envoy::{
            config::core::v3::substitution_format_string::Format,
            extensions::access_loggers::file::v3::file_access_log::AccessLogFormat,
        },
        google::protobuf::value::Kind,
    };
    use prost::Message;

    #[test]
    fn the_hand_written_encoding_reads_back_as_the_message() {
        let Some(ConfigType::TypedConfig(any)) = file("/dev/stdout", &LogFormat::DefaultJson).config_type else {
            panic!("no config")
        };
        let log = FileAccessLog::decode(any.value.as_slice()).unwrap();
        assert_eq!(log.path, "/dev/stdout");
        let Some(AccessLogFormat::LogFormat(format)) = log.access_log_format else {
            panic!("no format")
        };
        let Some(Format::JsonFormat(json)) = format.format else {
            panic!("no JSON format")
        };
        assert_eq!(json.fields.len(), FIELDS.len());
        let method = json.fields["method"].kind.clone();
        assert_eq!(method, Some(Kind::StringValue("%REQ(:METHOD)%".to_owned())));
    }
}
