//! The lines of a field that stands in a head more than once (RFC 9110 §5.2).

use std::borrow::Cow;

use http::{HeaderMap, HeaderName};

/// Each line of a field, as text.
pub(crate) fn lines<'h>(fields: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = Cow<'h, str>> + use<'h> {
    let lines = fields.get_all(name).into_iter();
    lines.map(|line| String::from_utf8_lossy(line.as_bytes()))
}

/// All lines of a field as one (RFC 9110 §5.3), with `,` between.
pub(crate) fn joined<'h>(fields: &'h HeaderMap, name: &HeaderName) -> Option<Cow<'h, str>> {
    let mut lines = lines(fields, name);
    let first = lines.next()?;
    Some(lines.fold(first, |all, line| all + "," + line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn lines_are_joined_in_their_order() {
        let name = HeaderName::from_static("x-a");
        let mut fields = HeaderMap::new();
        assert_eq!(joined(&fields, &name), None);
        for value in ["1", "", "2,3"] {
            fields.append(&name, HeaderValue::from_static(value));
        }
        assert_eq!(joined(&fields, &name).as_deref(), Some("1,,2,3"));
        assert_eq!(lines(&fields, &name).collect::<Vec<_>>(), ["1", "", "2,3"]);
    }
}
