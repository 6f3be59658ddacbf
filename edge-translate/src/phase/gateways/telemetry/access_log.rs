//! Access logs as an EdgeProxy asks for them.

use super::{collector::Finder, formats};
use crate::api::Text;
use crate::api::edge_proxy::telemetry::{
    AccessLog as Spec, AccessLogFormat, AccessLogFormatType, AccessLogSetting, AccessLogSink, AccessLogSinkType,
    AccessLogType, AlsAccessLog, AlsType, OpenTelemetryAccessLog,
};
use crate::phase::cel;
use edge_ir::{AccessLog, AccessLogger, AppProtocol, LogEntries, LogFormat, LogScope, LogSink, Pairs};
use std::sync::Arc;

/// Where a File sink without a path writes.
const STDOUT: &str = "/dev/stdout";

/// What was asked for, and what of it can't be honoured.
pub(super) fn access_log(finder: &mut Finder<'_, '_>, spec: &Spec, problems: &mut Vec<String>) -> AccessLog {
    if spec.disable {
        return AccessLog::Disabled;
    }
    let Some(settings) = spec.settings.as_deref().filter(|settings| !settings.is_empty()) else {
        return AccessLog::DefaultJson;
    };
    let mut loggers = Vec::new();
    for (i, setting) in settings.iter().enumerate() {
        match Shared::of(setting) {
            Ok(shared) => loggers_of(finder, i, setting, &shared, &mut loggers, problems),
            // Without its filter or format more would be written than was asked for.
            Err(why) => problems.push(format!("Invalid access log in the referenced EdgeProxy: {why}")),
        }
    }
    AccessLog::Of(loggers)
}

fn invalid(why: &str) -> String {
    format!("Invalid access log backendRefs in the referenced EdgeProxy: {why}")
}

/// What the sinks of a setting have in common.
struct Shared {
    scope: LogScope,
    matches: Vec<Arc<str>>,
    text: Option<Arc<str>>,
    json: Pairs,
}

impl Shared {
    fn of(setting: &AccessLogSetting) -> Result<Self, String> {
        setting
            .matches
            .iter()
            .try_for_each(|expression| cel::check(expression))?;
        let (text, json) = match setting.format.as_deref() {
            Some(format) => parts(format)?,
            None => (None, Pairs::new()),
        };
        Ok(Self {
            scope: match &setting.r#type {
                None => LogScope::Everything,
                Some(AccessLogType::Listener) => LogScope::Unmatched,
                Some(AccessLogType::Route) => LogScope::Requests,
                Some(AccessLogType::Upstream) => LogScope::Tries,
                Some(AccessLogType::Other(other)) => return Err(format!("unsupported access log type {other}")),
            },
            matches: setting
                .matches
                .iter()
                .map(|expression| (&**expression).into())
                .collect(),
            text,
            json,
        })
    }

    fn logger(&self, sink: LogSink) -> AccessLogger {
        AccessLogger {
            scope: self.scope,
            matches: self.matches.clone(),
            sink,
        }
    }
}

/// The text and the JSON of a format.
fn parts(format: &AccessLogFormat) -> Result<(Option<Arc<str>>, Pairs), String> {
    if format.r#type == Some(AccessLogFormatType::Json) && format.json.is_empty() {
        return Err("If AccessLogFormat type is JSON, json field needs to be set".to_owned());
    }
    let (has_text, has_json) = match &format.r#type {
        None => (true, true),
        Some(AccessLogFormatType::Text) => (true, false),
        Some(AccessLogFormatType::Json) => (false, true),
        Some(AccessLogFormatType::Other(other)) => return Err(format!("unsupported access log format {other}")),
    };
    let text = format.text.as_deref().filter(|_| has_text);
    let json = match has_json {
        true => formats::formats(&format.json)?,
        false => Pairs::new(),
    };
    if text.is_none() && json.is_empty() {
        return Err("an access log format has nothing to write".to_owned());
    }
    Ok((text.map(formats::format).transpose()?, json))
}

