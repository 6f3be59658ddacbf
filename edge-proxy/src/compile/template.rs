//! Header values with substitution commands (`%REQ(x-a?x-b):10%`).

use http::{HeaderName, HeaderValue};

use crate::compile::command::{self, Command, Piece};
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
    let pieces = command::pieces(at, text)?.into_iter();
    let parts = pieces.map(|piece| match piece {
        Piece::Text(plain) if HeaderValue::from_str(&plain).is_err() => {
            Err(at.error(format!("{text:?} is not a header value")))
        }
        Piece::Text(plain) => Ok(TemplatePart::Text(plain)),
        Piece::Command(command) => part(at, command),
    });
    parts.collect()
}

fn part(at: &At<'_>, command: Command<'_>) -> Result<TemplatePart, Rejection> {
    let text = command.text;
    Ok(match (command.name, command.argument) {
        ("REQ", Some(argument)) => TemplatePart::Request(request_field(at, command, argument)?),
        ("RESP", Some(argument)) if command.tail.is_empty() => TemplatePart::Response(header_name(at, argument)?),
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

fn request_field(at: &At<'_>, command: Command<'_>, argument: &str) -> Result<HeaderFieldRef, Rejection> {
    let names = command.field_names(at, argument)?;
    Ok(HeaderFieldRef {
        field: header_field(at, names.first)?,
        alternative: names.second.map(|name| header_field(at, name)).transpose()?,
        max_len: names.max_len,
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
