//! Values in queries and forms.

use std::fmt::Write as _;

/// A value as it stands in a query or a form: what isn't unreserved (RFC 3986 §2.3) is escaped.
pub fn escape(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            text.push(char::from(*byte));
        } else {
            // Writing to a string can't fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_unreserved_stays() {
        assert_eq!(escape(b"a-Z.0_~"), "a-Z.0_~");
        assert_eq!(
            escape("https://a/?b=c d%\u{e9}".as_bytes()),
            "https%3A%2F%2Fa%2F%3Fb%3Dc%20d%25%C3%A9"
        );
    }
}
