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
