//! Escapes by per cent (RFC 3986 §2.1).

use std::borrow::Cow;

/// Undoes escapes; what isn't one stays.
pub(crate) fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_escape_stays() {
        for (text, decoded) in [
            ("plain", "plain"),
            ("%5Ea%5e", "^a^"),
            ("%+5", "%+5"),
            ("%-1%", "%-1%"),
            ("%2", "%2"),
            ("%zz%41", "%zzA"),
        ] {
            assert_eq!(decode(text), decoded);
        }
    }
}
