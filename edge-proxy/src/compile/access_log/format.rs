//! Formats of logs: texts and JSON documents with command operators.

#[cfg(test)]
mod tests;

use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::substitution_format_string::Format as Kind;
use envoy_types::pb::envoy::config::core::v3::{SubstitutionFormatString, TypedExtensionConfig};
use envoy_types::pb::google::protobuf::value::Kind as ValueKind;
use envoy_types::pb::google::protobuf::{Struct, Value};

use crate::compile::Context;
use crate::compile::access_log::expression;
use crate::compile::command::{self, Command, FieldNames};
use crate::compile::field::{At, Rejection, fields};
use crate::compile::files::Files;
use crate::compile::template::header_field;
use crate::config::access::MetadataPath;
use crate::config::access_log::{
    Absent, AddressOf, AddressPart, CapturedFields, FieldOf, Format, GrpcForm, Json, Moment, Named, OfSession,
    Operator, PeerPart, Piece, Query, TimePart, place,
};
use crate::config::header::HeaderField;
use crate::config::http_manager::PrefixedHeaders;

/// What formats know beside their text.
pub(in crate::compile) struct Words<'a> {
    /// The fields that they ask for.
    wanted: &'a mut CapturedFields,
    files: &'a dyn Files,
    prefixed: &'a PrefixedHeaders,
}

impl<'a> Words<'a> {
    /// Those of a list of formats that want these fields.
    pub(in crate::compile) fn of(context: &'a Context, wanted: &'a mut CapturedFields) -> Self {
        Self {
            wanted,
            files: &*context.files,
            prefixed: &context.prefixed,
        }
    }
}

/// Envoy's own.
const DEFAULT: &str = "[%START_TIME%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%\" \
    %RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% \
    \"%REQ(X-FORWARDED-FOR)%\" \"%REQ(USER-AGENT)%\" \"%REQ(X-REQUEST-ID)%\" \"%REQ(:AUTHORITY)%\" \
    \"%UPSTREAM_HOST%\"\n";

/// Where a proxy of datagrams keeps what it knows of a session.
const SESSION: &str = "udp.proxy.session:";

/// How `%START_TIME%` is written when nothing says how.
const DEFAULT_TIME: &str = "%Y-%m-%dT%H:%M:%S.%3fZ";

/// How the times of certificates are.
const DEFAULT_VALIDITY: &str = "%Y-%m-%dT%H:%M:%S.000Z";

/// The format of a log that names none.
pub(super) fn default(at: &At<'_>, words: &mut Words<'_>) -> Result<Format, Rejection> {
    text(at, DEFAULT, words)
}

/// A text.
pub(super) fn text(at: &At<'_>, text: &str, words: &mut Words<'_>) -> Result<Format, Rejection> {
    Ok(Format::Text(pieces(at, text, words)?.into(), Absent::Shown))
}

/// A JSON document.
pub(super) fn json(at: &At<'_>, document: &Struct, words: &mut Words<'_>) -> Result<Format, Rejection> {
    Ok(Format::Json(object(at, document, words)?, Absent::Shown))
}

/// What Envoy calls a substitution format.
#[allow(deprecated)]
pub(super) fn substitution(
    at: &At<'_>,
    message: &SubstitutionFormatString,
    words: &mut Words<'_>,
) -> Result<Format, Rejection> {
    fields!(at, message => SubstitutionFormatString {
        omit_empty_values, formatters, format;
        // Of bodies; and members are sorted in any case.
        ignore content_type, json_format_options;
        refuse
    });
    self::formatters(at, formatters)?;
    let absent = match omit_empty_values {
        true => Absent::Omitted,
        false => Absent::Shown,
    };
    match format {
        Some(Kind::TextFormat(text)) => Ok(Format::Text(
            pieces(&at.field("text_format"), text, words)?.into(),
            absent,
        )),
        Some(Kind::TextFormatSource(source)) => {
            let at = at.field("text_format_source");
            let Some(Specifier::InlineString(text)) = &source.specifier else {
                return Err(at.error("only inline_string is supported by this proxy"));
            };
            Ok(Format::Text(
                pieces(&at.field("inline_string"), text, words)?.into(),
                absent,
            ))
        }
        Some(Kind::JsonFormat(document)) => {
            Ok(Format::Json(object(&at.field("json_format"), document, words)?, absent))
        }
        None => Err(at.error("a format is required")),
    }
}

