//! Edits of headers that resources write: which of them can be made, and which count.

use super::routes::rules::{field_name, is_field_value};
use crate::api::route_filter::HttpHeader;
use edge_ir::HeaderEdit;

/// Why an edit can't be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// It has no name.
    Nameless,
    /// Its header isn't one that edits are for: the host, or a name with `/` or `:`.
    Reserved,
    /// Its header is about the connection, or about where the message ends.
    Framing,
    /// Its header can't have that name.
    Name,
    /// Its header can't have that value.
    Value,
}

/// What is wrong with an edit, if anything.
fn flaw(header: &HttpHeader) -> Option<Flaw> {
    match &*header.name {
        "" => Some(Flaw::Nameless),
        name if is_reserved(name) => Some(Flaw::Reserved),
        name if is_framing(name) => Some(Flaw::Framing),
        name if field_name(name).is_err() => Some(Flaw::Name),
        _ => (!is_value(&header.value)).then_some(Flaw::Value),
    }
}

/// Whether a text is printable ASCII, with single spaces or tabs in it (Gateway API v1.7.0, `HTTPHeader.value`).
fn is_value(text: &str) -> bool {
    let mut words = text.split([' ', '\t']);
    is_field_value(text) && words.all(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_graphic()))
}

/// Whether edits aren't for headers of that name.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.contains(['/', ':']) || name.eq_ignore_ascii_case("host")
}

/// Headers about a connection alone (RFC 9110 §7.6.1), and those by which its ends know where a message ends and what
/// follows it (RFC 9112 §6). Who may choose them chooses what becomes of the next request on a connection to a backend,
/// which may be another route's.
const FRAMING: [&str; 8] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether nobody but the proxy itself may set, add or remove headers of that name.
pub(crate) fn is_framing(name: &str) -> bool {
    FRAMING.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Why headers of such a name are nobody's to edit.
pub(crate) const WHOSE_FRAMING: &str = "it is about the connection or where a message ends, which the proxy alone says";

/// The edits of a list that can be made; of the others is told. Of equivalent names the first counts (Gateway API,
/// `HTTPHeader.name`).
pub(crate) fn edits(list: &[HttpHeader], mut tell: impl FnMut(&HttpHeader, Flaw)) -> Vec<HeaderEdit> {
    let mut edits: Vec<HeaderEdit> = Vec::with_capacity(list.len());
    for header in list {
        if let Some(flaw) = flaw(header) {
            tell(header, flaw);
        } else if !edits.iter().any(|known| known.name.eq_ignore_ascii_case(&header.name)) {
            edits.push(HeaderEdit {
                name: header.name.clone(),
                value: header.value.clone(),
            });
        }
    }
    edits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flaw_of(name: &str) -> Option<Flaw> {
        flaw(&HttpHeader {
            name: name.into(),
            value: "0".into(),
        })
    }

    #[test]
    fn where_a_message_ends_is_no_matter_of_edits() {
        for name in FRAMING {
            assert_eq!(flaw_of(name), Some(Flaw::Framing), "{name}");
            assert_eq!(flaw_of(&name.to_ascii_uppercase()), Some(Flaw::Framing), "{name}");
        }
        for name in [
            "content-type",
            "content-encoding",
            "x-content-length",
            "tea",
            "trailers",
            "upgrade-insecure-requests",
        ] {
            assert_eq!(flaw_of(name), None, "{name}");
        }
        assert_eq!(flaw_of("Host"), Some(Flaw::Reserved));
    }
}
