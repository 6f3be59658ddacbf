//! Cookies of a request (RFC 6265 §4.2).

use http::{HeaderMap, HeaderValue, header};

/// All cookies of a request, as they stand there.
pub(crate) fn pairs(fields: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = fields.get_all(header::COOKIE).iter();
    lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b';'))
        .map(|pair| {
            // As in Envoy, a value goes up to the semicolon.
            let start = pair.iter().position(|byte| *byte != b' ');
            &pair[start.unwrap_or(pair.len())..]
        })
}

/// The value in the first cookie of a name, without the quotes that may stand around it.
pub(crate) fn value<'h>(fields: &'h HeaderMap, name: &str) -> Option<&'h [u8]> {
    let mut found = pairs(fields).filter_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    let value = found.next()?;
    let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    Some(bare.unwrap_or(value))
}

/// What is left of all cookies without those of a name.
pub(crate) fn without(fields: &HeaderMap, name: &str) -> Option<HeaderValue> {
    let is = |pair: &&[u8]| {
        pair.strip_prefix(name.as_bytes())
            .is_some_and(|rest| rest.starts_with(b"="))
    };
    let left: Vec<&[u8]> = pairs(fields).filter(|pair| !pair.is_empty() && !is(pair)).collect();
    (!left.is_empty())
        .then(|| HeaderValue::from_bytes(&left.join(&b"; "[..])).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_and_taken_out() {
        let mut fields = HeaderMap::new();
        fields.append(header::COOKIE, HeaderValue::from_static("a=1; key=\"k\";b=2"));
        fields.append(header::COOKIE, HeaderValue::from_static("key=other"));
        assert_eq!(value(&fields, "key"), Some(&b"k"[..]));
        assert_eq!(value(&fields, "ke"), None);
        assert_eq!(value(&fields, "ey"), None);
        assert_eq!(without(&fields, "key"), Some(HeaderValue::from_static("a=1; b=2")));
    }

    /// As in stock Envoy 1.40.
    #[test]
    fn a_value_goes_up_to_the_semicolon() {
        let of = |line| {
            let fields = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static(line))]);
            value(&fields, "a").map(<[u8]>::to_vec)
        };
        assert_eq!(of("a=1 ; b=2"), Some(b"1 ".to_vec()));
        assert_eq!(of("a=\"1\" ; b=2"), Some(b"\"1\" ".to_vec()), "not in quotes");
        assert_eq!(of("b=2;  a=1"), Some(b"1".to_vec()));
        assert_eq!(of("b=2;\ta=1"), None, "a tab belongs to the name");
    }
}
