//! Subject alternative names, and conditions on them, as Envoy reads and compares them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustls::Error;
use rustls::pki_types::CertificateDer;
use x509_parser::asn1_rs::{Any, Class, Tag};
use x509_parser::der_parser::oid::Oid;
use x509_parser::extensions::GeneralName;
use x509_parser::num_bigint::BigInt;
use x509_parser::prelude::FromDer;

use super::parse;
use crate::compile::secret::{NameCondition, NameKind};
use crate::config::header::StringCondition;

/// A name in a certificate.
pub(super) type Name = (NameKind, String);

/// Whether one of the names meets one of the conditions.
pub(super) fn any_meets(names: &[Name], conditions: &[NameCondition]) -> bool {
    conditions
        .iter()
        .any(|condition| names.iter().any(|name| meets(condition, name)))
}

fn meets(condition: &NameCondition, (kind, name): &Name) -> bool {
    if condition.kind != *kind {
        return false;
    }
    match (&condition.value, kind) {
        (StringCondition::Exact(want) | StringCondition::ExactIgnoreCase(want), NameKind::Dns) => {
            dns_name_covers(name, want)
        }
        (condition, _) => condition.matches(name),
    }
}

/// Whether a name in a certificate covers a host name: its first label may have one wildcard, which stands for any part
/// of the host's first label, unless it is an A-label (RFC 6125 §6.4.3).
fn dns_name_covers(name: &str, host: &str) -> bool {
    let (name, host) = (name.to_ascii_lowercase(), host.to_ascii_lowercase());
    if name == host {
        return true;
    }
    let (Some((pattern, rest)), Some((label, parent))) = (name.split_once('.'), host.split_once('.')) else {
        return false;
    };
    let Some((start, end)) = pattern.split_once('*') else {
        return false;
    };
    let is_plain = !pattern.starts_with("xn--") && !end.contains('*') && !rest.contains('*');
    let fits = label.len() >= start.len() + end.len() && label.starts_with(start) && label.ends_with(end);
    is_plain && fits && rest == parent
}

/// The names of a certificate as text. What is no text is left out, so that it meets nothing.
pub(super) fn subject_alt_names(certificate: &CertificateDer<'_>) -> Result<Vec<Name>, Error> {
    let (_, parsed) = parse(certificate)?;
    let Ok(Some(extension)) = parsed.subject_alternative_name() else {
        return Ok(Vec::new());
    };
    let names = extension.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((NameKind::Dns, (*name).to_owned())),
        GeneralName::URI(name) => Some((NameKind::Uri, (*name).to_owned())),
        GeneralName::RFC822Name(name) => Some((NameKind::Email, (*name).to_owned())),
        GeneralName::IPAddress(bytes) => Some((NameKind::Ip, address(bytes)?)),
        GeneralName::OtherName(kind, value) => Some((NameKind::Other(kind.to_owned()), other_name(value)?)),
        _ => None,
    });
    Ok(names.collect())
}

/// An address in the form of `inet_ntop`, which writes the last 32 bits of IPv4-compatible ones as IPv4 too.
fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(bytes).to_string());
    }
    let bytes = <[u8; 16]>::try_from(bytes).ok()?;
    Some(match bytes {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] if (a, b) != (0, 0) => {
            format!("::{}", Ipv4Addr::new(a, b, c, d))
        }
        bytes => Ipv6Addr::from(bytes).to_string(),
    })
}

/// The value of another name as text, by its type (RFC 5280 §4.2.1.6 allows any): text and times as they are, numbers
/// in decimal digits, identifiers with dots, structures with their encoding. What has no text form is empty.
fn other_name(value: &[u8]) -> Option<String> {
    let (rest, outer) = Any::from_der(value).ok()?;
    if !rest.is_empty() || outer.class() != Class::ContextSpecific || outer.tag() != Tag(0) {
        return None;
    }
    let (rest, inner) = Any::from_der(outer.data).ok()?;
    if !rest.is_empty() {
        return None;
    }
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    match (inner.class(), inner.tag()) {
        (Class::Universal, Tag::Boolean) => Some(if inner.data == [0] { "false" } else { "true" }.to_owned()),
        (Class::Universal, Tag::Integer | Tag::Enumerated) => {
            Some(BigInt::from_signed_bytes_be(inner.data).to_string())
        }
        (Class::Universal, Tag::Oid) => Some(Oid::new(inner.data.into()).to_id_string()),
        // The first byte counts the bits that the last one doesn't use.
        (Class::Universal, Tag::BitString) => text(inner.data.get(1..)?),
        (Class::Universal, Tag::BmpString) => wide(inner.data.chunks_exact(2), inner.data.len() % 2),
        (Class::Universal, Tag::UniversalString) => wide(inner.data.chunks_exact(4), inner.data.len() % 4),
        (Class::Universal, Tag::Set | Tag::Sequence) => text(outer.data),
        (
            Class::Universal,
            Tag::OctetString
            | Tag::PrintableString
            | Tag::T61String
            | Tag::Ia5String
            | Tag::GeneralString
            | Tag::UtcTime
            | Tag::GeneralizedTime
            | Tag::VisibleString
            | Tag::Utf8String,
        ) => text(inner.data),
        _ => Some(String::new()),
    }
}

