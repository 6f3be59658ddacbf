//! The certificate that a client has shown, as backends (`x-forwarded-client-cert`) and logs are told of it, and what
//! was agreed on with the client.
//!
//! The text of one element of the field in Envoy's form, made when a request first needs it and kept for the
//! connection.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Write;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use data_encoding::HEXLOWER;
use http::HeaderValue;
use rustls::pki_types::CertificateDer;
use rustls::{CipherSuite, ProtocolVersion};
use sha2::{Digest, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::config::access_log::PeerPart;
use crate::config::http_manager::CertificateDetails;
use crate::config::tls::Uris;
use crate::transport::Transport;

/// What was agreed on with a client in TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) version: ProtocolVersion,
    pub(crate) suite: CipherSuite,
}

impl Agreed {
    /// On a connection, if it speaks TLS.
    pub(crate) fn of(transport: &Transport) -> Option<Self> {
        let Transport::ServerTls(stream) = transport else {
            return None;
        };
        let session = stream.get_ref().1;
        Some(Self {
            version: session.protocol_version()?,
            suite: session.negotiated_cipher_suite()?.suite(),
        })
    }

    /// The version's name.
    pub(crate) fn version_name(self) -> Option<&'static str> {
        match self.version {
            ProtocolVersion::TLSv1_2 => Some("TLSv1.2"),
            ProtocolVersion::TLSv1_3 => Some("TLSv1.3"),
            _ => None,
        }
    }

    /// The suite's name, as OpenSSL has it.
    pub(crate) fn suite_name(self) -> Option<&'static str> {
        Some(match self.suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
            CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
            CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
            CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
            CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
            CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
            _ => return None,
        })
    }
}

/// The certificate of a client.
#[derive(Debug)]
pub(crate) struct PeerCertificate {
    /// The client's own first.
    chain: Box<[CertificateDer<'static>]>,
    /// Those in our own, which it was shown.
    own: Uris,
    told: RefCell<Option<(CertificateDetails, Option<HeaderValue>)>>,
}

impl PeerCertificate {
    /// What the client of a connection has shown, if anything.
    pub(crate) fn of(transport: &Transport, own: Uris) -> Option<Self> {
        let Transport::ServerTls(stream) = transport else {
            return None;
        };
        let shown = stream.get_ref().1.peer_certificates()?;
        let chain: Box<[_]> = shown.iter().map(|one| one.clone().into_owned()).collect();
        (!chain.is_empty()).then(|| Self {
            chain,
            own,
            told: RefCell::default(),
        })
    }

    /// What it says of one thing; `None` where it says nothing of it, or can't be read.
    pub(crate) fn says(&self, part: PeerPart) -> Option<String> {
        let leaf = self.chain.first()?;
        let (_, parsed) = X509Certificate::from_der(leaf).ok()?;
        let said = match part {
            PeerPart::Subject => name(parsed.subject()),
            PeerPart::Issuer => name(parsed.issuer()),
            PeerPart::Serial => HEXLOWER.encode(parsed.raw_serial()),
            PeerPart::Fingerprint => HEXLOWER.encode(&Sha256::digest(leaf)),
            PeerPart::Pem => escaped_pem(leaf),
            PeerPart::Uris | PeerPart::Hosts | PeerPart::Addresses | PeerPart::Mailboxes => {
                alternatives(&parsed, part).collect::<Vec<_>>().join(",")
            }
        };
        Some(said).filter(|said| !said.is_empty())
    }

    /// When it begins to hold, and when it ends.
    pub(crate) fn validity(&self) -> Option<(SystemTime, SystemTime)> {
        let (_, parsed) = X509Certificate::from_der(self.chain.first()?).ok()?;
        let validity = parsed.validity();
        let time = |timestamp: i64| {
            let since = Duration::from_secs(u64::try_from(timestamp).unwrap_or_default());
            SystemTime::UNIX_EPOCH + since
        };
        Some((
            time(validity.not_before.timestamp()),
            time(validity.not_after.timestamp()),
        ))
    }