/// Extensions that operators come from.
pub(super) fn formatters(at: &At<'_>, list: &[TypedExtensionConfig]) -> Result<(), Rejection> {
    let at = at.field("formatters");
    for (index, formatter) in list.iter().enumerate() {
        // Their operators are known without.
        if !matches!(
            &*formatter.name,
            "envoy.formatter.req_without_query" | "envoy.formatter.cel"
        ) {
            let name = &formatter.name;
            return Err(at
                .index(index)
                .error(format!("formatter {name:?} is not supported by this proxy")));
        }
    }
    Ok(())
}

/// Whether a format tells of more than heads, connection and clock: of what has become of the request.
pub(super) fn tells_course(format: &Format) -> bool {
    match format {
        Format::Text(pieces, _) => pieces.iter().any(piece_tells_course),
        Format::Json(document, _) => json_tells_course(document),
    }
}

fn json_tells_course(document: &Json) -> bool {
    match document {
        Json::Literal(_) => false,
        Json::Value(operator) => operator_tells_course(operator),
        Json::Text(pieces) => pieces.iter().any(piece_tells_course),
        Json::List(elements) => elements.iter().any(json_tells_course),
        Json::Object(members) => members.iter().any(|(_, member)| json_tells_course(member)),
    }
}

fn piece_tells_course(piece: &Piece) -> bool {
    match piece {
        Piece::Text(_) => false,
        Piece::Value(operator) => operator_tells_course(operator),
    }
}

fn operator_tells_course(operator: &Operator) -> bool {
    match operator {
        Operator::Request(_)
        | Operator::Response(_)
        | Operator::StartTime(_)
        | Operator::EmitTime(_)
        | Operator::Protocol
        | Operator::ResponseCode
        | Operator::ServerName
        | Operator::ListenerName
        | Operator::ChainName
        | Operator::Hostname
        | Operator::TlsVersion
        | Operator::TlsCipher
        | Operator::Peer(_)
        | Operator::PeerFrom(_)
        | Operator::PeerUntil(_)
        | Operator::Nothing => false,
        Operator::Address(of, _) => !matches!(
            of,
            AddressOf::Client | AddressOf::Peer | AddressOf::Local | AddressOf::DirectLocal
        ),
        _ => true,
    }
}

/// Members are written in the order of their names, as Envoy writes them.
fn object(at: &At<'_>, document: &Struct, words: &mut Words<'_>) -> Result<Json, Rejection> {
    let mut members: Vec<_> = document.fields.iter().collect();
    members.sort_by_key(|(name, _)| *name);
    let members = members.into_iter().map(|(name, member)| {
        let key = format!(",{}:", serde_json::Value::from(name.as_str()));
        Ok((key.into(), value(&at.field(name), member, words)?))
    });
    Ok(Json::Object(members.collect::<Result<_, Rejection>>()?))
}

fn value(at: &At<'_>, message: &Value, words: &mut Words<'_>) -> Result<Json, Rejection> {
    Ok(match &message.kind {
        None | Some(ValueKind::NullValue(_)) => Json::Literal("null".into()),
        Some(ValueKind::BoolValue(truth)) => Json::Literal(truth.to_string().into()),
        Some(ValueKind::NumberValue(number)) => Json::Literal(number.to_string().into()),
        Some(ValueKind::StringValue(text)) => {
            let mut pieces = pieces(at, text, words)?;
            match pieces.pop() {
                None => Json::Literal("\"\"".into()),
                Some(Piece::Value(only)) if pieces.is_empty() => Json::Value(only),
                Some(Piece::Text(only)) if pieces.is_empty() => {
                    Json::Literal(serde_json::Value::from(&*only).to_string().into())
                }
                Some(last) => {
                    pieces.push(last);
                    Json::Text(pieces.into())
                }
            }
        }
        Some(ValueKind::StructValue(document)) => object(at, document, words)?,
        Some(ValueKind::ListValue(list)) => {
            let elements = list.values.iter().enumerate();
            let elements = elements.map(|(index, element)| value(&at.index(index), element, words));
            Json::List(elements.collect::<Result<_, _>>()?)
        }
    })
}

