//! Whether certificates that are there already can go on serving.

use super::TlsFiles;
use rcgen::KeyPair;
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use std::{fs, path::Path};
use x509_parser::{
    extensions::{GeneralName, ParsedExtension},
    prelude::{FromDer as _, X509Certificate},
};

/// Seconds before its end at which a certificate is renewed: 30 days.
const RENEW_BEFORE: i64 = 30 * 86400;

/// Says why a leaf has to be made anew; none when it can stay. `name` is what the other side checks.
pub(super) fn fault(files: &TlsFiles, name: &str, now: i64) -> Option<&'static str> {
    let Some(der) = first(&files.certificate) else {
        return Some("it is missing or can't be read");
    };
    let Ok((_, leaf)) = X509Certificate::from_der(&der) else {
        return Some("it can't be read");
    };
    if leaf.validity().not_after.timestamp() < now + RENEW_BEFORE {
        return Some("it expires");
    }
    if !is_for(&leaf, name) {
        return Some("it is for other names");
    }
    if !has_key(&leaf, &files.key) {
        return Some("its key is another one");
    }
    let is_issued = all(&files.authority).iter().any(|der| {
        let Ok((_, authority)) = X509Certificate::from_der(der) else {
            return false;
        };
        let is_valid = authority.validity().not_after.timestamp() >= now + RENEW_BEFORE;
        is_valid && has_issued(&authority, &leaf)
    });
    (!is_issued).then_some("its authority is not the one that is trusted, or expires")
}

/// The key of an authority that can sign, in PEM; none when there is no such authority.
pub(super) fn authority(files: &TlsFiles, now: i64) -> Option<KeyPair> {
    let der = first(&files.certificate)?;
    let (_, authority) = X509Certificate::from_der(&der).ok()?;
    let is_valid = authority.validity().not_after.timestamp() >= now + RENEW_BEFORE;
    let key = KeyPair::from_pem(&fs::read_to_string(&files.key).ok()?).ok()?;
    (is_valid && key.public_key_raw() == &*authority.public_key().subject_public_key.data).then_some(key)
}

/// Certificates in PEM files that haven't expired, without doubles and in order.
pub(super) fn still_valid<'a>(files: impl Iterator<Item = &'a Path>, now: i64) -> Vec<CertificateDer<'static>> {
    let mut found: Vec<CertificateDer<'static>> = Vec::new();
    for der in files.flat_map(all) {
        let is_valid = X509Certificate::from_der(&der).is_ok_and(|(_, c)| c.validity().not_after.timestamp() > now);
        if is_valid && !found.contains(&der) {
            found.push(der);
        }
    }
    found
}

/// The certificates of a PEM file; none if it can't be read.
pub(super) fn all(path: &Path) -> Vec<CertificateDer<'static>> {
    let text = fs::read(path).unwrap_or_default();
    CertificateDer::pem_slice_iter(&text).flatten().collect()
}

fn first(path: &Path) -> Option<CertificateDer<'static>> {
    all(path).into_iter().next()
}

fn is_for(leaf: &X509Certificate<'_>, name: &str) -> bool {
    let names = leaf.subject_alternative_name().ok().flatten();
    names.is_some_and(|names| names.value.general_names.contains(&GeneralName::DNSName(name)))
}

fn has_key(leaf: &X509Certificate<'_>, path: &Path) -> bool {
    let key = fs::read_to_string(path)
        .ok()
        .and_then(|text| KeyPair::from_pem(&text).ok());
    key.is_some_and(|key| key.public_key_raw() == &*leaf.public_key().subject_public_key.data)
}

/// By names and, where both have them, key identifiers: successive authorities have one name.
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
