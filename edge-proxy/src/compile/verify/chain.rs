//! The way from a peer's certificate to one that is trusted (RFC 5280 §6), as Envoy's BoringSSL goes it.
//!
//! webpki builds it. What it doesn't look at, and BoringSSL does, is looked at here: whether what is trusted is out of
//! date or no authority, and whether keys on the way may sign certificates. A certificate that is itself among those
//! that are trusted needs no way, and one of version 1, of which webpki knows nothing, is verified by the key that
//! signed it.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, Error, OtherError};
use webpki::{
    EndEntityCert, ExpirationPolicy, KeyUsage, RawPublicKeyEntity, RevocationCheckDepth, RevocationOptionsBuilder,
    VerifiedPath,
};
use x509_parser::der_parser::asn1_rs::ToDer;
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

use super::parse;
use crate::compile::secret::{Authorities, Authority, Period, RevocationList, Validation, may_sign};

/// What a certificate is shown for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To a client, by a server.
    Server,
    /// To a server, by a client.
    Client,
}

/// How a certificate's way to an authority is checked.
#[derive(Debug)]
pub(super) struct Chain {
    provider: Arc<CryptoProvider>,
    authorities: Arc<Authorities>,
    /// Each of a validation's lists; none: nothing is asked about what was revoked.
    lists: Vec<Arc<RevocationList>>,
    depth: RevocationCheckDepth,
    /// Whether anything may be out of date.
    accepts_expired: bool,
}

impl Chain {
    /// The way that validations ask for together; `None` where they name no authority.
    pub(super) fn new(provider: &Arc<CryptoProvider>, validations: &[Arc<Validation>]) -> Option<Self> {
        let authorities = validations.iter().find_map(|validation| validation.roots.clone())?;
        let any = |holds: fn(&Validation) -> bool| validations.iter().any(|validation| holds(validation));
        Some(Self {
            provider: Arc::clone(provider),
            authorities,
            lists: validations.iter().flat_map(|v| v.crls.iter().cloned()).collect(),
            depth: match any(|validation| validation.crls_of_leaf) {
                true => RevocationCheckDepth::EndEntity,
                false => RevocationCheckDepth::Chain,
            },
            accepts_expired: any(|validation| validation.accepts_expired),
        })
    }

    /// What it may end at.
    pub(super) fn authorities(&self) -> &Authorities {
        &self.authorities
    }

    /// Checks a peer's certificate.
    pub(super) fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        purpose: Purpose,
    ) -> Result<(), Error> {
        let (_, leaf) = parse(end_entity)?;
        check_usage(&leaf, purpose)?;
        // Where lists are kept, a certificate must be on none of its issuer's, which only a chain tells.
        if self.lists.is_empty() {
            if self.authorities.hold(end_entity) {
                return self.check_time(Period::of(leaf.validity()), now);
            }
            if leaf.version == X509Version::V1 {
                return self.verify_version_1(&leaf, now);
            }
        }
        self.verify_path(end_entity, &leaf, intermediates, now, purpose)
    }

    fn verify_path(
        &self,
        end_entity: &CertificateDer<'_>,
        leaf: &X509Certificate<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        purpose: Purpose,
    ) -> Result<(), Error> {
        let (at, expiration) = match self.accepts_expired {
            true => (Period::of(leaf.validity()).nearest(now), ExpirationPolicy::Ignore),
            false => (now, ExpirationPolicy::Enforce),
        };
        let lists: Vec<_> = match self.accepts_expired {
            true => self.lists.iter().map(|list| list.any_time()).collect(),
            false => self.lists.iter().filter_map(|list| list.at(now)).collect(),
        };
        let revocation = match RevocationOptionsBuilder::new(&lists) {
            Ok(builder) => Some(
                builder
                    .with_depth(self.depth)
                    .with_expiration_policy(expiration)
                    .build(),
            ),
            Err(_) if self.lists.is_empty() => None,
            Err(_) => return Err(wrong(CertificateError::UnknownRevocationStatus)),
        };
        let usage = match purpose {
            Purpose::Server => KeyUsage::server_auth(),
            Purpose::Client => KeyUsage::client_auth(),
        };
        let certificate = EndEntityCert::try_from(end_entity).map_err(refused)?;
        let path = certificate.verify_for_usage(
            self.provider.signature_verification_algorithms.all,
            &self.authorities.store().roots,
            intermediates,
            at,
            usage,
            revocation,
            Some(&|path| self.check_signers(path, now)),
        );
        path.map(drop).map_err(refused)
    }

    /// Whoever signs on the way must be allowed to, and what it ends at must not be out of date.
    fn check_signers(&self, path: &VerifiedPath<'_>, now: UnixTime) -> Result<(), webpki::Error> {
        for intermediate in path.intermediate_certificates() {
            let encoded = intermediate.der();
            let (_, parsed) = X509Certificate::from_der(&encoded).map_err(|_| webpki::Error::BadDer)?;
            if !may_sign(&parsed) {
                return Err(webpki::Error::UnknownIssuer);
            }
        }
        let between = path.intermediate_certificates().count();
        let known = || self.authorities.behind(path.anchor());
        let signers = || known().filter(|authority| authority.signs_over(between));
        if signers().next().is_none() {
            return Err(webpki::Error::UnknownIssuer);
        }
        match signers().any(|authority| self.check_time(authority.validity(), now).is_ok()) {
            true => Ok(()),
            false => Err(webpki::Error::InvalidCertValidity),
        }
    }

    /// A certificate of version 1 has no extensions: it can't say what it is for, and no other may stand between it and
    /// an authority. `openssl x509 -req` made such ones until OpenSSL 3.2.
    fn verify_version_1(&self, leaf: &X509Certificate<'_>, now: UnixTime) -> Result<(), Error> {
        self.check_time(Period::of(leaf.validity()), now)?;
        let has_signed = |authority: &&Authority| authority.signs_over(0) && self.has_signed(authority.encoded(), leaf);
        let mut signers = self.authorities.all().iter().filter(has_signed).peekable();
        if signers.peek().is_none() {
            return Err(wrong(CertificateError::UnknownIssuer));
        }
        match signers.any(|authority| self.check_time(authority.validity(), now).is_ok()) {
            true => Ok(()),
            false => Err(wrong(CertificateError::Expired)),
        }
    }

    fn has_signed(&self, issuer: &CertificateDer<'_>, certificate: &X509Certificate<'_>) -> bool {
        let Ok((_, issuer)) = parse(issuer) else { return false };
        if issuer.subject().as_raw() != certificate.issuer().as_raw() {
            return false;
        }
        let key = SubjectPublicKeyInfoDer::from(issuer.public_key().raw);
        let Ok(key) = RawPublicKeyEntity::try_from(&key) else {
            return false;
        };
        let (message, signature) = (certificate.tbs_certificate.as_ref(), &certificate.signature_value.data);
        let algorithms = self.provider.signature_verification_algorithms.all.iter();
        let named = algorithms.filter(|algorithm| is_named(certificate, algorithm.signature_alg_id().as_ref()));
        named
            .into_iter()
            .any(|algorithm| key.verify_signature(*algorithm, message, signature).is_ok())
    }

    fn check_time(&self, validity: Period, now: UnixTime) -> Result<(), Error> {
        match self.accepts_expired || validity.holds(now) {
            true => Ok(()),
            false => Err(wrong(CertificateError::Expired)),
        }
    }
}

