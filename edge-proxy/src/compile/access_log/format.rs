//! Formats of logs: texts and JSON documents with command operators.

use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::substitution_format_string::Format as Kind;
use envoy_types::pb::envoy::config::core::v3::{SubstitutionFormatString, TypedExtensionConfig};
use envoy_types::pb::google::protobuf::value::Kind as ValueKind;
use envoy_types::pb::google::protobuf::{Struct, Value};

use crate::compile::command::{self, Command, FieldNames};
use crate::compile::field::{At, Rejection, fields};
use crate::compile::template::header_field;
use crate::config::access_log::{
    Absent, AddressOf, AddressPart, FieldOf, Format, Json, Moment, Named, OfSession, Operator, Piece, Query, TimePart,
    Wanted,
};
use crate::config::header::HeaderField;

/// Envoy's own.
const DEFAULT: &str = "[%START_TIME%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%\" \
    %RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% \
    \"%REQ(X-FORWARDED-FOR)%\" \"%REQ(USER-AGENT)%\" \"%REQ(X-REQUEST-ID)%\" \"%REQ(:AUTHORITY)%\" \
    \"%UPSTREAM_HOST%\"\n";

/// Where a proxy of datagrams keeps what it knows of a session.
const SESSION: &str = "udp.proxy.session:";

/// How `%START_TIME%` is written when nothing says how.
const DEFAULT_TIME: &str = "%Y-%m-%dT%H:%M:%S.%3fZ";

/// The format of a log that names none.
pub(super) fn default(at: &At<'_>, wanted: &mut Wanted) -> Result<Format, Rejection> {
    text(at, DEFAULT, wanted)
}

/// A text.
pub(super) fn text(at: &At<'_>, text: &str, wanted: &mut Wanted) -> Result<Format, Rejection> {
    Ok(Format::Text(pieces(at, text, wanted)?.into(), Absent::Shown))
}

/// A JSON document.
pub(super) fn json(at: &At<'_>, document: &Struct, wanted: &mut Wanted) -> Result<Format, Rejection> {
    Ok(Format::Json(object(at, document, wanted)?, Absent::Shown))
}

/// What Envoy calls a substitution format.
#[allow(deprecated)]
pub(super) fn substitution(
    at: &At<'_>,
    message: &SubstitutionFormatString,
    wanted: &mut Wanted,
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
            pieces(&at.field("text_format"), text, wanted)?.into(),
            absent,
        )),
        Some(Kind::TextFormatSource(source)) => {
            let at = at.field("text_format_source");
            let Some(Specifier::InlineString(text)) = &source.specifier else {
                return Err(at.error("only inline_string is supported by this proxy"));
            };
            Ok(Format::Text(
                pieces(&at.field("inline_string"), text, wanted)?.into(),
                absent,
            ))
        }
        Some(Kind::JsonFormat(document)) => Ok(Format::Json(
            object(&at.field("json_format"), document, wanted)?,
            absent,
        )),
        None => Err(at.error("a format is required")),
    }
}

/// Extensions that operators come from.
pub(super) fn formatters(at: &At<'_>, list: &[TypedExtensionConfig]) -> Result<(), Rejection> {
    let at = at.field("formatters");
    for (index, formatter) in list.iter().enumerate() {
        // Its one operator is known without.
        if formatter.name != "envoy.formatter.req_without_query" {
            let name = &formatter.name;
            return Err(at
                .index(index)
                .error(format!("formatter {name:?} is not supported by this proxy")));
        }
    }
    Ok(())
}

/// Whether a piece can be written while the exchange goes on.
pub(super) fn is_known_early(piece: &Piece) -> bool {
    match piece {
        Piece::Text(_) => true,
        Piece::Value(operator) => match operator {
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
            | Operator::Nothing => true,
            Operator::Address(of, _) => matches!(of, AddressOf::Client | AddressOf::Peer | AddressOf::Local),
            _ => false,
        },
    }
}

/// Members are written in the order of their names, as Envoy writes them.
fn object(at: &At<'_>, document: &Struct, wanted: &mut Wanted) -> Result<Json, Rejection> {
    let mut members: Vec<_> = document.fields.iter().collect();
    members.sort_by_key(|(name, _)| *name);
    let members = members.into_iter().map(|(name, member)| {
        let key = format!("{}:", serde_json::Value::from(name.as_str()));
        Ok((key.into(), value(&at.field(name), member, wanted)?))
    });
    Ok(Json::Object(members.collect::<Result<_, Rejection>>()?))
}

