//! The authority that signs our certificates.
//!
//! Each authority has a name of its own: two of one name, one after the other, would leave those who check a chain to
//! guess which of them an issuer is. A new authority is signed by the one before as well, and that certificate stands
//! behind every leaf: who trusts only one of the two accepts the leaf, so nothing depends on who learns of a rotation
//! first. Subjects of authority and leaves differ, because BoringSSL takes a leaf that is named like its issuer for
//! self-signed.

use super::check;
use jiff::{Span, Timestamp, civil::Date, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use std::fmt::Write as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// How long our authority holds, and leaves that are made once for an installation.
pub(super) fn long() -> Span {
    Span::new().years(5)
}

/// An authority that can sign.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, PEM.
    pub(super) certificate: String,
    /// The same, signed by the authority before it, PEM; empty if there is none.
    pub(super) successor: String,
}

/// A certificate, chain included, and its key, both PEM.
#[derive(Clone)]
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// What a leaf is for.
pub(super) struct Leaf<'a> {
    pub(super) common_name: &'a str,
    pub(super) names: &'a [SanType],
    pub(super) lifetime: Span,
}

impl Authority {
    /// Makes a new one, which the one before vouches for.
    pub(super) fn make(before: Option<&Self>, now: Timestamp) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let number = key.public_key_raw().iter().rev().take(4);
        let name = number.fold("edge-gateway-ca-".to_owned(), |mut name, byte| {
            // Writing to a String can't fail.
            let _ = write!(name, "{byte:02x}");
            name
        });
        let parameters = authority_parameters(&name, now);
        let certificate = parameters.self_signed(&key)?.pem();
        let successor = match before {
            Some(before) => parameters.signed_by(&key, &before.issuer)?.pem(),
            None => String::new(),
        };
        Ok(Self {
            issuer: Issuer::new(parameters, key),
            certificate,
            successor,
        })
    }

    /// One that was made before; none if it can't sign, expires, isn't valid yet, or its key is another one.
    pub(super) fn read(certificate: &[u8], key: &[u8], successor: &[u8], now: Timestamp) -> Option<Self> {
        let der = CertificateDer::from_pem_slice(certificate).ok()?;
        let (_, parsed) = X509Certificate::from_der(&der).ok()?;
        let is_valid = check::is_good(&parsed, now.as_second());
        let key = KeyPair::from_pem(std::str::from_utf8(key).ok()?).ok()?;
        if !is_valid || key.public_key_raw() != &*parsed.public_key().subject_public_key.data {
            return None;
        }
        let name = parsed.subject().iter_common_name().next()?.as_str().ok()?;
        let successor = check::still_valid([successor].into_iter(), now.as_second());
        Some(Self {
            issuer: Issuer::new(authority_parameters(name, now), key),
            certificate: check::pem(&der),
            successor: successor.iter().map(check::pem).collect(),
        })
    }

    /// Its key, PEM.
    pub(super) fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Makes a leaf with a new key.
    pub(super) fn sign(&self, leaf: &Leaf<'_>, now: Timestamp) -> Result<Pair, rcgen::Error> {
        let mut parameters = parameters(leaf.common_name, leaf.lifetime, now);
        parameters.subject_alt_names = leaf.names.to_vec();
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &self.issuer)?.pem();
        Ok(Pair {
            certificate: certificate + &self.successor,
            key: key.serialize_pem(),
        })
    }
}

fn authority_parameters(name: &str, now: Timestamp) -> CertificateParams {
    let mut parameters = parameters(name, long(), now);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters
}

fn parameters(common_name: &str, lifetime: Span, now: Timestamp) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, common_name);
    parameters.use_authority_key_identifier_extension = true;
    let today = now.to_zoned(TimeZone::UTC).date();
    // A day of slack in front for clocks that are late.
    let from = today.saturating_sub(Span::new().days(1));
    let part = |number: i8| u8::try_from(number).unwrap_or(1);
    let date = |day: Date| rcgen::date_time_ymd(i32::from(day.year()), part(day.month()), part(day.day()));
    parameters.not_before = date(from);
    parameters.not_after = date(today.saturating_add(lifetime));
    parameters
}
