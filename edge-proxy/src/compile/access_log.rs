//! Access logs of connection managers, proxies and listeners → [`AccessLogs`].
//!
//! A log that can't be written as it is meant (another sink, an operator or a filter that isn't known) is left out, and
//! the proxy's own log says which and why: what is served doesn't depend on it.

mod expression;
mod filter;
mod format;
mod service;

use std::sync::Arc;

use envoy_types::pb::envoy::config::accesslog::v3::AccessLog as ProtoLog;
use envoy_types::pb::envoy::config::accesslog::v3::access_log::ConfigType;
use envoy_types::pb::envoy::config::core::v3::SubstitutionFormatString;
use envoy_types::pb::envoy::extensions::access_loggers::file::v3::FileAccessLog;
use envoy_types::pb::envoy::extensions::access_loggers::file::v3::file_access_log::AccessLogFormat;
use envoy_types::pb::envoy::extensions::access_loggers::grpc::v3::{HttpGrpcAccessLogConfig, TcpGrpcAccessLogConfig};
use envoy_types::pb::envoy::extensions::access_loggers::open_telemetry::v3::OpenTelemetryAccessLogConfig;
use envoy_types::pb::envoy::extensions::access_loggers::stream::v3::stderr_access_log::AccessLogFormat as StderrFormat;
use envoy_types::pb::envoy::extensions::access_loggers::stream::v3::stdout_access_log::AccessLogFormat as StdoutFormat;
use envoy_types::pb::envoy::extensions::access_loggers::stream::v3::{StderrAccessLog, StdoutAccessLog};
use envoy_types::pb::envoy::extensions::filters::http::router::v3::router::UpstreamAccessLogOptions;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::HcmAccessLogOptions;
use envoy_types::pb::google::protobuf::Any;

pub(super) use format::Words;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, is, type_name, unpack};
use crate::config::access_log::{AccessLog, AccessLogs, BodyFormat, CapturedFields, Format, Piece, Sink};

/// Compiles a list of logs; `None` when there are none to be written.
pub(super) fn access_logs(context: &mut Context, at: &At<'_>, list: &[ProtoLog]) -> Option<Arc<AccessLogs>> {
    let mut wanted = CapturedFields::default();
    let mut logs = Vec::with_capacity(list.len());
    for (index, message) in list.iter().enumerate() {
        match log(context, &at.index(index), message, &mut wanted) {
            Ok(log) => logs.push(log),
            Err(rejection) => tracing::warn!(reason = %rejection, "an access log is left out"),
        }
    }
    (!logs.is_empty()).then(|| {
        let logs = logs.into();
        Arc::new(AccessLogs { logs, wanted })
    })
}

/// Compiles the logs of a listener. Only connections that no chain is for are told of there: what becomes of all others
/// is known to whoever serves them, so a log that wants them is left out.
pub(super) fn unmatched(context: &mut Context, at: &At<'_>, list: &[ProtoLog]) -> Option<Arc<AccessLogs>> {
    let (told, others): (Vec<_>, Vec<_>) = list.iter().enumerate().partition(|(_, message)| {
        let filter = message.filter.as_ref();
        filter.is_some_and(filter::is_of_unmatched)
    });
    for (index, _) in others {
        let reason = at.index(index).error("is of connections that a filter chain is for");
        tracing::warn!(%reason, "an access log is left out");
    }
    let told: Vec<_> = told.into_iter().map(|(_, message)| message.clone()).collect();
    access_logs(context, at, &told)
}

/// Compiles the content of a response. It is made before the exchange is over, and says what is known then.
pub(super) fn body(
    context: &Context,
    at: &At<'_>,
    message: &SubstitutionFormatString,
) -> Result<BodyFormat, Rejection> {
    let mut wanted = CapturedFields::default();
    let format = format::substitution(at, message, &mut Words::of(context, &mut wanted))?;
    let tells_course = format::tells_course(&format);
    let logs = Arc::new(AccessLogs {
        logs: Box::default(),
        wanted,
    });
    Ok(BodyFormat {
        format,
        logs,
        tells_course,
    })
}

/// A text about an exchange that is over, in something else than a log.
pub(super) fn text(at: &At<'_>, text: &str, words: &mut Words<'_>) -> Result<Box<[Piece]>, Rejection> {
    format::pieces(at, text, words).map(Into::into)
}

/// Lines before the end of an exchange are not written.
pub(super) fn options(at: &At<'_>, message: Option<&HcmAccessLogOptions>) -> Result<(), Rejection> {
    let Some(message) = message else { return Ok(()) };
    fields!(at, message => HcmAccessLogOptions {
        ;
        ignore;
        refuse access_log_flush_interval, flush_access_log_on_new_request, flush_log_on_tunnel_successfully_established
    });
    Ok(())
}

/// Lines before the end of an attempt are not written.
pub(super) fn of_attempts(at: &At<'_>, message: Option<&UpstreamAccessLogOptions>) -> Result<(), Rejection> {
    let Some(message) = message else { return Ok(()) };
    fields!(at, message => UpstreamAccessLogOptions {
        ;
        ignore;
        refuse flush_upstream_log_on_upstream_stream, upstream_log_flush_interval
    });
    Ok(())
}