    /// The element with these details; `None` when the certificate can't be read.
    pub(crate) fn text(&self, details: CertificateDetails) -> Option<HeaderValue> {
        let mut told = self.told.borrow_mut();
        match &*told {
            Some((of, text)) if *of == details => text.clone(),
            _ => {
                let text = element(&self.chain, &self.own, details).and_then(|text| HeaderValue::try_from(text).ok());
                *told = Some((details, text.clone()));
                text
            }
        }
    }
}

/// The alternative names of a certificate that are of a kind.
fn alternatives<'a>(certificate: &'a X509Certificate<'a>, kind: PeerPart) -> impl Iterator<Item = Cow<'a, str>> {
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.map_or(&[][..], |names| &names.value.general_names);
    names.iter().filter_map(move |name| alternative(name, kind))
}

/// An alternative name, if it is of that kind.
fn alternative<'a>(name: &GeneralName<'a>, kind: PeerPart) -> Option<Cow<'a, str>> {
    match (name, kind) {
        (GeneralName::URI(uri), PeerPart::Uris) => Some(Cow::Borrowed(uri)),
        (GeneralName::DNSName(host), PeerPart::Hosts) => Some(Cow::Borrowed(host)),
        (GeneralName::RFC822Name(mailbox), PeerPart::Mailboxes) => Some(Cow::Borrowed(mailbox)),
        (GeneralName::IPAddress(bytes), PeerPart::Addresses) => {
            let address = match bytes.len() {
                4 => <[u8; 4]>::try_from(*bytes).ok().map(IpAddr::from),
                _ => <[u8; 16]>::try_from(*bytes).ok().map(IpAddr::from),
            };
            address.map(|address| Cow::Owned(address.to_string()))
        }
        _ => None,
    }
}

/// What a client is called by rules; `None` where it doesn't speak TLS. As in Envoy, who has shown no certificate has
/// an empty subject. A certificate that can't be read has no names.
pub(crate) fn names(agreed: Option<Agreed>, certificate: Option<&PeerCertificate>) -> Option<Vec<String>> {
    agreed.map(|_| match certificate {
        None => vec![String::new()],
        Some(certificate) => names_in(&certificate.chain).unwrap_or_default(),
    })
}

