//! Certificates that are trusted, with what a trust anchor of webpki leaves out: it is a name and a key.

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use x509_parser::prelude::{FromDer, Validity, X509Certificate, X509Version};

use crate::compile::field::{At, Rejection};

/// Certificates that are trusted.
#[derive(Debug)]
pub struct Authorities {
    store: RootCertStore,
    /// In the order of the store.
    certificates: Vec<Authority>,
}

/// What else a trusted certificate says.
#[derive(Debug)]
pub(in crate::compile) struct Authority {
    encoded: CertificateDer<'static>,
    validity: Period,
    /// Whether it may sign others: it is an authority, and where it says what its key is for, this is among it.
    signs: bool,
    /// How many may stand between it and a peer's certificate (RFC 5280 §4.2.1.9); `None`: any number.
    most_between: Option<u32>,
}

/// From when until when something holds, both included (RFC 5280 §4.1.2.5).
#[derive(Clone, Copy, Debug)]
pub(in crate::compile) struct Period {
    first: u64,
    last: u64,
}

impl Period {
    pub(in crate::compile) fn of(validity: &Validity) -> Self {
        let at = |time: i64| u64::try_from(time).unwrap_or(0);
        Self {
            first: at(validity.not_before.timestamp()),
            last: at(validity.not_after.timestamp()),
        }
    }

    pub(in crate::compile) fn holds(self, now: UnixTime) -> bool {
        (self.first..=self.last).contains(&now.as_secs())
    }

    /// The time within that is nearest.
    pub(in crate::compile) fn nearest(self, now: UnixTime) -> UnixTime {
        let nearest = now.as_secs().max(self.first).min(self.last);
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(nearest))
    }
}

impl Authorities {
    /// Those of a file of PEM.
    pub(super) fn read(at: &At<'_>, pem: &[u8]) -> Result<Self, Rejection> {
        let mut store = RootCertStore::empty();
        let mut certificates = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let encoded = certificate.map_err(|error| at.error(format!("is not PEM: {error}")))?;
            let unusable = |error: String| at.error(format!("holds an unusable certificate: {error}"));
            store
                .add(encoded.clone())
                .map_err(|error| unusable(error.to_string()))?;
            let (_, parsed) = X509Certificate::from_der(&encoded).map_err(|error| unusable(error.to_string()))?;
            certificates.push(Authority {
                validity: Period::of(parsed.validity()),
                signs: is_authority(&parsed) && may_sign(&parsed),
                most_between: path_length(&parsed),
                encoded,
            });
        }
        if store.is_empty() {
            return Err(at.error("holds no certificate"));
        }
        Ok(Self { store, certificates })
    }

    /// Where chains may end.
    pub(in crate::compile) fn store(&self) -> &RootCertStore {
        &self.store
    }

    /// Whether this very certificate is among them.
    pub(in crate::compile) fn hold(&self, certificate: &CertificateDer<'_>) -> bool {
        self.certificates.iter().any(|known| known.encoded == *certificate)
    }

    /// Those that have an anchor's name and key. There may be several: a certificate that was made again for its key.
    pub(in crate::compile) fn behind<'a>(
        &'a self,
        anchor: &'a TrustAnchor<'_>,
    ) -> impl Iterator<Item = &'a Authority> + use<'a> {
        let is_it = |known: &TrustAnchor<'_>| {
            known.subject == anchor.subject && known.subject_public_key_info == anchor.subject_public_key_info
        };
        let all = self.store.roots.iter().zip(&self.certificates);
        all.filter(move |(known, _)| is_it(known))
            .map(|(_, authority)| authority)
    }

    /// All of them.
    pub(in crate::compile) fn all(&self) -> &[Authority] {
        &self.certificates
    }
}

impl Authority {
    /// Whether it may sign a peer's certificate with so many others between.
    pub(in crate::compile) fn signs_over(&self, between: usize) -> bool {
        let is_near = |most: u32| u32::try_from(between).is_ok_and(|between| between <= most);
        self.signs && self.most_between.is_none_or(is_near)
    }

    /// When it holds.
    pub(in crate::compile) fn validity(&self) -> Period {
        self.validity
    }

    /// The certificate.
    pub(in crate::compile) fn encoded(&self) -> &CertificateDer<'static> {
        &self.encoded
    }
}

/// Whether a certificate is one of an authority (RFC 5280 §4.2.1.9). webpki asks that of what stands between alone: a
/// peer's own certificate that is trusted must not vouch for others. One of version 1 can't say it; its own signature
/// does.
fn is_authority(certificate: &X509Certificate<'_>) -> bool {
    let is_root = || certificate.subject().as_raw() == certificate.issuer().as_raw();
    match certificate.basic_constraints() {
        Ok(Some(constraints)) => constraints.value.ca,
        Ok(None) => certificate.version == X509Version::V1 && is_root(),
        Err(_) => false,
    }
}

fn path_length(certificate: &X509Certificate<'_>) -> Option<u32> {
    let constraints = certificate.basic_constraints().ok().flatten()?;
    constraints.value.path_len_constraint
}

/// Whether a certificate's key may sign others (RFC 5280 §4.2.1.3): one that says what its key is for must say that.
pub(in crate::compile) fn may_sign(certificate: &X509Certificate<'_>) -> bool {
    match certificate.key_usage() {
        Ok(usage) => usage.is_none_or(|usage| usage.value.key_cert_sign()),
        Err(_) => false,
    }
}
