//! Whether certificates that are there already can go on serving.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::KeyPair;
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use x509_parser::{
    extensions::{GeneralName, ParsedExtension},
    prelude::{FromDer as _, X509Certificate},
};

/// Seconds before its end at which a certificate is renewed that is made for years: 30 days.
pub(super) const RENEW_BEFORE: i64 = 30 * 86400;

/// A leaf as it lies somewhere, all of it PEM.
pub(super) struct Present<'a> {
    pub(super) certificate: &'a [u8],
    pub(super) key: &'a [u8],
    /// The authorities that the other side trusts.
    pub(super) trusted: &'a [u8],
}

/// What a leaf must be.
pub(super) struct LeafRequirements<'a> {
    /// What it must be for; the other side checks these.
    pub(super) names: &'a [GeneralName<'a>],
    /// So many seconds before its end it is renewed.
    pub(super) renew_before: i64,
}

/// Says why a leaf has to be made anew; none when it can stay.
pub(super) fn fault(present: &Present<'_>, wanted: &LeafRequirements<'_>, now: i64) -> Option<&'static str> {
    let Ok(der) = CertificateDer::from_pem_slice(present.certificate) else {
        return Some("it is missing or can't be read");
    };
    let Ok((_, leaf)) = X509Certificate::from_der(&der) else {
        return Some("it can't be read");
    };
    if !has_begun(&leaf, now) {
        return Some("it isn't valid yet: it was made while the clock was ahead");
    }
    if leaf.validity().not_after.timestamp() < now + wanted.renew_before {
        return Some("it expires");
    }
    if !is_for(&leaf, wanted.names) {
        return Some("it is for other names");
    }
    if !has_key(&leaf, present.key) {
        return Some("its key is another one");
    }
    let is_issued = all(present.trusted).iter().any(|der| {
        let Ok((_, authority)) = X509Certificate::from_der(der) else {
            return false;
        };
        is_good(&authority, now) && has_issued(&authority, &leaf)
    });
    (!is_issued).then_some("its authority is not the one that is trusted, expires, or isn't valid yet")
}

/// Whether an authority is valid, and for a while.
pub(super) fn is_good(authority: &X509Certificate<'_>, now: i64) -> bool {
    has_begun(authority, now) && authority.validity().not_after.timestamp() >= now + RENEW_BEFORE
}

/// Whether the time of a certificate has come: one that is made has a day of slack, and begins later only where the
/// clock was wrong.
fn has_begun(certificate: &X509Certificate<'_>, now: i64) -> bool {
    certificate.validity().not_before.timestamp() <= now
}

/// Certificates in PEM texts that haven't expired, without doubles and in order.
pub(super) fn still_valid<'a>(texts: impl Iterator<Item = &'a [u8]>, now: i64) -> Vec<CertificateDer<'static>> {
    let mut found: Vec<CertificateDer<'static>> = Vec::new();
    for der in texts.flat_map(all) {
        let is_valid = X509Certificate::from_der(&der).is_ok_and(|(_, c)| c.validity().not_after.timestamp() > now);
        if is_valid && !found.contains(&der) {
            found.push(der);
        }
    }
    found
}

/// The certificates of a PEM text; none if it can't be read.
pub(super) fn all(text: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(text).flatten().collect()
}

/// A certificate as text.
pub(super) fn pem(certificate: &CertificateDer<'static>) -> String {
    let text = STANDARD.encode(certificate);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .filter_map(|line| std::str::from_utf8(line).ok())
        .collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}

fn is_for(leaf: &X509Certificate<'_>, wanted: &[GeneralName<'_>]) -> bool {
    let names = leaf.subject_alternative_name().ok().flatten();
    names.is_some_and(|names| wanted.iter().all(|name| names.value.general_names.contains(name)))
}

fn has_key(leaf: &X509Certificate<'_>, key: &[u8]) -> bool {
    let key = std::str::from_utf8(key)
        .ok()
        .and_then(|text| KeyPair::from_pem(text).ok());
    key.is_some_and(|key| key.public_key_raw() == &*leaf.public_key().subject_public_key.data)
}

/// By names and, where both have them, key identifiers: authorities of earlier versions have all one name.
fn has_issued(authority: &X509Certificate<'_>, leaf: &X509Certificate<'_>) -> bool {
    let of = |certificate: &X509Certificate<'_>| {
        certificate
            .extensions()
            .iter()
            .find_map(|e| match e.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
                _ => None,
            })
    };
    let wanted = leaf.extensions().iter().find_map(|e| match e.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref().map(|id| id.0.to_vec()),
        _ => None,
    });
    let own = of(authority);
    leaf.issuer() == authority.subject() && (wanted.is_none() || own.is_none() || wanted == own)
}
