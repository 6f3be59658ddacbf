//! Header edits of routes, and the values that are made from a request.
//!
//! Applies the flat list that the compiler has put in Envoy's order (weighted cluster, route, virtual host, route
//! configuration). Constants are the usual case and cost a reference count; templates are rendered here.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write;
use std::time::SystemTime;

use http::header;
use http::{HeaderMap, HeaderName, HeaderValue, Response};

use crate::calendar::iso;
use crate::config::header::{
    HeaderField, HeaderFieldRef, HeaderStep, HeaderTemplate, PutAction, StringCondition, TemplatePart,
};
use crate::config::table::value_of;
use crate::connection::Connection;
use crate::http::local_reply::GRPC_STATUS;
use crate::local::hostname;
use crate::message::Protocol;
use crate::message::head::Head;

/// What an answer of the proxy's own is where nobody says otherwise.
pub(crate) const TEXT: HeaderValue = HeaderValue::from_static("text/plain");

/// What templates may speak of besides the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    /// The client connection.
    pub(crate) connection: &'a Connection,
    /// The cluster that was chosen, empty before.
    pub(crate) cluster: &'a str,
    /// The route's name.
    pub(crate) route: &'a str,
}

impl<'a> Scene<'a> {
    /// Nothing but a connection is known.
    pub(crate) fn of(connection: &'a Connection) -> Self {
        Self {
            connection,
            cluster: "",
            route: "",
        }
    }
}

/// Edits a request.
pub(crate) fn edit_request(head: &mut Head, steps: &[HeaderStep], scene: Scene<'_>) {
    for step in steps {
        match step {
            HeaderStep::Remove(name) => {
                head.headers.remove(name);
            }
            HeaderStep::RemoveAll(names) => remove_all(&mut head.headers, names),
            HeaderStep::Put {
                name,
                value,
                action,
                keep_empty,
            } => {
                let value = self::value(value, scene, head);
                if value.is_empty() && !keep_empty {
                    continue;
                }
                if name == header::HOST {
                    head.authority = value;
                } else {
                    put(&mut head.headers, name, value, *action);
                }
            }
        }
    }
}

/// Edits a response.
pub(crate) fn edit_response(headers: &mut HeaderMap, steps: &[HeaderStep], scene: Scene<'_>, head: &Head) {
    for step in steps {
        match step {
            HeaderStep::Remove(name) => {
                headers.remove(name);
            }
            HeaderStep::RemoveAll(names) => remove_all(headers, names),
            HeaderStep::Put {
                name,
                value,
                action,
                keep_empty,
            } => {
                let value = match value {
                    HeaderTemplate::Literal(value) => value.clone(),
                    HeaderTemplate::Parts(parts) => render(parts, scene, head, Some(headers)),
                };
                if !value.is_empty() || *keep_empty {
                    put(headers, name, value, *action);
                }
            }
        }
    }
}

/// Edits an answer of the proxy's own beneath what it says itself: as from Envoy, whose `sendLocalReply` lets the route
/// finish a head in which nothing stands, and then has the answer say what it says.
pub(crate) fn beneath<B>(answer: &mut Response<B>, steps: &[HeaderStep], scene: Scene<'_>, head: &Head) {
    if steps.is_empty() {
        return;
    }
    let mut fields = HeaderMap::new();
    edit_response(&mut fields, steps, scene, head);
    lay_over(&mut fields, std::mem::take(answer.headers_mut()));
    *answer.headers_mut() = fields;
}

fn lay_over(fields: &mut HeaderMap, mut own: HeaderMap) {
    match own.get(header::CONTENT_TYPE) {
        // There is no content that a type could be said of.
        None => drop(fields.remove(header::CONTENT_TYPE)),
        // Only where nobody says another one.
        Some(usual) if usual == TEXT && fields.contains_key(header::CONTENT_TYPE) => {
            own.remove(header::CONTENT_TYPE);
        }
        Some(_) => {}
    }
    // A route may say it, which Envoy asks first.
    if fields.contains_key(GRPC_STATUS) {
        own.remove(GRPC_STATUS);
    }
    // They stand beside each other, whoever gives them.
    if let header::Entry::Occupied(cookies) = own.entry(header::SET_COOKIE) {
        for cookie in cookies.remove_entry_mult().1 {
            fields.append(header::SET_COOKIE, cookie);
        }
    }
    // All values of a name replace those that are there.
    fields.extend(own);
}

fn remove_all(headers: &mut HeaderMap, names: &StringCondition) {
    let gone: Vec<HeaderName> = headers
        .keys()
        .filter(|name| names.matches(name.as_str()))
        .cloned()
        .collect();
    for name in gone {
        headers.remove(name);
    }
}

/// Puts a value beside those that are there, or in their place.
pub(crate) fn put(headers: &mut HeaderMap, name: &HeaderName, value: HeaderValue, action: PutAction) {
    match action {
        PutAction::Append => {
            headers.append(name, value);
        }
        PutAction::Overwrite => {
            headers.insert(name, value);
        }
        PutAction::AddIfAbsent => {
            headers.entry(name).or_insert(value);
        }
        PutAction::OverwriteIfExists => {
            if headers.contains_key(name) {
                headers.insert(name, value);
            }
        }
    }
}

