//! Reading certificates and keys as far as it takes to tell whether they belong together. No cryptography: the public
//! part of an RSA or EC key stands in its private encoding, and where it doesn't, the data plane's check remains.

use crate::api::Timestamp;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, pem::PemObject};
use x509_parser::{
    certificate::X509Certificate,
    der_parser::{asn1_rs::FromDer as _, ber::BerObjectContent, der::parse_der},
    extensions::GeneralName,
    oid_registry,
    revocation_list::CertificateRevocationList,
    x509::X509Name,
};

/// Why something can't be read.
pub(super) enum Error {
    /// No PEM block of the right kind.
    NotPem,
    /// Anything else, for people.
    Other(String),
}

/// What matters of a leaf certificate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Leaf {
    /// DNS names, lower case, sorted.
    pub(super) names: Vec<String>,
    /// The key's algorithm.
    pub(super) algorithm: &'static str,
    /// The first second in which it is good.
    pub(super) not_before: Timestamp,
    /// The last one.
    pub(super) not_after: Timestamp,
    public_key: Vec<u8>,
}

/// What matters of a private key.
pub(super) struct KeyInfo {
    algorithm: &'static str,
    /// The public half, in the encoding of the certificate, where the private encoding has it.
    public_key: Option<Vec<u8>>,
}

impl Leaf {
    /// Whether the private key is this certificate's, as far as can be seen.
    pub(super) fn matches(&self, key: &KeyInfo) -> bool {
        self.algorithm == key.algorithm && key.public_key.as_ref().is_none_or(|public| *public == self.public_key)
    }
}

/// Whether a text is certificates, at least one, and each of them readable.
pub(super) fn is_bundle(pem: &[u8]) -> bool {
    let mut certificates = CertificateDer::pem_slice_iter(pem).peekable();
    let is_readable = |der: Result<CertificateDer<'_>, _>| der.is_ok_and(|der| X509Certificate::from_der(&der).is_ok());
    certificates.peek().is_some() && certificates.all(is_readable)
}

/// The time of a certificate or a list of revoked ones.
pub(super) struct Life {
    /// Whose, for people.
    pub(super) subject: String,
    /// The first second of it.
    pub(super) from: Timestamp,
    /// The last one; none for a list that nobody promises to renew.
    pub(super) to: Option<Timestamp>,
}

/// The times of the certificates of a bundle.
pub(super) fn lives(pem: &[u8]) -> Vec<Life> {
    let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    certificates
        .filter_map(|der| {
            let (_, certificate) = X509Certificate::from_der(&der).ok()?;
            let validity = certificate.validity();
            Some(Life {
                subject: common_name(certificate.subject()),
                from: Timestamp(validity.not_before.timestamp()),
                to: Some(Timestamp(validity.not_after.timestamp())),
            })
        })
        .collect()
}

fn common_name(name: &X509Name<'_>) -> String {
    let common = name.iter_common_name().find_map(|part| part.as_str().ok());
    common.map_or_else(|| name.to_string(), str::to_owned)
}

/// The times of the lists of revoked certificates in a text; none where one can't be read, or there is none.
pub(super) fn revocation_lives(pem: &[u8]) -> Option<Vec<Life>> {
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
    let lists = lists.ok().filter(|lists| !lists.is_empty())?;
    lists
        .iter()
        .map(|der| {
            let (_, list) = CertificateRevocationList::from_der(der).ok()?;
            Some(Life {
                subject: common_name(list.issuer()),
                from: Timestamp(list.last_update().timestamp()),
                to: list.next_update().map(|time| Timestamp(time.timestamp())),
            })
        })
        .collect()
}

/// Reads the first certificate of a chain.
pub(super) fn read_leaf(pem: &[u8]) -> Result<Leaf, Error> {
    let der = CertificateDer::from_pem_slice(pem).map_err(|_| Error::NotPem)?;
    let (_, certificate) = X509Certificate::from_der(&der).map_err(|e| Error::Other(e.to_string()))?;
    let mut names: Vec<String> = certificate
        .subject_alternative_name()
        .ok()
        .flatten()
        .into_iter()
        .flat_map(|san| &san.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_lowercase()),
            _ => None,
        })
        .collect();
    if names.is_empty() {
        names.extend(
            certificate
                .subject()
                .iter_common_name()
                .filter_map(|cn| cn.as_str().ok())
                .map(str::to_lowercase),
        );
    }
    names.sort();
    names.dedup();
    let key = certificate.public_key();
    let algorithm = algorithm(&key.algorithm.algorithm).unwrap_or("unknown");
    let validity = certificate.validity();
    Ok(Leaf {
        names,
        algorithm,
        not_before: Timestamp(validity.not_before.timestamp()),
        not_after: Timestamp(validity.not_after.timestamp()),
        public_key: key.subject_public_key.data.to_vec(),
    })
}