fn value(at: &At<'_>, message: &Value, wanted: &mut Wanted) -> Result<Json, Rejection> {
    Ok(match &message.kind {
        None | Some(ValueKind::NullValue(_)) => Json::Literal("null".into()),
        Some(ValueKind::BoolValue(truth)) => Json::Literal(truth.to_string().into()),
        Some(ValueKind::NumberValue(number)) => Json::Literal(number.to_string().into()),
        Some(ValueKind::StringValue(text)) => {
            let mut pieces = pieces(at, text, wanted)?;
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
        Some(ValueKind::StructValue(document)) => object(at, document, wanted)?,
        Some(ValueKind::ListValue(list)) => {
            let elements = list.values.iter().enumerate();
            let elements = elements.map(|(index, element)| value(&at.index(index), element, wanted));
            Json::List(elements.collect::<Result<_, _>>()?)
        }
    })
}

/// Texts with operators.
pub(super) fn pieces(at: &At<'_>, text: &str, wanted: &mut Wanted) -> Result<Vec<Piece>, Rejection> {
    let cut = command::pieces(at, text)?.into_iter();
    let pieces = cut.map(|piece| match piece {
        command::Piece::Text(plain) => Ok(Piece::Text(plain)),
        command::Piece::Command(command) => operator(at, command, wanted).map(Piece::Value),
    });
    pieces.collect()
}

fn operator(at: &At<'_>, command: Command<'_>, wanted: &mut Wanted) -> Result<Operator, Rejection> {
    let text = command.text;
    let unknown = || at.error(format!("command operator %{text}% is not supported by this proxy"));
    let field = |argument, query, names| field(at, command.field_names(at, argument)?, query, names);
    Ok(match (command.name, command.argument) {
        ("REQ" | "REQUEST_HEADER", Some(argument)) => {
            Operator::Request(field(argument, Query::Kept, &mut wanted.request)?)
        }
        ("REQ_WITHOUT_QUERY", Some(argument)) => Operator::Request(field(argument, Query::Cut, &mut wanted.request)?),
        ("RESP" | "RESPONSE_HEADER", Some(argument)) => {
            Operator::Response(field(argument, Query::Kept, &mut wanted.response)?)
        }
        ("TRAILER" | "RESPONSE_TRAILER", Some(argument)) => {
            Operator::Trailer(field(argument, Query::Kept, &mut wanted.trailers)?)
        }
        ("DYNAMIC_METADATA", Some(argument)) if argument.starts_with(SESSION) => of_session(argument),
        // Nothing else in this proxy has any.
        ("DYNAMIC_METADATA" | "FILTER_STATE" | "UPSTREAM_FILTER_STATE", Some(_)) => Operator::Nothing,
        (_, _) if !command.tail.is_empty() => return Err(unknown()),
        ("START_TIME", format) => Operator::StartTime(time(at, format.unwrap_or(DEFAULT_TIME))?),
        ("EMIT_TIME", format) => Operator::EmitTime(time(at, format.unwrap_or(DEFAULT_TIME))?),
        ("COMMON_DURATION", Some(argument)) => common_duration(argument).ok_or_else(unknown)?,
        (name, None) => plain(name).or_else(|| address(name)).ok_or_else(unknown)?,
        _ => return Err(unknown()),
    })
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
        "DURATION" => millis(Moment::Begun, Moment::Over),
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
        // Of connections that this proxy ends for reasons of its own, virtual clusters and handshakes of clients that
        // never became a request: nothing in this proxy sets them.
        "CONNECTION_TERMINATION_DETAILS" | "VIRTUAL_CLUSTER_NAME" | "DOWNSTREAM_TRANSPORT_FAILURE_REASON" => {
            Operator::Nothing
        }
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
        HeaderField::Named(name) => {
            let known = names.iter().position(|known| *known == name);
            Named::Field(known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            }))
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Result<Operator, Rejection> {
        let mut pieces = pieces(&At::root(), text, &mut Wanted::default())?;
        match (pieces.pop(), pieces.is_empty()) {
            (Some(Piece::Value(operator)), true) => Ok(operator),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn every_operator_of_the_default_formats_is_known() {
        for format in [
            DEFAULT,
            "%CONNECTION_TERMINATION_DETAILS% %UPSTREAM_LOCAL_ADDRESS% 100%%",
        ] {
            default(&At::root(), &mut Wanted::default()).unwrap();
            pieces(&At::root(), format, &mut Wanted::default()).unwrap();
        }
        let duration = Operator::Duration(Moment::Sent, Moment::Answered, 1_000_000);
        assert_eq!(only("%COMMON_DURATION(US_TX_BEG:US_RX_BEG:us)%"), Ok(duration));
        let port = Operator::Address(AddressOf::Peer, AddressPart::Port);
        assert_eq!(only("%DOWNSTREAM_DIRECT_REMOTE_PORT%"), Ok(port));
    }

    #[test]
    fn what_is_not_known_is_rejected_by_name() {
        for text in [
            "%NO_SUCH%",
            "%DURATION(x)%",
            "%START_TIME(%Q)%",
            "%UPSTREAM_TLS_VERSION%",
            "%COMMON_DURATION(US_RX_END:DS_TX_END)%",
            "%PROTOCOL%%UPSTREAM_PORT%",
        ] {
            let rejection = pieces(&At::root(), text, &mut Wanted::default()).unwrap_err();
            assert!(rejection.reason.contains("not supported"), "{text}: {rejection}");
        }
        assert!(pieces(&At::root(), "50% off", &mut Wanted::default()).is_err());
        assert!(pieces(&At::root(), "%REQ(x):y%", &mut Wanted::default()).is_err());
    }

    #[test]
    fn a_field_that_several_logs_want_is_looked_for_once() {
        let mut wanted = Wanted::default();
        let found = pieces(&At::root(), "%REQ(X-A)%%REQ(x-b?X-a):3%", &mut wanted).unwrap();
        assert_eq!(wanted.request, ["x-a", "x-b"]);
        let expected = FieldOf {
            first: Named::Field(1),
            second: Some(Named::Field(0)),
            max_len: Some(3),
            query: Query::Kept,
        };
        assert_eq!(found[1], Piece::Value(Operator::Request(expected)));
    }
}