/// Texts with operators.
pub(super) fn pieces(at: &At<'_>, text: &str, words: &mut Words<'_>) -> Result<Vec<Piece>, Rejection> {
    let cut = command::pieces(at, text)?.into_iter();
    let pieces = cut.map(|piece| match piece {
        command::Piece::Text(plain) => Ok(Piece::Text(plain)),
        command::Piece::Command(Command {
            name: "ENVIRONMENT",
            argument: Some(name),
            tail,
            ..
        }) => environment(at, name, tail, words).map(Piece::Text),
        command::Piece::Command(command) => operator(at, command, words).map(Piece::Value),
    });
    pieces.collect()
}

fn operator(at: &At<'_>, command: Command<'_>, words: &mut Words<'_>) -> Result<Operator, Rejection> {
    let text = command.text;
    let unknown = || at.error(format!("command operator %{text}% is not supported by this proxy"));
    let field = |argument, query, names| field(at, command.field_names(at, argument)?, query, names);
    Ok(match (command.name, command.argument) {
        ("REQ" | "REQUEST_HEADER", Some(argument)) => {
            Operator::Request(field(argument, Query::Kept, &mut words.wanted.request)?)
        }
        ("REQ_WITHOUT_QUERY", Some(argument)) => {
            Operator::Request(field(argument, Query::Cut, &mut words.wanted.request)?)
        }
        ("RESP" | "RESPONSE_HEADER", Some(argument)) => {
            Operator::Response(field(argument, Query::Kept, &mut words.wanted.response)?)
        }
        ("TRAILER" | "RESPONSE_TRAILER", Some(argument)) => {
            Operator::Trailer(field(argument, Query::Kept, &mut words.wanted.trailers)?)
        }
        ("DYNAMIC_METADATA", Some(argument)) if argument.starts_with(SESSION) => of_session(argument),
        ("DYNAMIC_METADATA", Some(argument)) => metadata(argument, command.tail).ok_or_else(unknown)?,
        // Nothing in this proxy has any.
        ("FILTER_STATE" | "UPSTREAM_FILTER_STATE", Some(_)) => Operator::Nothing,
        ("PATH", argument) => path(argument.unwrap_or_default(), command.tail, words).ok_or_else(unknown)?,
        ("CEL", Some(_)) => expression::operator(at, text, words.wanted)?,
        (_, _) if !command.tail.is_empty() => return Err(unknown()),
        ("START_TIME", format) => Operator::StartTime(time(at, format.unwrap_or(DEFAULT_TIME))?),
        ("EMIT_TIME", format) => Operator::EmitTime(time(at, format.unwrap_or(DEFAULT_TIME))?),
        ("DOWNSTREAM_PEER_CERT_V_START", format) => Operator::PeerFrom(time(at, format.unwrap_or(DEFAULT_VALIDITY))?),
        ("DOWNSTREAM_PEER_CERT_V_END", format) => Operator::PeerUntil(time(at, format.unwrap_or(DEFAULT_VALIDITY))?),
        ("GRPC_STATUS", form) => {
            let form = match form {
                None | Some("CAMEL_STRING") => GrpcForm::Camel,
                Some("SNAKE_STRING") => GrpcForm::Snake,
                Some("NUMBER") => GrpcForm::Number,
                Some(_) => return Err(unknown()),
            };
            Operator::GrpcStatus(form, words.wanted.of_call())
        }
        ("GRPC_STATUS_NUMBER", None) => Operator::GrpcStatus(GrpcForm::Number, words.wanted.of_call()),
        ("COMMON_DURATION", Some(argument)) => common_duration(argument).ok_or_else(unknown)?,
        (name, None) => plain(name)
            .or_else(|| of_tls(name))
            .or_else(|| address(name))
            .ok_or_else(unknown)?,
        _ => return Err(unknown()),
    })
}