fn loggers_of(
    finder: &mut Finder<'_, '_>,
    i: usize,
    setting: &AccessLogSetting,
    shared: &Shared,
    loggers: &mut Vec<AccessLogger>,
    problems: &mut Vec<String>,
) {
    for (j, sink) in setting.sinks.iter().enumerate() {
        let place = format!("{i}_{j}");
        match sinks(finder, &place, sink, shared) {
            Ok(sinks) => loggers.extend(sinks.into_iter().map(|sink| shared.logger(sink))),
            Err(why) => problems.push(invalid(&why)),
        }
    }
}

/// What becomes of a sink: mostly one; a file gets an entry in each form that is asked for.
fn sinks(
    finder: &mut Finder<'_, '_>,
    place: &str,
    sink: &AccessLogSink,
    shared: &Shared,
) -> Result<Vec<LogSink>, String> {
    match (&sink.r#type, &sink.file, &sink.als, &sink.open_telemetry) {
        (AccessLogSinkType::File, Some(file), ..) => {
            let text = shared.text.clone().map(LogFormat::Text);
            let json = (!shared.json.is_empty()).then(|| LogFormat::Json(shared.json.clone()));
            let mut formats: Vec<_> = text.into_iter().chain(json).collect();
            if formats.is_empty() {
                formats.push(LogFormat::DefaultJson);
            }
            let path = file.path.as_deref().unwrap_or(STDOUT);
            if path.is_empty() {
                return Err("path must not be empty".to_owned());
            }
            let formats = formats.into_iter();
            Ok(formats
                .map(|format| LogSink::File {
                    path: path.into(),
                    format,
                })
                .collect())
        }
        (AccessLogSinkType::Als, _, Some(als), _) => Ok(vec![service(finder, place, als)?]),
        (AccessLogSinkType::OpenTelemetry, .., Some(otlp)) => Ok(vec![open_telemetry(finder, place, otlp, shared)?]),
        (AccessLogSinkType::Other(other), ..) => Err(format!("unsupported access log sink type {other}")),
        // The EdgeProxy as a whole says that a field is missing.
        _ => Ok(Vec::new()),
    }
}

fn service(finder: &mut Finder<'_, '_>, place: &str, als: &AlsAccessLog) -> Result<LogSink, String> {
    let texts = |list: &[Text]| list.iter().map(|text| Arc::from(&**text)).collect();
    let http = als.http.as_deref();
    let entries = match (&als.r#type, http) {
        (AlsType::Http, http) => LogEntries::Http {
            request_headers: http.map(|http| texts(&http.request_headers)).unwrap_or_default(),
            response_headers: http.map(|http| texts(&http.response_headers)).unwrap_or_default(),
            response_trailers: http.map(|http| texts(&http.response_trailers)).unwrap_or_default(),
        },
        (AlsType::Tcp, None) => LogEntries::Tcp,
        (AlsType::Tcp, Some(_)) => return Err("The http field may only be set when type is HTTP.".to_owned()),
        (AlsType::Other(other), _) => return Err(format!("unsupported type {other} of an access log service")),
    };
    let log_name = match als.log_name.as_deref() {
        Some("") => return Err("logName must not be empty".to_owned()),
        given => given.unwrap_or(finder.fleet).into(),
    };
    let name = format!("accesslog_als_{place}");
    Ok(LogSink::Service {
        collector: finder.collector(&name, AppProtocol::Http2, als.backends(), None, Pairs::new())?,
        log_name,
        entries,
    })
}

fn open_telemetry(
    finder: &mut Finder<'_, '_>,
    place: &str,
    otlp: &OpenTelemetryAccessLog,
    shared: &Shared,
) -> Result<LogSink, String> {
    let resource = match otlp.resource_attributes.is_empty() {
        true => formats::pairs(&otlp.resources),
        false => formats::pairs(&otlp.resource_attributes),
    };
    let headers = formats::headers(&otlp.headers)?;
    let name = format!("accesslog_otel_{place}");
    Ok(LogSink::OpenTelemetry {
        collector: finder.collector(&name, AppProtocol::Http2, otlp.backends(), otlp.address(), headers)?,
        body: shared.text.clone(),
        attributes: shared.json.clone(),
        resource,
    })
}
