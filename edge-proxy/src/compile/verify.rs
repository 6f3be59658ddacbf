//! Certificate checks as Envoy's validation context defines them, on top of rustls' own.
//!
//! Why own verifiers: Envoy checks the chain against the CA, and names only when the context lists them; it never
//! compares the server name by itself. rustls' web verifier always does. Signatures of the handshake are checked by
//! rustls in every case.

mod client;
mod names;
mod signatures;

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use self::names::subject_alt_names;
use crate::compile::secret::{NameKind, Trust, Validation};
pub(super) use crate::compile::verify::client::ClientVerifier;
pub(super) use crate::compile::verify::signatures::{HandshakeCheck, Signatures};

/// Checks the certificate of a backend.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    handshake: HandshakeCheck,
    validations: Vec<Arc<Validation>>,
    verify_sni: bool,
}

impl ServerVerifier {
    pub(super) fn new(handshake: HandshakeCheck, validations: Vec<Arc<Validation>>, verify_sni: bool) -> Self {
        Self {
            handshake,
            validations,
            verify_sni,
        }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if is_taken_unverified(&self.validations) {
            return Ok(ServerCertVerified::assertion());
        }
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let now = time_of_check(&self.validations, end_entity, now)?;
        if let Some(roots) = self.validations.iter().find_map(|validation| validation.roots.as_ref()) {
            let algorithms = self.handshake.provider().signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms)?;
            if self.validations.iter().any(|validation| !validation.crls.is_empty()) {
                check_revocation(
                    self.handshake.provider(),
                    roots,
                    &self.validations,
                    end_entity,
                    intermediates,
                    now,
                )?;
            }
        }
        if self.verify_sni {
            verify_server_name(&parsed, server_name)?;
        }
        check_contents(&self.validations, end_entity)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.handshake.verify_tls12(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.handshake.verify_tls13(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.handshake.schemes()
    }
}

/// Chains with revocation lists go through the web verifier with a name from the certificate itself, because that is
/// where rustls checks lists.
fn check_revocation(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    validations: &[Arc<Validation>],
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<(), Error> {
    let names = subject_alt_names(end_entity)?;
    let name = names
        .iter()
        .filter(|(kind, _)| *kind == NameKind::Dns)
        .find_map(|(_, name)| ServerName::try_from(name.replace('*', "revocation")).ok())
        .ok_or(Error::InvalidCertificate(CertificateError::NotValidForName))?;
    let crls = validations
        .iter()
        .flat_map(|validation| validation.crls.iter().cloned());
    let builder =
        rustls::client::WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone()).with_crls(crls);
    let builder = if validations.iter().any(|validation| validation.crls_of_leaf) {
        builder.only_check_end_entity_revocation()
    } else {
        builder
    };
    let verifier = builder.build().map_err(|error| Error::General(error.to_string()))?;
    verifier
        .verify_server_cert(end_entity, intermediates, &name, &[], now)
        .map(|_| ())
}

/// Whether nothing about a certificate may refuse its peer.
fn is_taken_unverified(validations: &[Arc<Validation>]) -> bool {
    validations
        .iter()
        .any(|validation| validation.trust == Trust::Unverified)
}

/// The time by which a certificate is judged: now, or where it may be out of date a time at which it is not.
fn time_of_check(
    validations: &[Arc<Validation>],
    certificate: &CertificateDer<'_>,
    now: UnixTime,
) -> Result<UnixTime, Error> {
    if !validations.iter().any(|validation| validation.accepts_expired) {
        return Ok(now);
    }
    let (_, parsed) = parse(certificate)?;
    let validity = parsed.validity();
    let at = |time: i64| u64::try_from(time).unwrap_or(0);
    let (first, last) = (at(validity.not_before.timestamp()), at(validity.not_after.timestamp()));
    let nearest = now.as_secs().max(first).min(last);
    Ok(UnixTime::since_unix_epoch(std::time::Duration::from_secs(nearest)))
}

/// Names and digests. Envoy accepts a certificate when one of the digests fits, of either kind; names come on top.
fn check_contents(validations: &[Arc<Validation>], certificate: &CertificateDer<'_>) -> Result<(), Error> {
    let wrong = |error| Err(Error::InvalidCertificate(error));
    for validation in validations {
        if !validation.names.is_empty() {
            let names = subject_alt_names(certificate)?;
            if !names::any_meets(&names, &validation.names) {
                return wrong(CertificateError::NotValidForName);
            }
        }
        if !(validation.hashes.is_empty() && validation.key_hashes.is_empty()) {
            let by_hash = validation
                .hashes
                .iter()
                .any(|want| Sha256::digest(certificate)[..] == want[..]);
            let (_, parsed) = parse(certificate)?;
            let by_key = validation
                .key_hashes
                .iter()
                .any(|want| Sha256::digest(parsed.public_key().raw)[..] == want[..]);
            if !by_hash && !by_key {
                return wrong(CertificateError::ApplicationVerificationFailure);
            }
        }
    }
    Ok(())
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Result<(&'a [u8], X509Certificate<'a>), Error> {
    X509Certificate::from_der(certificate).map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))
}

/// Chooses a server certificate: the first whose names cover the server name of the client hello and whose key the
/// client can use, else the first that it can use.
#[derive(Debug)]
pub(super) struct CertificateChoice {
    certificates: Vec<Arc<CertifiedKey>>,
}

impl CertificateChoice {
    pub(super) fn new(certificates: Vec<Arc<CertifiedKey>>) -> Self {
        Self { certificates }
    }
}

impl ResolvesServerCert for CertificateChoice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let [only] = self.certificates.as_slice() {
            return Some(only.clone());
        }
        let usable = |certified: &&Arc<CertifiedKey>| certified.key.choose_scheme(hello.signature_schemes()).is_some();
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let covers = |certified: &&Arc<CertifiedKey>| {
            let Some(name) = &name else { return false };
            let leaf = certified
                .cert
                .first()
                .and_then(|leaf| ParsedCertificate::try_from(leaf).ok());
            leaf.is_some_and(|leaf| verify_server_name(&leaf, name).is_ok())
        };
        let chosen = self.certificates.iter().filter(usable).find(covers);
        chosen.or_else(|| self.certificates.iter().find(usable)).cloned()
    }
}

/// Presents the same certificate to every backend that asks.
#[derive(Debug)]
pub(super) struct OneCertificate(pub(super) Arc<CertifiedKey>);

impl ResolvesClientCert for OneCertificate {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}
