//! Access logs of connection managers → [`AccessLogs`].
//!
//! A log that can't be written as it is meant (another sink, an operator or a filter that isn't known) is left out, and
//! the proxy's own log says which and why: what is served doesn't depend on it.

mod filter;
mod format;

use std::sync::Arc;

use envoy_types::pb::envoy::config::accesslog::v3::AccessLog as ProtoLog;
use envoy_types::pb::envoy::config::accesslog::v3::access_log::ConfigType;
use envoy_types::pb::envoy::config::core::v3::SubstitutionFormatString;
use envoy_types::pb::envoy::extensions::access_loggers::file::v3::FileAccessLog;
use envoy_types::pb::envoy::extensions::access_loggers::file::v3::file_access_log::AccessLogFormat;
use envoy_types::pb::envoy::extensions::access_loggers::stream::v3::stderr_access_log::AccessLogFormat as StderrFormat;
use envoy_types::pb::envoy::extensions::access_loggers::stream::v3::stdout_access_log::AccessLogFormat as StdoutFormat;
use envoy_types::pb::envoy::extensions::access_loggers::stream::v3::{StderrAccessLog, StdoutAccessLog};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::HcmAccessLogOptions;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, is, type_name, unpack};
use crate::config::access_log::{AccessLog, AccessLogs, BodyFormat, Format, Wanted};

/// Compiles a list of logs; `None` when there are none to be written.
pub(super) fn access_logs(context: &mut Context, at: &At<'_>, list: &[ProtoLog]) -> Option<Arc<AccessLogs>> {
    let mut wanted = Wanted::default();
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

/// Compiles the content of a response. It is made before the exchange is over, so only what is known of request, response
/// and connection then can be said.
pub(super) fn body(at: &At<'_>, message: &SubstitutionFormatString) -> Result<BodyFormat, Rejection> {
    let mut wanted = Wanted::default();
    let format = format::substitution(at, message, &mut wanted)?;
    let Format::Text(pieces, _) = &format else {
        return Err(at.unsupported("json_format"));
    };
    if !pieces.iter().all(format::is_known_early) {
        return Err(at.error("has a substitution command that this proxy doesn't support in content"));
    }
    let logs = Arc::new(AccessLogs {
        logs: Box::default(),
        wanted,
    });
    Ok(BodyFormat { format, logs })
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

fn log(context: &mut Context, at: &At<'_>, message: &ProtoLog, wanted: &mut Wanted) -> Result<AccessLog, Rejection> {
    fields!(at, message => ProtoLog { name, filter, config_type; ignore; refuse });
    let Some(ConfigType::TypedConfig(config)) = config_type else {
        return Err(at.error(format!("access log {name:?} needs typed_config")));
    };
    let at_config = at.field("typed_config");
    let (path, format) = if is::<FileAccessLog>(config) {
        let message: FileAccessLog = unpack(&at_config, config)?;
        let format = of_file(&at_config, &message, wanted)?;
        (message.path, format)
    } else if is::<StdoutAccessLog>(config) {
        let message: StdoutAccessLog = unpack(&at_config, config)?;
        let format = message.access_log_format.map(|StdoutFormat::LogFormat(format)| format);
        (
            "/dev/stdout".to_owned(),
            of_stream(&at_config, format.as_ref(), wanted)?,
        )
    } else if is::<StderrAccessLog>(config) {
        let message: StderrAccessLog = unpack(&at_config, config)?;
        let format = message.access_log_format.map(|StderrFormat::LogFormat(format)| format);
        (
            "/dev/stderr".to_owned(),
            of_stream(&at_config, format.as_ref(), wanted)?,
        )
    } else {
        let kind = type_name(config);
        return Err(at.error(format!("access log {name:?} ({kind}) is not supported by this proxy")));
    };
    if path.is_empty() {
        return Err(at_config.field("path").error("is required"));
    }
    Ok(AccessLog {
        filter: filter::filter(&at.field("filter"), filter.as_ref(), wanted)?,
        format,
        file: context.scopes.log_file(&path),
    })
}

#[allow(deprecated)]
fn of_file(at: &At<'_>, message: &FileAccessLog, wanted: &mut Wanted) -> Result<Format, Rejection> {
    match &message.access_log_format {
        None => format::default(at, wanted),
        Some(AccessLogFormat::Format(text)) if text.is_empty() => format::default(at, wanted),
        Some(AccessLogFormat::Format(text)) => format::text(&at.field("format"), text, wanted),
        Some(AccessLogFormat::JsonFormat(document)) => format::json(&at.field("json_format"), document, wanted),
        Some(AccessLogFormat::TypedJsonFormat(document)) => {
            format::json(&at.field("typed_json_format"), document, wanted)
        }
        Some(AccessLogFormat::LogFormat(message)) => format::substitution(&at.field("log_format"), message, wanted),
    }
}

fn of_stream(
    at: &At<'_>,
    message: Option<&SubstitutionFormatString>,
    wanted: &mut Wanted,
) -> Result<Format, Rejection> {
    match message {
        Some(message) => format::substitution(&at.field("log_format"), message, wanted),
        None => format::default(at, wanted),
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::accesslog::v3::access_log_filter::FilterSpecifier;
    use envoy_types::pb::envoy::config::accesslog::v3::{AccessLogFilter, TraceableFilter};
    use envoy_types::pb::google::protobuf::Any;
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
        let paths: Vec<_> = logs.logs.iter().map(|log| log.file.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["/a"]);
        assert!(access_logs(&mut context, &At::root(), &others).is_none());
    }
}
