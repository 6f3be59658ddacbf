//! Which algorithms the signatures of a handshake may have: those that a peer proves its key with, and our own.
//! Signatures within certificates are another matter, as in BoringSSL.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerIncompatible, SignatureAlgorithm, SignatureScheme};

use webpki::RawPublicKeyEntity;

use crate::compile::field::{At, Rejection};

/// The algorithms that are allowed, the preferred ones first; `None`: all.
#[derive(Clone, Debug)]
pub(in crate::compile) struct Signatures(Option<Arc<[SignatureScheme]>>);

impl Signatures {
    /// Those of a list of names, all if it is empty. As with suites, what we don't have is not offered.
    pub(in crate::compile) fn new(
        at: &At<'_>,
        names: &[String],
        supported: &[SignatureScheme],
    ) -> Result<Self, Rejection> {
        if names.is_empty() {
            return Ok(Self(None));
        }
        let mut allowed = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let scheme = scheme(name).ok_or_else(|| at.index(index).error(format!("{name:?} is not known")))?;
            if supported.contains(&scheme) {
                allowed.push(scheme);
            }
        }
        if allowed.is_empty() {
            return Err(at.error("none of them is supported by this proxy"));
        }
        Ok(Self(Some(allowed.into())))
    }

    /// A key that signs with these alone.
    pub(in crate::compile) fn restrict(&self, certified: Arc<CertifiedKey>) -> Arc<CertifiedKey> {
        let Some(allowed) = &self.0 else {
            return certified;
        };
        let key = RestrictedKey {
            key: Arc::clone(&certified.key),
            allowed: Arc::clone(allowed),
        };
        Arc::new(CertifiedKey {
            cert: certified.cert.clone(),
            key: Arc::new(key),
            ocsp: certified.ocsp.clone(),
        })
    }
}

/// The names of algorithms in a handshake, as BoringSSL reads them.
fn scheme(name: &str) -> Option<SignatureScheme> {
    Some(match name {
        "rsa_pkcs1_sha1" => SignatureScheme::RSA_PKCS1_SHA1,
        "rsa_pkcs1_sha256" => SignatureScheme::RSA_PKCS1_SHA256,
        "rsa_pkcs1_sha384" => SignatureScheme::RSA_PKCS1_SHA384,
        "rsa_pkcs1_sha512" => SignatureScheme::RSA_PKCS1_SHA512,
        "rsa_pss_rsae_sha256" => SignatureScheme::RSA_PSS_SHA256,
        "rsa_pss_rsae_sha384" => SignatureScheme::RSA_PSS_SHA384,
        "rsa_pss_rsae_sha512" => SignatureScheme::RSA_PSS_SHA512,
        "ecdsa_sha1" => SignatureScheme::ECDSA_SHA1_Legacy,
        "ecdsa_secp256r1_sha256" => SignatureScheme::ECDSA_NISTP256_SHA256,
        "ecdsa_secp384r1_sha384" => SignatureScheme::ECDSA_NISTP384_SHA384,
        "ecdsa_secp521r1_sha512" => SignatureScheme::ECDSA_NISTP521_SHA512,
        "ed25519" => SignatureScheme::ED25519,
        _ => return None,
    })
}

/// A key that signs with the allowed algorithms alone.
#[derive(Debug)]
struct RestrictedKey {
    key: Arc<dyn SigningKey>,
    allowed: Arc<[SignatureScheme]>,
}

impl SigningKey for RestrictedKey {
    /// The first that the key can do and the peer takes: our order decides.
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let both = self.allowed.iter().filter(|scheme| offered.contains(scheme));
        both.into_iter().find_map(|scheme| self.key.choose_scheme(&[*scheme]))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.key.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}