fn log(
    context: &mut Context,
    at: &At<'_>,
    message: &ProtoLog,
    wanted: &mut CapturedFields,
) -> Result<AccessLog, Rejection> {
    fields!(at, message => ProtoLog { name, filter, config_type; ignore; refuse });
    let Some(ConfigType::TypedConfig(config)) = config_type else {
        return Err(at.error(format!("access log {name:?} needs typed_config")));
    };
    let at_config = at.field("typed_config");
    let filter = filter::filter(&at.field("filter"), filter.as_ref(), wanted)?;
    if let Some(sink) = service(context, &at_config, config, wanted)? {
        return Ok(AccessLog { filter, sink });
    }
    let words = &mut Words::of(context, wanted);
    let (path, format) = if is::<FileAccessLog>(config) {
        let message: FileAccessLog = unpack(&at_config, config)?;
        let format = of_file(&at_config, &message, words)?;
        (message.path, format)
    } else if is::<StdoutAccessLog>(config) {
        let message: StdoutAccessLog = unpack(&at_config, config)?;
        let format = message.access_log_format.map(|StdoutFormat::LogFormat(format)| format);
        ("/dev/stdout".to_owned(), of_stream(&at_config, format.as_ref(), words)?)
    } else if is::<StderrAccessLog>(config) {
        let message: StderrAccessLog = unpack(&at_config, config)?;
        let format = message.access_log_format.map(|StderrFormat::LogFormat(format)| format);
        ("/dev/stderr".to_owned(), of_stream(&at_config, format.as_ref(), words)?)
    } else {
        let kind = type_name(config);
        return Err(at.error(format!("access log {name:?} ({kind}) is not supported by this proxy")));
    };
    if path.is_empty() {
        return Err(at_config.field("path").error("is required"));
    }
    Ok(AccessLog {
        filter,
        sink: Sink::File {
            format,
            file: context.scopes.log_file(&path),
        },
    })
}

/// A service that takes logs.
fn service(
    context: &mut Context,
    at: &At<'_>,
    config: &Any,
    wanted: &mut CapturedFields,
) -> Result<Option<Sink>, Rejection> {
    Ok(Some(if is::<HttpGrpcAccessLogConfig>(config) {
        service::http(context, at, &unpack(at, config)?, wanted)?
    } else if is::<TcpGrpcAccessLogConfig>(config) {
        service::stream(context, at, &unpack(at, config)?)?
    } else if is::<OpenTelemetryAccessLogConfig>(config) {
        service::otlp(context, at, &unpack(at, config)?, wanted)?
    } else {
        return Ok(None);
    }))
}

#[allow(deprecated)]
fn of_file(at: &At<'_>, message: &FileAccessLog, words: &mut Words<'_>) -> Result<Format, Rejection> {
    match &message.access_log_format {
        None => format::default(at, words),
        Some(AccessLogFormat::Format(text)) if text.is_empty() => format::default(at, words),
        Some(AccessLogFormat::Format(text)) => format::text(&at.field("format"), text, words),
        Some(AccessLogFormat::JsonFormat(document)) => format::json(&at.field("json_format"), document, words),
        Some(AccessLogFormat::TypedJsonFormat(document)) => {
            format::json(&at.field("typed_json_format"), document, words)
        }
        Some(AccessLogFormat::LogFormat(message)) => format::substitution(&at.field("log_format"), message, words),
    }
}

fn of_stream(
    at: &At<'_>,
    message: Option<&SubstitutionFormatString>,
    words: &mut Words<'_>,
) -> Result<Format, Rejection> {
    match message {
        Some(message) => format::substitution(&at.field("log_format"), message, words),
        None => format::default(at, words),
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::accesslog::v3::access_log_filter::FilterSpecifier;
    use envoy_types::pb::envoy::config::accesslog::v3::{AccessLogFilter, TraceableFilter};
    use prost::{Message, Name};

    use super::*;
    use crate::compile::files::Disk;
    use crate::compile::prefixed_headers;

    #[test]
    fn what_cannot_be_written_as_it_is_meant_is_left_out_alone() {
        let file = |path: &str| FileAccessLog {
            path: path.to_owned(),
            access_log_format: None,
        };
        let log = |type_url: String, value: Vec<u8>| ProtoLog {
            config_type: Some(ConfigType::TypedConfig(Any { type_url, value })),
            ..ProtoLog::default()
        };
        let known = log(FileAccessLog::type_url(), file("/a").encode_to_vec());
        let filter = Some(FilterSpecifier::TraceableFilter(TraceableFilter {}));
        let filtered = ProtoLog {
            filter: Some(AccessLogFilter {
                filter_specifier: filter,
            }),
            ..known.clone()
        };
        let others = [
            log("x/other.Sink".to_owned(), Vec::new()),
            filtered,
            ProtoLog::default(),
        ];
        let mut context = Context::new(Box::new(Disk), prefixed_headers("").unwrap(), 1);
        let logs = access_logs(&mut context, &At::root(), &[&others[..], &[known]].concat()).unwrap();
        let [log] = &logs.logs[..] else { panic!("{logs:?}") };
        let Sink::File { file, .. } = &log.sink else {
            panic!("{log:?}")
        };
        assert_eq!(file.path.to_str(), Some("/a"));
        assert!(access_logs(&mut context, &At::root(), &others).is_none());
    }
}