/// A value that is made of a request.
pub(crate) fn value(template: &HeaderTemplate, scene: Scene<'_>, head: &Head) -> HeaderValue {
    match template {
        HeaderTemplate::Literal(value) => value.clone(),
        HeaderTemplate::Parts(parts) => render(parts, scene, head, None),
    }
}

fn render(parts: &[TemplatePart], scene: Scene<'_>, head: &Head, response: Option<&HeaderMap>) -> HeaderValue {
    let mut out = Vec::new();
    for part in parts {
        render_part(&mut out, part, scene, head, response);
    }
    HeaderValue::from_bytes(&out).unwrap_or(HeaderValue::from_static(""))
}

/// What isn't there is nothing in a header; in a log it would be `-`.
fn render_part(out: &mut Vec<u8>, part: &TemplatePart, scene: Scene<'_>, head: &Head, response: Option<&HeaderMap>) {
    let connection = scene.connection;
    match part {
        TemplatePart::Text(text) => out.extend_from_slice(text.as_bytes()),
        TemplatePart::Request(field) => render_field(out, field, head),
        TemplatePart::Response(name) => {
            let value = response.and_then(|headers| headers.get(name));
            out.extend_from_slice(value.map_or(&[], HeaderValue::as_bytes));
        }
        TemplatePart::RemoteAddress => show(out, head.client.map_or(connection.client, |client| (client, 0).into())),
        TemplatePart::RemoteAddressWithoutPort => match head.client {
            Some(client) => show(out, client),
            None => out.extend_from_slice(connection.client_text.as_bytes()),
        },
        TemplatePart::LocalAddress => show(out, connection.local),
        TemplatePart::LocalPort => show(out, connection.local.port()),
        TemplatePart::Protocol => out.extend_from_slice(match connection.protocol {
            Protocol::Http1 => b"HTTP/1.1",
            Protocol::Http2 => b"HTTP/2",
        }),
        TemplatePart::ServerName => show(out, connection.server_name.as_deref().unwrap_or_default()),
        TemplatePart::UpstreamCluster => show(out, scene.cluster),
        TemplatePart::RouteName => show(out, scene.route),
        TemplatePart::StartTime => show(out, iso(SystemTime::now())),
        TemplatePart::Hostname => show(out, hostname()),
    }
}

/// Writing to memory can't fail.
fn show(out: &mut Vec<u8>, value: impl Display) {
    let _ = write!(out, "{value}");
}

fn render_field(out: &mut Vec<u8>, field: &HeaderFieldRef, head: &Head) {
    let value = bytes_of(&field.field, head).or_else(|| bytes_of(field.alternative.as_ref()?, head));
    let value = value.unwrap_or_default();
    let end = field.max_len.unwrap_or(usize::MAX).min(value.len());
    out.extend_from_slice(&value[..end]);
}

/// A value as it was sent, which need not be text.
fn bytes_of<'h>(field: &HeaderField, head: &'h Head) -> Option<Cow<'h, [u8]>> {
    let HeaderField::Named(name) = field else {
        return value_of(field, &head.view()).map(|text| text.into_owned().into_bytes().into());
    };
    let mut lines = head.headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let first = Cow::Borrowed(lines.next()?);
    Some(lines.fold(first, |all, line| [&*all, line].join(&b","[..]).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_says_itself_stands_over_what_is_edited() {
        let of = |fields: &[(&'static str, &'static str)]| -> HeaderMap {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(*name, HeaderValue::from_static(value));
            }
            headers
        };
        let run = |edited: &[(&'static str, &'static str)], own| {
            let mut fields = of(edited);
            lay_over(&mut fields, of(own));
            fields
        };
        let edited = [("a", "r"), ("b", "r"), ("content-type", "r"), ("set-cookie", "r=1")];
        let own = [
            ("a", "1"),
            ("a", "2"),
            ("content-type", "text/plain"),
            ("set-cookie", "o=1"),
        ];
        let expected = [
            ("a", "1"),
            ("a", "2"),
            ("b", "r"),
            ("content-type", "r"),
            ("set-cookie", "r=1"),
            ("set-cookie", "o=1"),
        ];
        assert_eq!(run(&edited, &own), of(&expected));
        assert_eq!(run(&[("content-type", "r")], &[("content-length", "0")]).len(), 1);
        let said = run(&[("content-type", "r")], &[("content-type", "application/grpc")]);
        assert_eq!(said["content-type"], "application/grpc");
    }

    #[test]
    fn put_actions_differ_in_what_is_there() {
        let name = HeaderName::from_static("x-a");
        let run = |before: &[&'static str], action| {
            let mut headers = HeaderMap::new();
            for value in before {
                headers.append(&name, HeaderValue::from_static(value));
            }
            put(&mut headers, &name, HeaderValue::from_static("new"), action);
            let values: Vec<String> = headers
                .get_all(&name)
                .iter()
                .map(|value| value.to_str().unwrap().to_owned())
                .collect();
            values
        };
        assert_eq!(run(&["a"], PutAction::Append), ["a", "new"]);
        assert_eq!(run(&["a", "b"], PutAction::Overwrite), ["new"]);
        assert_eq!(run(&["a"], PutAction::AddIfAbsent), ["a"]);
        assert_eq!(run(&[], PutAction::AddIfAbsent), ["new"]);
        assert_eq!(run(&[], PutAction::OverwriteIfExists), Vec::<String>::new());
        assert_eq!(run(&["a"], PutAction::OverwriteIfExists), ["new"]);
    }
}