/// Whether a certificate names this algorithm, of which webpki knows the inside: identifier and parameters.
fn is_named(certificate: &X509Certificate<'_>, algorithm: &[u8]) -> bool {
    let named = &certificate.signature_algorithm;
    let identifier = named.algorithm.to_der_vec();
    let parameters = named.parameters.as_ref().map_or(Ok(Vec::new()), ToDer::to_der_vec);
    match (identifier, parameters) {
        (Ok(identifier), Ok(parameters)) => [identifier, parameters].concat() == algorithm,
        _ => false,
    }
}

/// A key that says what it is for must be for signatures, by which a peer proves that it has it (RFC 5280 §4.2.1.3),
/// and a certificate that says what it is for must be for this (§4.2.1.12).
fn check_usage(certificate: &X509Certificate<'_>, purpose: Purpose) -> Result<(), Error> {
    let bad = |_| wrong(CertificateError::BadEncoding);
    let key = certificate.key_usage().map_err(bad)?;
    let purposes = certificate.extended_key_usage().map_err(bad)?;
    let signs = key.is_none_or(|key| key.value.digital_signature());
    let serves = purposes.is_none_or(|known| {
        let this = match purpose {
            Purpose::Server => known.value.server_auth,
            Purpose::Client => known.value.client_auth,
        };
        this || known.value.any
    });
    match signs && serves {
        true => Ok(()),
        false => Err(wrong(CertificateError::InvalidPurpose)),
    }
}

fn wrong(error: CertificateError) -> Error {
    Error::InvalidCertificate(error)
}

/// An error of webpki in rustls' words, as far as our own are made from these.
fn refused(error: webpki::Error) -> Error {
    use webpki::Error as E;
    wrong(match error {
        E::BadDer | E::BadDerTime | E::TrailingData(_) => CertificateError::BadEncoding,
        E::UnknownIssuer => CertificateError::UnknownIssuer,
        E::CertExpired { time, not_after } => CertificateError::ExpiredContext { time, not_after },
        E::InvalidCertValidity => CertificateError::Expired,
        E::CertNotValidYet { time, not_before } => CertificateError::NotValidYetContext { time, not_before },
        E::CertRevoked => CertificateError::Revoked,
        E::UnknownRevocationStatus => CertificateError::UnknownRevocationStatus,
        E::CrlExpired { time, next_update } => CertificateError::ExpiredRevocationListContext { time, next_update },
        E::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        E::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        other => CertificateError::Other(OtherError(Arc::new(other))),
    })
}
