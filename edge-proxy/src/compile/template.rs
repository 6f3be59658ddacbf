//! Header values with substitution commands (`%REQ(x-a?x-b):10%`).

use http::{HeaderName, HeaderValue};

use crate::compile::field::{At, Rejection};
use crate::config::header::{HeaderField, HeaderFieldRef, HeaderTemplate, TemplatePart};

/// Compiles a header value.
pub fn template(at: &At<'_>, text: &str) -> Result<HeaderTemplate, Rejection> {
    let parts = parse(at, text)?;
    match parts.as_slice() {
        [] => literal(at, ""),
        [TemplatePart::Text(text)] => literal(at, text),
        _ => Ok(HeaderTemplate::Parts(parts.into())),
    }
}

fn literal(at: &At<'_>, text: &str) -> Result<HeaderTemplate, Rejection> {
    HeaderValue::from_str(text)
        .map(HeaderTemplate::Literal)
        .map_err(|_| at.error(format!("{text:?} is not a header value")))
}

fn parse(at: &At<'_>, text: &str) -> Result<Vec<TemplatePart>, Rejection> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(percent) = rest.find('%') {
        plain.push_str(&rest[..percent]);
        rest = &rest[percent + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            plain.push('%');
            rest = after;
            continue;
        }
        let end = command_end(rest).ok_or_else(|| at.error("a substitution command has no closing '%'"))?;
        if !plain.is_empty() {
            parts.push(TemplatePart::Text(std::mem::take(&mut plain).into()));
        }
        parts.push(command(at, &rest[..end])?);
        rest = &rest[end + 1..];
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        parts.push(TemplatePart::Text(plain.into()));
    }
    if parts
        .iter()
        .any(|part| matches!(part, TemplatePart::Text(text) if HeaderValue::from_str(text).is_err()))
    {
        return Err(at.error(format!("{text:?} is not a header value")));
    }
    Ok(parts)
}

/// The place of the closing `%`, which may not stand inside parentheses.
pub(super) fn command_end(text: &str) -> Option<usize> {
    match text.find(['(', '%']) {
        Some(at) if text.as_bytes()[at] == b'(' => {
            let close = at + text[at..].find(')')?;
            Some(close + text[close..].find('%')?)
        }
        end => end,
    }
}

/// A command's name, what stands in its parentheses, and what behind them.
pub(super) fn split_command(text: &str) -> (&str, Option<&str>, &str) {
    match text.split_once('(') {
        Some((name, rest)) => {
            let (argument, tail) = rest.split_once(')').unwrap_or((rest, ""));
            (name, Some(argument), tail)
        }
        None => (text, None, ""),
    }
}

fn command(at: &At<'_>, text: &str) -> Result<TemplatePart, Rejection> {
    let (name, argument, tail) = split_command(text);
    Ok(match (name, argument) {
        ("REQ", Some(argument)) => TemplatePart::Request(request_field(at, argument, tail)?),
        ("RESP", Some(argument)) if tail.is_empty() => TemplatePart::Response(header_name(at, argument)?),
        ("DOWNSTREAM_REMOTE_ADDRESS", None) => TemplatePart::RemoteAddress,
        ("DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT", None) => TemplatePart::RemoteAddressWithoutPort,
        ("DOWNSTREAM_LOCAL_ADDRESS", None) => TemplatePart::LocalAddress,
        ("DOWNSTREAM_LOCAL_PORT", None) => TemplatePart::LocalPort,
        ("PROTOCOL", None) => TemplatePart::Protocol,
        ("REQUESTED_SERVER_NAME", None) => TemplatePart::ServerName,
        ("UPSTREAM_CLUSTER", None) => TemplatePart::UpstreamCluster,
        ("ROUTE_NAME", None) => TemplatePart::RouteName,
        ("START_TIME", None) => TemplatePart::StartTime,
        ("HOSTNAME", None) => TemplatePart::Hostname,
        _ => return Err(at.error(format!("substitution command %{text}% is not supported by this proxy"))),
    })
}

fn request_field(at: &At<'_>, argument: &str, tail: &str) -> Result<HeaderFieldRef, Rejection> {
    let (first, second) = match argument.split_once('?') {
        Some((first, second)) => (first, Some(second)),
        None => (argument, None),
    };
    let max_len = match tail.strip_prefix(':') {
        Some(len) => Some(len.parse().map_err(|_| at.error(format!("{len:?} is not a length")))?),
        None if tail.is_empty() => None,
        None => return Err(at.error(format!("{tail:?} does not belong behind %REQ()"))),
    };
    Ok(HeaderFieldRef {
        field: header_field(at, first)?,
        alternative: second.map(|name| header_field(at, name)).transpose()?,
        max_len,
    })
}

/// A header or pseudo header by name.
pub fn header_field(at: &At<'_>, name: &str) -> Result<HeaderField, Rejection> {
    Ok(match name.to_ascii_lowercase().as_str() {
        ":method" => HeaderField::Method,
        ":path" => HeaderField::Path,
        // Envoy keeps the host of HTTP/1 in `:authority`.
        ":authority" | "host" => HeaderField::Authority,
        ":scheme" => HeaderField::Scheme,
        _ => HeaderField::Named(header_name(at, name)?),
    })
}

/// A header name.
pub fn header_name(at: &At<'_>, name: &str) -> Result<HeaderName, Rejection> {
    HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes())
        .map_err(|_| at.error(format!("{name:?} is not a header name")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_is_rendered_ahead_of_time_with_escapes_undone() {
        let compiled = template(&At::root(), "100%% sure").expect("valid");
        assert!(matches!(compiled, HeaderTemplate::Literal(value) if value == "100% sure"));
    }

    #[test]
    fn commands_become_parts() {
        let HeaderTemplate::Parts(parts) = template(&At::root(), "a-%REQ(X-B?:path):3%-%PROTOCOL%").expect("valid")
        else {
            panic!("constant")
        };
        let reference = HeaderFieldRef {
            field: HeaderField::Named(HeaderName::from_static("x-b")),
            alternative: Some(HeaderField::Path),
            max_len: Some(3),
        };
        assert_eq!(
            &*parts,
            [
                TemplatePart::Text("a-".into()),
                TemplatePart::Request(reference),
                TemplatePart::Text("-".into()),
                TemplatePart::Protocol
            ]
        );
    }

    #[test]
    fn unknown_and_unclosed_commands_are_rejected_by_name() {
        let unknown = template(&At::root(), "%NO_SUCH%").expect_err("unknown");
        assert!(unknown.reason.contains("%NO_SUCH%"), "{unknown}");
        assert!(template(&At::root(), "50% off").is_err());
        assert!(template(&At::root(), "a\nb").is_err());
    }
}