/// The value of a variable, which stays as it is as long as the proxy runs.
fn environment(at: &At<'_>, name: &str, tail: &str, words: &Words<'_>) -> Result<Box<str>, Rejection> {
    let value = words.files.variable(name).unwrap_or_else(|| "-".to_owned());
    let most = match tail.strip_prefix(':') {
        Some(most) => most
            .parse()
            .map_err(|_| at.error(format!("{most:?} is not a length")))?,
        None if tail.is_empty() => usize::MAX,
        None => return Err(at.error(format!("{tail:?} does not belong behind a variable"))),
    };
    Ok(value.chars().take(most).collect())
}

/// `%PATH%`: with its query or without (`NQ`), as it came, as it is, or as it came where it was rewritten.
fn path(argument: &str, tail: &str, words: &mut Words<'_>) -> Option<Operator> {
    let (query, which) = argument.split_once(':').unwrap_or((argument, ""));
    let original = place(&mut words.wanted.request, words.prefixed.original_path.clone());
    let (first, second) = match which {
        "ORIG" => (Named::Field(original), None),
        "PATH" => (Named::Path, None),
        "" | "ORIG_OR_PATH" => (Named::Field(original), Some(Named::Path)),
        _ => return None,
    };
    let max_len = match tail.strip_prefix(':') {
        Some(most) => Some(most.parse().ok()?),
        None => tail.is_empty().then_some(None)?,
    };
    Some(Operator::Request(FieldOf {
        first,
        second,
        max_len,
        query: match query {
            "" | "WQ" => Query::Kept,
            "NQ" => Query::Cut,
            _ => return None,
        },
    }))
}

/// `filter:key:key`, with a length behind it.
fn metadata(argument: &str, tail: &str) -> Option<Operator> {
    let mut parts = argument.split(':');
    let filter = parts.next()?.into();
    let most = match tail.strip_prefix(':') {
        Some(most) => Some(most.parse().ok()?),
        None => tail.is_empty().then_some(None)?,
    };
    let path = parts.map(Into::into).collect();
    Some(Operator::Metadata(Box::new(MetadataPath { filter, path }), most))
}

/// What a proxy of datagrams knows of a session.
fn of_session(argument: &str) -> Operator {
    Operator::Session(match argument.strip_prefix(SESSION) {
        Some("cluster_name") => OfSession::Cluster,
        Some("bytes_received") => OfSession::BytesReceived,
        Some("bytes_sent") => OfSession::BytesSent,
        Some("datagrams_received") => OfSession::DatagramsReceived,
        Some("datagrams_sent") => OfSession::DatagramsSent,
        Some("errors_sent") => OfSession::ErrorsSent,
        _ => return Operator::Nothing,
    })
}

