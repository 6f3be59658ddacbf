//! The certificates of clients: who must have one, and what it must be.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use super::{HandshakeCheck, check_contents, is_taken_unverified, time_of_check};
use crate::compile::field::{At, Rejection};
use crate::compile::secret::Validation;

/// Checks the certificate of a client.
#[derive(Debug)]
pub(in crate::compile) struct ClientVerifier {
    handshake: HandshakeCheck,
    /// The way to an authority; `None` where a digest alone says who is meant, or nothing does.
    chain: Option<Arc<dyn ClientCertVerifier>>,
    validations: Vec<Arc<Validation>>,
    presence: Presence,
}

/// Whether a client without a certificate is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Optional,
    Required,
}

impl ClientVerifier {
    /// A verifier; `None` when clients aren't asked for certificates.
    pub(in crate::compile) fn new(
        at: &At<'_>,
        handshake: HandshakeCheck,
        validations: Vec<Arc<Validation>>,
        required: bool,
    ) -> Result<Option<Self>, Rejection> {
        if validations.is_empty() && !required {
            return Ok(None);
        }
        let unverified = is_taken_unverified(&validations);
        let roots = validations.iter().find_map(|validation| validation.roots.clone());
        let pinned = validations
            .iter()
            .any(|validation| !(validation.hashes.is_empty() && validation.key_hashes.is_empty()));
        if roots.is_none() && !pinned && !unverified {
            return Err(at.error("asking for client certificates needs a trusted_ca to verify them"));
        }
        let chain = match roots {
            Some(roots) => Some(chain(at, handshake.provider(), roots, &validations)?),
            None => None,
        };
        // As in Envoy, names and digests are met by a certificate alone, and a client may always come without one where
        // any would do. Where one is required none is ever excused.
        let demanded = !unverified && validations.iter().any(|validation| validation.demands());
        Ok(Some(Self {
            handshake,
            chain,
            validations,
            presence: if required || demanded {
                Presence::Required
            } else {
                Presence::Optional
            },
        }))
    }
}

fn chain(
    at: &At<'_>,
    provider: &Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
    validations: &[Arc<Validation>],
) -> Result<Arc<dyn ClientCertVerifier>, Rejection> {
    let crls = validations
        .iter()
        .flat_map(|validation| validation.crls.iter().cloned());
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).with_crls(crls);
    let builder = if validations.iter().any(|validation| validation.crls_of_leaf) {
        builder.only_check_end_entity_revocation()
    } else {
        builder
    };
    builder.build().map_err(|error| at.error(error.to_string()))
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        self.presence == Presence::Required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.as_ref().map_or(&[], |chain| chain.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if is_taken_unverified(&self.validations) {
            return Ok(ClientCertVerified::assertion());
        }
        if let Some(chain) = &self.chain {
            let now = time_of_check(&self.validations, end_entity, now)?;
            chain.verify_client_cert(end_entity, intermediates, now)?;
        }
        check_contents(&self.validations, end_entity)?;
        Ok(ClientCertVerified::assertion())
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
