//! Formats, headers and attributes as an EdgeProxy writes them.

use crate::{
    api::{StringMap, route_filter::HttpHeader},
    phase::operators,
};
use edge_ir::Pairs;
use std::sync::Arc;

/// A text with command operators that proxies know.
pub(super) fn format(text: &str) -> Result<Arc<str>, String> {
    operators::check_of_fleet(text)?;
    Ok(text.into())
}

/// Texts with command operators, sorted by their names.
pub(super) fn formats(map: &StringMap) -> Result<Pairs, String> {
    map.iter().map(|(key, text)| Ok((key.into(), format(text)?))).collect()
}

/// Plain texts, sorted by their names.
pub(super) fn pairs(map: &StringMap) -> Pairs {
    map.iter().map(|(key, value)| (key.into(), value.into())).collect()
}

/// Metadata of calls: a proxy refuses whatever can't be a header.
pub(super) fn headers(headers: &[HttpHeader]) -> Result<Pairs, String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    headers
        .iter()
        .map(|header| {
            let (name, value) = (&*header.name, &*header.value);
            if name.is_empty() || !name.bytes().all(is_token) || value.chars().any(char::is_control) {
                return Err(format!("{name:?} with {value:?} can't be a header"));
            }
            Ok((name.to_ascii_lowercase().into(), value.into()))
        })
        .collect()
}