/// Operators without an argument, except addresses.
fn plain(name: &str) -> Option<Operator> {
    let millis = |from, to| Operator::Duration(from, to, 1_000);
    Some(match name {
        "DURATION" => millis(Moment::Begun, Moment::Told),
        "REQUEST_DURATION" => millis(Moment::Begun, Moment::RequestRead),
        "RESPONSE_DURATION" => millis(Moment::Begun, Moment::Answered),
        "RESPONSE_TX_DURATION" => millis(Moment::Answered, Moment::Over),
        "PROTOCOL" => Operator::Protocol,
        "RESPONSE_CODE" => Operator::ResponseCode,
        "RESPONSE_CODE_DETAILS" => Operator::ResponseCodeDetails,
        "RESPONSE_FLAGS" => Operator::ResponseFlags,
        "RESPONSE_FLAGS_LONG" => Operator::ResponseFlagsLong,
        "BYTES_RECEIVED" => Operator::BytesReceived,
        "BYTES_SENT" => Operator::BytesSent,
        "ROUTE_NAME" => Operator::RouteName,
        "UPSTREAM_CLUSTER" | "UPSTREAM_CLUSTER_RAW" => Operator::UpstreamCluster,
        "UPSTREAM_HOST_NAME" => Operator::UpstreamHostName,
        "UPSTREAM_PROTOCOL" => Operator::UpstreamProtocol,
        "UPSTREAM_REQUEST_ATTEMPT_COUNT" => Operator::UpstreamAttempts,
        "UPSTREAM_TRANSPORT_FAILURE_REASON" => Operator::UpstreamFailure,
        "REQUESTED_SERVER_NAME" => Operator::ServerName,
        "LISTENER_NAME" => Operator::ListenerName,
        "FILTER_CHAIN_NAME" => Operator::ChainName,
        "ACCESS_LOG_TYPE" => Operator::LogType,
        "HOSTNAME" => Operator::Hostname,
        "TRACE_ID" => Operator::TraceId,
        "SPAN_ID" => Operator::SpanId,
        "CONNECTION_TERMINATION_DETAILS" => Operator::Termination,
        // Of virtual clusters and handshakes of clients that never became a request: nothing in this proxy sets them.
        "VIRTUAL_CLUSTER_NAME" | "DOWNSTREAM_TRANSPORT_FAILURE_REASON" => Operator::Nothing,
        _ => return None,
    })
}

/// Operators about a client's TLS.
fn of_tls(name: &str) -> Option<Operator> {
    Some(match name {
        "DOWNSTREAM_TLS_VERSION" => Operator::TlsVersion,
        "DOWNSTREAM_TLS_CIPHER" => Operator::TlsCipher,
        "DOWNSTREAM_PEER_SUBJECT" => Operator::Peer(PeerPart::Subject),
        "DOWNSTREAM_PEER_ISSUER" => Operator::Peer(PeerPart::Issuer),
        "DOWNSTREAM_PEER_SERIAL" => Operator::Peer(PeerPart::Serial),
        "DOWNSTREAM_PEER_FINGERPRINT_256" => Operator::Peer(PeerPart::Fingerprint),
        "DOWNSTREAM_PEER_CERT" => Operator::Peer(PeerPart::Pem),
        "DOWNSTREAM_PEER_URI_SAN" => Operator::Peer(PeerPart::Uris),
        "DOWNSTREAM_PEER_DNS_SAN" => Operator::Peer(PeerPart::Hosts),
        "DOWNSTREAM_PEER_IP_SAN" => Operator::Peer(PeerPart::Addresses),
        "DOWNSTREAM_PEER_EMAIL_SAN" => Operator::Peer(PeerPart::Mailboxes),
        _ => return None,
    })
}

fn address(name: &str) -> Option<Operator> {
    let of = |name| {
        Some(match name {
            "DOWNSTREAM_REMOTE" => AddressOf::Client,
            "DOWNSTREAM_DIRECT_REMOTE" => AddressOf::Peer,
            "DOWNSTREAM_LOCAL" => AddressOf::Local,
            "DOWNSTREAM_DIRECT_LOCAL" => AddressOf::DirectLocal,
            "UPSTREAM_REMOTE" => AddressOf::Connected,
            "UPSTREAM_LOCAL" => AddressOf::ToBackend,
            _ => return None,
        })
    };
    let (whose, part) = if name == "UPSTREAM_HOST" {
        (AddressOf::Backend, AddressPart::Whole)
    } else if let Some(whose) = name.strip_suffix("_ADDRESS_WITHOUT_PORT") {
        (of(whose)?, AddressPart::WithoutPort)
    } else if let Some(whose) = name.strip_suffix("_ADDRESS") {
        (of(whose)?, AddressPart::Whole)
    } else {
        (of(name.strip_suffix("_PORT")?)?, AddressPart::Port)
    };
    Some(Operator::Address(whose, part))
}