/// Characters of a fixed width, the most significant byte first. `left` bytes are no whole character.
fn wide<'a>(mut characters: impl Iterator<Item = &'a [u8]>, left: usize) -> Option<String> {
    let character = |bytes: &[u8]| char::from_u32(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)));
    let text = characters.try_fold(String::new(), |mut text, bytes| {
        text.push(character(bytes)?);
        Some(text)
    });
    text.filter(|_| left == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_covers_one_label() {
        assert!(dns_name_covers("*.example.com", "a.example.com"));
        assert!(!dns_name_covers("*.example.com", "example.com"));
        assert!(!dns_name_covers("*.example.com", "a.b.example.com"));
        assert!(dns_name_covers("Edge-Gateway", "edge-gateway"));
        assert!(!dns_name_covers("edge", "edge-gateway"));
    }

    #[test]
    fn a_wildcard_may_stand_for_a_part_of_a_label() {
        assert!(dns_name_covers("a*.example.com", "ab.example.com"));
        assert!(dns_name_covers("a*b.example.com", "ab.example.com"));
        assert!(!dns_name_covers("ab*ba.example.com", "aba.example.com"));
        assert!(!dns_name_covers("a*.example.com", "b.example.com"));
        for (name, host) in [
            ("*a*.example.com", "bab.example.com"),
            ("*.*.com", "a.b.com"),
            ("a.*.com", "a.b.com"),
            ("xn--a*.example.com", "xn--ab.example.com"),
            ("*", "a"),
        ] {
            assert!(!dns_name_covers(name, host), "{name}");
        }
    }

    #[test]
    fn addresses_are_written_as_the_system_writes_them() {
        let written = |text: &str| address(&text.parse::<Ipv6Addr>().unwrap().octets()).unwrap();
        for text in [
            "::",
            "::1",
            "2001:db8::7",
            "::10.0.0.7",
            "::ffff:10.0.0.7",
            "64:ff9b::a00:7",
        ] {
            assert_eq!(written(text), text);
        }
        assert_eq!(address(&[10, 0, 0, 7]).unwrap(), "10.0.0.7");
        assert_eq!(address(&[10, 0, 0, 0, 255, 255, 255, 0]), None);
    }

    /// The value as a certificate has it: `[0] EXPLICIT`.
    fn value(tag: u8, data: &[u8]) -> Option<String> {
        let mut der = vec![0xa0, data.len() as u8 + 2, tag, data.len() as u8];
        der.extend(data);
        other_name(&der)
    }

    #[test]
    fn values_of_other_names_are_text() {
        for (tag, data, text) in [
            (12, &b"user@example.com"[..], "user@example.com"),
            (4, b"octets", "octets"),
            (3, b"\0bits", "bits"),
            (1, b"\xff", "true"),
            (1, b"\0", "false"),
            (2, b"\x01\0", "256"),
            (10, b"\xff", "-1"),
            (6, b"\x2a\x03", "1.2.3"),
            (30, b"\0a\0b", "ab"),
            (28, b"\0\0\0a", "a"),
            (23, b"260101000000Z", "260101000000Z"),
            (0x30, b"\x0c\x01a", "0\u{3}\u{c}\u{1}a"),
            (5, b"", ""),
        ] {
            assert_eq!(value(tag, data).as_deref(), Some(text), "{tag}");
        }
    }

    #[test]
    fn what_is_no_text_is_no_name() {
        assert_eq!(value(12, b"\xff"), None);
        assert_eq!(value(30, b"\0a\0"), None);
        assert_eq!(value(30, b"\xd8\0"), None);
        assert_eq!(other_name(b"\x0c\x01a"), None);
        assert_eq!(other_name(b"\xa0\x03\x0c\x01a\0"), None);
        assert_eq!(other_name(b"\xa0\x04\x0c\x01a\0"), None);
    }
}