/// How both of rustls's traits for verifiers ask about the handshake, for a type with a [`HandshakeCheck`] in its field
/// `handshake`. The traits have no common one.
macro_rules! handshake_methods {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &::rustls::pki_types::CertificateDer<'_>,
            dss: &::rustls::DigitallySignedStruct,
        ) -> Result<::rustls::client::danger::HandshakeSignatureValid, ::rustls::Error> {
            self.handshake.verify_tls12(message, cert, dss)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &::rustls::pki_types::CertificateDer<'_>,
            dss: &::rustls::DigitallySignedStruct,
        ) -> Result<::rustls::client::danger::HandshakeSignatureValid, ::rustls::Error> {
            self.handshake.verify_tls13(message, cert, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<::rustls::SignatureScheme> {
            self.handshake.schemes()
        }
    };
}
pub(super) use handshake_methods;

/// Checks that a peer holds the key of its certificate.
#[derive(Debug)]
pub(in crate::compile) struct HandshakeCheck {
    provider: Arc<CryptoProvider>,
    signatures: Signatures,
}

impl HandshakeCheck {
    /// A check by what the provider can do and the configuration allows.
    pub(in crate::compile) fn new(provider: Arc<CryptoProvider>, signatures: Signatures) -> Self {
        Self { provider, signatures }
    }

    /// What verifies certificates.
    pub(super) fn provider(&self) -> &Arc<CryptoProvider> {
        &self.provider
    }

    /// What peers are offered.
    pub(super) fn schemes(&self) -> Vec<SignatureScheme> {
        match &self.signatures.0 {
            Some(allowed) => allowed.to_vec(),
            None => self.provider.signature_verification_algorithms.supported_schemes(),
        }
    }

    /// Verifies a signature of TLS 1.2.
    pub(super) fn verify_tls12(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_scheme(signature.scheme)?;
        let algorithms = &self.provider.signature_verification_algorithms;
        match own_key(certificate)? {
            Some(key) => verify_by_key(&key, message, signature, algorithms),
            None => verify_tls12_signature(message, certificate, signature, algorithms),
        }
    }

    /// Verifies a signature of TLS 1.3.
    pub(super) fn verify_tls13(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_scheme(signature.scheme)?;
        let algorithms = &self.provider.signature_verification_algorithms;
        match own_key(certificate)? {
            Some(key) => verify_tls13_signature_with_raw_key(message, &key, signature, algorithms),
            None => verify_tls13_signature(message, certificate, signature, algorithms),
        }
    }

    /// rustls leaves it to verifiers whether a peer uses what it was offered.
    fn check_scheme(&self, scheme: SignatureScheme) -> Result<(), Error> {
        match &self.signatures.0 {
            Some(allowed) if !allowed.contains(&scheme) => Err(PeerIncompatible::NoSignatureSchemesInCommon.into()),
            _ => Ok(()),
        }
    }
}

/// The key of a certificate that rustls doesn't read: one of version 1, or with an extension that nobody knows. Whether
/// such a one is accepted has been said before; here its peer proves that it has the key.
fn own_key(certificate: &CertificateDer<'_>) -> Result<Option<SubjectPublicKeyInfoDer<'static>>, Error> {
    if ParsedCertificate::try_from(certificate).is_ok() {
        return Ok(None);
    }
    let (_, parsed) = super::parse(certificate)?;
    Ok(Some(parsed.public_key().raw.to_vec().into()))
}

/// A signature of TLS 1.2, whose schemes name no curve (RFC 8446 §4.2.3): the first algorithm that is of the key's
/// kind.
fn verify_by_key(
    key: &SubjectPublicKeyInfoDer<'_>,
    message: &[u8],
    signature: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let bad = Error::InvalidCertificate(CertificateError::BadSignature);
    let key = RawPublicKeyEntity::try_from(key).map_err(|_| bad.clone())?;
    let known = algorithms
        .mapping
        .iter()
        .find(|(scheme, _)| *scheme == signature.scheme);
    let mut possible = known.into_iter().flat_map(|(_, algorithms)| algorithms.iter());
    match possible.any(|algorithm| key.verify_signature(*algorithm, message, signature.signature()).is_ok()) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(bad),
    }
}