/// The names by which a certificate says who its owner is, in Envoy's order: URIs, host names, the subject.
fn names_in(chain: &[CertificateDer<'_>]) -> Option<Vec<String>> {
    let (_, parsed) = X509Certificate::from_der(chain.first()?).ok()?;
    let uris = alternatives(&parsed, PeerPart::Uris);
    let hosts = alternatives(&parsed, PeerPart::Hosts);
    let mut names: Vec<String> = uris.chain(hosts).map(Cow::into_owned).collect();
    names.push(name(parsed.subject()));
    Some(names)
}

/// The parts in Envoy's order.
fn element(chain: &[CertificateDer<'_>], own: &[Box<str>], details: CertificateDetails) -> Option<String> {
    let leaf = chain.first()?;
    let (_, parsed) = X509Certificate::from_der(leaf).ok()?;
    let mut text = String::new();
    for uri in own {
        let _ = write!(text, "By={uri};");
    }
    let _ = write!(text, "Hash={}", HEXLOWER.encode(&Sha256::digest(leaf)));
    if details.certificate {
        let _ = write!(text, ";Cert=\"{}\"", escaped_pem(leaf));
    }
    if details.chain {
        let chain: String = chain.iter().map(escaped_pem).collect();
        let _ = write!(text, ";Chain=\"{chain}\"");
    }
    if details.subject {
        let _ = write!(text, ";Subject=\"{}\"", name(parsed.subject()));
    }
    if details.uri {
        let before = text.len();
        for uri in alternatives(&parsed, PeerPart::Uris) {
            let _ = write!(text, ";URI={uri}");
        }
        // As in Envoy the key is there even when there is none.
        if text.len() == before {
            text.push_str(";URI=");
        }
    }
    if details.dns {
        for host in alternatives(&parsed, PeerPart::Hosts) {
            let _ = write!(text, ";DNS={host}");
        }
    }
    Some(text)
}

/// PEM (RFC 7468), with what a field can't hold escaped by per cent.
fn escaped_pem(certificate: &CertificateDer<'_>) -> String {
    let mut text = String::from("-----BEGIN%20CERTIFICATE-----%0A");
    for (index, char) in STANDARD.encode(certificate).chars().enumerate() {
        if index > 0 && index % 64 == 0 {
            text.push_str("%0A");
        }
        match char {
            '+' => text.push_str("%2B"),
            '/' => text.push_str("%2F"),
            '=' => text.push_str("%3D"),
            other => text.push(other),
        }
    }
    text.push_str("%0A-----END%20CERTIFICATE-----%0A");
    text
}

/// A name as RFC 2253 writes it: the last part first.
fn name(name: &X509Name<'_>) -> String {
    let parts: Vec<String> = name
        .iter_rdn()
        .map(|part| backwards(part.iter().map(attribute).collect(), "+"))
        .collect();
    backwards(parts, ",")
}

fn backwards(mut parts: Vec<String>, between: &str) -> String {
    parts.reverse();
    parts.join(between)
}

/// What OpenSSL, and Envoy with it, calls the types of attributes.
const TYPES: [(&str, &str); 26] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.16", "postalAddress"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.20", "telephoneNumber"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
    ("1.2.840.113549.1.9.8", "unstructuredAddress"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let oid = attribute.attr_type().to_id_string();
    let known = TYPES.iter().find(|(number, _)| *number == oid);
    match (known, attribute.as_str()) {
        (Some((_, short)), Ok(text)) => format!("{short}={}", escaped(text)),
        (Some((_, short)), Err(_)) => format!("{short}={}", dumped(attribute)),
        (None, _) => format!("{oid}={}", dumped(attribute)),
    }
}

/// The value's own encoding in hexadecimal digits, with tag and length (RFC 2253 §2.4).
fn dumped(attribute: &AttributeTypeAndValue<'_>) -> String {
    let (value, content) = (attribute.attr_value(), attribute.as_slice());
    let constructed = u32::from(value.header.is_constructed()) << 5;
    let tag = value.tag().0 | constructed | u32::from(value.class() as u8) << 6;
    let mut text = format!("#{tag:02X}");
    match content.len() {
        short @ ..0x80 => drop(write!(text, "{short:02X}")),
        long => {
            let digits = format!("{long:X}");
            let bytes = digits.len().div_ceil(2);
            let _ = write!(text, "{:02X}{long:0width$X}", 0x80 | bytes, width = 2 * bytes);
        }
    }
    for byte in content {
        let _ = write!(text, "{byte:02X}");
    }
    text
}

fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let last = value.len().saturating_sub(1);
    for (index, byte) in value.bytes().enumerate() {
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => {
                text.push('\\');
                text.push(char::from(byte));
            }
            b'#' if index == 0 => text.push_str("\\#"),
            b' ' if index == 0 || index == last => text.push_str("\\ "),
            b' '..=b'~' => text.push(char::from(byte)),
            other => {
                let _ = write!(text, "\\{other:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As OpenSSL's `X509_NAME_print_ex` writes it with `XN_FLAG_RFC2253`.
    #[test]
    fn a_subject_is_written_backwards_with_what_nobody_knows_in_its_encoding() {
        let several = "301006 0A0992268993F22C640101 0C027531";
        let der = format!("302C 311C 3008 0603550403 0C016D {several} 310C 300A 06032A0304 0C03666F6F");
        let digits: Vec<u8> = der.bytes().filter(u8::is_ascii_hexdigit).collect();
        let bytes: Vec<u8> = digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        let (_, parsed) = X509Name::from_der(&bytes).unwrap();
        assert_eq!(name(&parsed), "1.2.3.4=#0C03666F6F,UID=u1+CN=m");
    }
}
