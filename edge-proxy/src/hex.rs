//! Bytes as hexadecimal digits.

use std::fmt::Write as _;

/// The bytes that digits of either case stand for, two each.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    pairs
        .remainder()
        .is_empty()
        .then(|| pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// The digits of bytes, in lower case.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_for_bytes_in_pairs() {
        assert_eq!(decode("00fF7a"), Some(vec![0, 0xff, 0x7a]));
        assert_eq!(decode(""), Some(Vec::new()));
        for text in ["0", "0g", "+1", "é"] {
            assert_eq!(decode(text), None, "{text}");
        }
        assert_eq!(encode(&[0, 0xff, 0x7a]), "00ff7a");
    }
}
