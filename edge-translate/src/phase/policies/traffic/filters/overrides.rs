//! Other responses in place of some.

use super::Problems;
use crate::{
    api::{
        BackendTrafficPolicySpec,
        http_route_filter::ResponseHeaders,
        response::{
            OtherLocation, OtherResponse as Response, ResponseHeaderMatch, ResponseOverride as Spec,
            ResponseSource as Source, StatusCodeMatch, StatusCodeMatchType,
        },
        route_filter::{HttpHeader, PathModifierType},
    },
    engine::reader::Reader,
    phase::{
        body,
        header::{self, Flaw, WHOSE_FRAMING},
        policies::text_match::text_match,
        routes::rules::{field_name, is_token},
    },
};
use edge_ir::{
    CodeRange, Elsewhere, HeaderEdit, HeaderEdits, Instead, OtherResponse, ResponseBody, ResponseOverride,
    ResponseSource, TextMatch,
};

const AREA: &str = "ResponseOverride";

/// What is given in place of which responses, in order.
pub(super) fn overrides(
    reader: &Reader<'_>,
    spec: &BackendTrafficPolicySpec,
    namespace: &str,
    problems: &mut Problems,
) -> Vec<ResponseOverride> {
    let list = spec.response_override.iter();
    list.filter_map(|one| of(reader, one, namespace, problems)).collect()
}

fn of(reader: &Reader<'_>, one: &Spec, namespace: &str, problems: &mut Problems) -> Option<ResponseOverride> {
    let matches = &one.r#match;
    if matches.status_codes.is_empty() && matches.response_headers.is_empty() {
        problems.add(AREA, "at least one of statusCodes or responseHeaders must be specified");
    }
    let source = match &one.source {
        None | Some(Source::All) => ResponseSource::Any,
        Some(Source::Local) => ResponseSource::Proxy,
        Some(Source::Backend) => ResponseSource::Backend,
        Some(Source::Other(other)) => {
            problems.add(AREA, format_args!("unsupported source {other}"));
            return None;
        }
    };
    let instead = match (one.response.as_deref(), one.redirect.as_deref()) {
        (Some(response), None) => Instead::Response(answer(reader, response, namespace, problems)),
        (None, Some(location)) => Instead::Elsewhere(elsewhere(location, problems)),
        _ => {
            problems.add(AREA, "exactly one of response or redirect must be specified");
            return None;
        }
    };
    Some(ResponseOverride {
        source,
        codes: matches
            .status_codes
            .iter()
            .filter_map(|code| codes(code, problems))
            .collect(),
        headers: matches
            .response_headers
            .iter()
            .filter_map(|header| condition(header, problems))
            .collect(),
        instead,
    })
}

/// Codes of a condition.
fn codes(codes: &StatusCodeMatch, problems: &mut Problems) -> Option<CodeRange> {
    let (first, last) = match (&codes.r#type, codes.value, codes.range.as_ref()) {
        (StatusCodeMatchType::Value, Some(code), _) => (code, code),
        (StatusCodeMatchType::Range, _, Some(range)) => {
            if range.end <= range.start {
                problems.add(AREA, "end must be greater than start");
                return None;
            }
            (range.start, range.end)
        }
        (StatusCodeMatchType::Value, None, _) => {
            problems.add(AREA, "value must be set for type Value");
            return None;
        }
        (StatusCodeMatchType::Range, _, None) => {
            problems.add(AREA, "range must be set for type Range");
            return None;
        }
        (StatusCodeMatchType::Other(other), ..) => {
            problems.add(AREA, format_args!("unsupported type {other} of a status code"));
            return None;
        }
    };
    let range = u16::try_from(first).ok().zip(u16::try_from(last).ok());
    let range = range.filter(|(first, last)| *first >= 100 && *last < 600);
    if range.is_none() {
        problems.add(
            AREA,
            format_args!("statusCodes {first} to {last} are out of range, must be between 100 and 599"),
        );
    }
    range.map(|(first, last)| CodeRange { first, last })
}