fn algorithm(oid: &x509_parser::der_parser::oid::Oid<'_>) -> Option<&'static str> {
    if *oid == oid_registry::OID_PKCS1_RSAENCRYPTION {
        Some("RSA")
    } else if *oid == oid_registry::OID_KEY_TYPE_EC_PUBLIC_KEY {
        Some("ECDSA")
    } else if *oid == oid_registry::OID_SIG_ED25519 {
        Some("Ed25519")
    } else {
        None
    }
}

/// Reads a private key.
pub(super) fn read_key(pem: &[u8]) -> Result<KeyInfo, Error> {
    let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| unreadable_key(pem))?;
    let info = match &der {
        PrivateKeyDer::Pkcs1(key) => rsa(key.secret_pkcs1_der()),
        PrivateKeyDer::Sec1(key) => ec(key.secret_sec1_der()),
        PrivateKeyDer::Pkcs8(key) => pkcs8(key.secret_pkcs8_der()),
        _ => None,
    };
    info.ok_or_else(|| Error::Other("unable to parse the private key in tls.key".into()))
}

fn unreadable_key(pem: &[u8]) -> Error {
    let text = String::from_utf8_lossy(pem);
    let label = text.lines().find_map(|l| {
        l.trim()
            .strip_prefix("-----BEGIN ")?
            .strip_suffix("-----")
            .map(str::to_owned)
    });
    match label {
        Some(label) if !matches!(&*label, "PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY") => Error::Other(
            format!("{label} key format found in tls.key, supported formats are PKCS1, PKCS8 or EC"),
        ),
        _ => Error::NotPem,
    }
}

/// The items of a DER sequence.
fn sequence(der: &[u8]) -> Option<Vec<BerObjectContent<'_>>> {
    let (_, object) = parse_der(der).ok()?;
    match object.content {
        BerObjectContent::Sequence(items) => Some(items.into_iter().map(|i| i.content).collect()),
        _ => None,
    }
}

/// RSAPrivateKey (RFC 8017 A.1.2): version, modulus, public exponent, …
fn rsa(der: &[u8]) -> Option<KeyInfo> {
    let items = sequence(der)?;
    let integer = |i: usize| match items.get(i) {
        Some(BerObjectContent::Integer(bytes)) => Some(*bytes),
        _ => None,
    };
    let mut body = tlv(0x02, integer(1)?);
    body.extend(tlv(0x02, integer(2)?));
    Some(KeyInfo {
        algorithm: "RSA",
        public_key: Some(tlv(0x30, &body)),
    })
}

/// ECPrivateKey (RFC 5915): version, private key, [0] parameters, [1] public key.
fn ec(der: &[u8]) -> Option<KeyInfo> {
    let items = sequence(der)?;
    let public_key = items.iter().find_map(|item| match item {
        BerObjectContent::Unknown(any) if any.header.raw_tag() == Some(&[0xa1]) => {
            let (_, inner) = parse_der(any.data).ok()?;
            match inner.content {
                BerObjectContent::BitString(_, bits) => Some(bits.data.to_vec()),
                _ => None,
            }
        }
        _ => None,
    });
    Some(KeyInfo {
        algorithm: "ECDSA",
        public_key,
    })
}

/// PrivateKeyInfo (RFC 5208): version, algorithm, private key.
fn pkcs8(der: &[u8]) -> Option<KeyInfo> {
    let items = sequence(der)?;
    let Some(BerObjectContent::Sequence(identifier)) = items.get(1) else {
        return None;
    };
    let Some(BerObjectContent::OID(oid)) = identifier.first().map(|i| &i.content) else {
        return None;
    };
    let Some(BerObjectContent::OctetString(key)) = items.get(2) else {
        return None;
    };
    match algorithm(oid)? {
        "RSA" => rsa(key),
        "ECDSA" => ec(key),
        other => Some(KeyInfo {
            algorithm: other,
            public_key: None,
        }),
    }
}

/// A DER value: tag, length, content.
fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let n = content.len();
    if n < 0x80 {
        out.push(n as u8);
    } else {
        let bytes: Vec<u8> = n.to_be_bytes().into_iter().skip_while(|b| *b == 0).collect();
        out.push(0x80 | bytes.len() as u8);
        out.extend(bytes);
    }
    out.extend_from_slice(content);
    out
}