/// `start:end`, or `start:end:precision`.
fn common_duration(argument: &str) -> Option<Operator> {
    let mut parts = argument.split(':');
    let mut moment = || {
        Some(match parts.next()? {
            "DS_RX_BEG" => Moment::Begun,
            "DS_RX_END" => Moment::RequestRead,
            "US_TX_BEG" => Moment::Sent,
            "US_RX_BEG" => Moment::Answered,
            "DS_TX_END" => Moment::Over,
            _ => return None,
        })
    };
    let (from, to) = (moment()?, moment()?);
    let per_second = match parts.next() {
        None | Some("ms") => 1_000,
        Some("us") => 1_000_000,
        Some("ns") => 1_000_000_000,
        Some(_) => return None,
    };
    parts
        .next()
        .is_none()
        .then_some(Operator::Duration(from, to, per_second))
}

fn field(
    at: &At<'_>,
    asked: FieldNames<'_>,
    query: Query,
    names: &mut Vec<http::HeaderName>,
) -> Result<FieldOf, Rejection> {
    let mut named = |name: &str| named(at, name, names);
    Ok(FieldOf {
        first: named(asked.first)?,
        second: asked.second.map(named).transpose()?,
        max_len: asked.max_len,
        query,
    })
}

fn named(at: &At<'_>, name: &str, names: &mut Vec<http::HeaderName>) -> Result<Named, Rejection> {
    if name == ":status" || name == ":STATUS" {
        return Ok(Named::Status);
    }
    Ok(match header_field(at, name)? {
        HeaderField::Method => Named::Method,
        HeaderField::Path => Named::Path,
        HeaderField::Authority => Named::Authority,
        HeaderField::Scheme => Named::Scheme,
        HeaderField::Named(name) => Named::Field(place(names, name)),
    })
}

/// A format of times, as strftime has it, with `%3f` and `%E3S` for fractions.
fn time(at: &At<'_>, format: &str) -> Result<Box<[TimePart]>, Rejection> {
    let mut parts = Vec::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        if !before.is_empty() {
            parts.push(TimePart::Text(before.into()));
        }
        let unknown = || at.error(format!("%{after} in a format of times is not supported by this proxy"));
        let mut chars = after.chars();
        let text = |text: &str| TimePart::Text(text.into());
        match chars.next().ok_or_else(unknown)? {
            '%' => parts.push(text("%")),
            'Y' => parts.push(TimePart::Year),
            'm' => parts.push(TimePart::Month),
            'b' | 'h' => parts.push(TimePart::MonthName),
            'd' => parts.push(TimePart::Day),
            'e' => parts.push(TimePart::DaySpaced),
            'j' => parts.push(TimePart::DayOfYear),
            'a' => parts.push(TimePart::Weekday),
            'H' => parts.push(TimePart::Hour),
            'M' => parts.push(TimePart::Minute),
            'S' => parts.push(TimePart::Second),
            's' => parts.push(TimePart::Epoch),
            'F' => parts.extend([TimePart::Year, text("-"), TimePart::Month, text("-"), TimePart::Day]),
            'T' => parts.extend([TimePart::Hour, text(":"), TimePart::Minute, text(":"), TimePart::Second]),
            'z' => parts.push(text("+0000")),
            'Z' => parts.push(text("UTC")),
            'f' => parts.push(TimePart::Fraction(9)),
            digit @ '1'..='9' if chars.next() == Some('f') => {
                parts.push(TimePart::Fraction(digit.to_digit(10).unwrap_or(9)));
            }
            'E' => match (chars.next(), chars.next()) {
                (Some(digit @ '1'..='9'), Some('S')) => parts.extend([
                    TimePart::Second,
                    text("."),
                    TimePart::Fraction(digit.to_digit(10).unwrap_or(9)),
                ]),
                _ => return Err(unknown()),
            },
            _ => return Err(unknown()),
        }
        rest = chars.as_str();
    }
    if !rest.is_empty() {
        parts.push(TimePart::Text(rest.into()));
    }
    Ok(parts.into())
}