fn condition(header: &ResponseHeaderMatch, problems: &mut Problems) -> Option<TextMatch> {
    Some(TextMatch {
        name: problems.token(AREA, "response header", &header.name),
        text: text_match(AREA, &header.value, problems)?,
    })
}

fn answer(reader: &Reader<'_>, response: &Response, namespace: &str, problems: &mut Problems) -> OtherResponse {
    let body = response.body.as_ref().map(|text| body::body(reader, namespace, text));
    let mut body = body.unwrap_or(Ok(None)).unwrap_or_else(|why| {
        problems.add(AREA, why);
        None
    });
    // A proxy makes it by a format, which is a text.
    if body.take_if(|body| matches!(body, ResponseBody::Bytes(_))).is_some() {
        problems.add(AREA, "the body must be a text");
    }
    let status = response.status_code;
    if status.is_some_and(|code| !(200..600).contains(&code)) {
        problems.add(AREA, "statusCode is out of range, must be between 200 and 599");
    }
    let mut headers = response
        .header
        .as_deref()
        .map(|headers| edits(headers, problems))
        .unwrap_or_default();
    if let Some(content_type) = response.content_type.as_deref() {
        problems.text(AREA, "contentType", content_type);
        let value = content_type.into();
        let name = "content-type".into();
        headers.set.insert(0, HeaderEdit { name, value });
    }
    OtherResponse { status, body, headers }
}

fn edits(headers: &ResponseHeaders, problems: &mut Problems) -> HeaderEdits {
    if !headers.remove.is_empty() || !headers.remove_on_match.is_empty() {
        problems.add(AREA, "Remove is not supported for header in CustomResponse");
    }
    if !headers.add_if_absent.is_empty() {
        problems.add(AREA, "addIfAbsent is not supported for header in CustomResponse");
    }
    let mut list = |list: &[HttpHeader]| {
        header::edits(list, |HttpHeader { name, value }, flaw| match flaw {
            Flaw::Reserved if name.eq_ignore_ascii_case("host") => problems.add(AREA, "a response has no header Host"),
            Flaw::Framing => problems.add(AREA, format_args!("header {name}: {WHOSE_FRAMING}")),
            Flaw::Name if is_token(name) => {
                let why = field_name(name).err().unwrap_or_default();
                problems.add(AREA, format_args!("header {name}: {why}"));
            }
            Flaw::Nameless | Flaw::Reserved | Flaw::Name => {
                problems.token(AREA, "header", name);
            }
            Flaw::Value => problems.add(AREA, format_args!("header {name} can't have the value {value:?}")),
        })
    };
    HeaderEdits {
        set: list(&headers.set),
        add: list(&headers.add),
        remove: Vec::new(),
    }
}

/// Where a response is taken from. The proxy asks there by itself; the client sees one response.
fn elsewhere(location: &OtherLocation, problems: &mut Problems) -> Elsewhere {
    let path = location
        .path
        .as_ref()
        .and_then(|path| match (&path.r#type, &path.replace_full_path) {
            (PathModifierType::ReplaceFullPath, Some(path)) => Some(problems.text(AREA, "path", path)),
            _ => {
                problems.add(AREA, "only ReplaceFullPath is supported for path.type");
                None
            }
        });
    if !matches!(location.scheme.as_deref(), None | Some("http" | "https")) {
        problems.add(AREA, "scheme of redirect must be http or https");
    }
    if !matches!(location.status_code, 301 | 302) {
        problems.add(AREA, "statusCode of redirect must be 301 or 302");
    }
    Elsewhere {
        scheme: location.scheme.as_deref().map(Into::into),
        host: location
            .hostname
            .as_deref()
            .map(|host| problems.text(AREA, "hostname", host)),
        path,
        port: location.port,
        status: location.status_code,
    }
}
