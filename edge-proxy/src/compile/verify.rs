//! Certificate checks as Envoy's validation context defines them, on top of rustls' own.
//!
//! Why own verifiers: Envoy checks the chain against the CA, and names only when the context lists them; it never
//! compares the server name by itself. rustls' web verifier always does. Signatures of the handshake are checked by
//! rustls in every case.

mod chain;
mod client;
mod names;
mod signatures;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, SignatureScheme};
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use self::chain::{Chain, Purpose};
use self::names::subject_alt_names;
use crate::compile::secret::{NameKind, Trust, Validation};
pub(super) use crate::compile::verify::client::ClientVerifier;
pub(super) use crate::compile::verify::signatures::{HandshakeCheck, Signatures};
use crate::config::tls::Uris;

/// Checks the certificate of a backend.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    handshake: HandshakeCheck,
    /// The way to an authority; `None` where nobody is trusted by name.
    chain: Option<Chain>,
    validations: Vec<Arc<Validation>>,
    verify_sni: bool,
}

impl ServerVerifier {
    pub(super) fn new(handshake: HandshakeCheck, validations: Vec<Arc<Validation>>, verify_sni: bool) -> Self {
        Self {
            chain: Chain::new(handshake.provider(), &validations),
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
        if let Some(chain) = &self.chain {
            chain.verify(end_entity, intermediates, now, Purpose::Server)?;
        }
        if self.verify_sni {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        }
        check_contents(&self.validations, end_entity)?;
        Ok(ServerCertVerified::assertion())
    }

    signatures::handshake_methods!();
}

/// Whether nothing about a certificate may refuse its peer.
fn is_taken_unverified(validations: &[Arc<Validation>]) -> bool {
    validations
        .iter()
        .any(|validation| validation.trust == Trust::Unverified)
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

/// Chooses a server certificate among those whose key the client can use: the first that has the server name of the
/// client hello, else the first of which a wildcard covers it, else the first.
#[derive(Debug)]
pub(super) struct CertificateChoice {
    certificates: Vec<Arc<CertifiedKey>>,
}

/// How well a certificate fits a server name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Not,
    ByWildcard,
    ByName,
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
        let fits = |certified: &&Arc<CertifiedKey>| name.as_ref().map_or(Fit::Not, |name| fit(certified, name));
        // Of equals `max_by_key` would give the last.
        self.certificates.iter().filter(usable).rev().max_by_key(fits).cloned()
    }
}

fn fit(certified: &CertifiedKey, name: &ServerName<'_>) -> Fit {
    let Some(leaf) = certified.cert.first() else {
        return Fit::Not;
    };
    let covers = ParsedCertificate::try_from(leaf).is_ok_and(|leaf| verify_server_name(&leaf, name).is_ok());
    if !covers {
        return Fit::Not;
    }
    let wanted = name.to_str();
    let has = |(kind, known): &(NameKind, String)| *kind == NameKind::Dns && known.eq_ignore_ascii_case(&wanted);
    match subject_alt_names(leaf).is_ok_and(|names| names.iter().any(has)) {
        true => Fit::ByName,
        false => Fit::ByWildcard,
    }
}

/// The alternative names of a certificate that are URIs.
pub(super) fn uris(certified: &CertifiedKey) -> Uris {
    let names = certified.cert.first().and_then(|leaf| subject_alt_names(leaf).ok());
    let uris = names.unwrap_or_default().into_iter();
    uris.filter(|(kind, _)| *kind == NameKind::Uri)
        .map(|(_, uri)| uri.into())
        .collect()
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
