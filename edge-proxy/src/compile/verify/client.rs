//! The certificates of clients: who must have one, and what it must be.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DistinguishedName, Error};

use super::chain::{Chain, Purpose};
use super::signatures::handshake_methods;
use super::{HandshakeCheck, check_contents, is_taken_unverified};
use crate::compile::field::{At, Rejection};
use crate::compile::secret::Validation;

/// Checks the certificate of a client.
#[derive(Debug)]
pub(in crate::compile) struct ClientVerifier {
    handshake: HandshakeCheck,
    /// The way to an authority; `None` where a digest alone says who is meant, or nothing does.
    chain: Option<Chain>,
    /// The authorities' names, a hint for clients.
    subjects: Vec<DistinguishedName>,
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
        let chain = Chain::new(handshake.provider(), &validations);
        let pinned = validations
            .iter()
            .any(|validation| !(validation.hashes.is_empty() && validation.key_hashes.is_empty()));
        if chain.is_none() && !pinned && !unverified {
            return Err(at.error("asking for client certificates needs a trusted_ca to verify them"));
        }
        // As in Envoy, names and digests are met by a certificate alone, and a client may always come without one where
        // any would do. Where one is required none is ever excused.
        let demanded = !unverified && validations.iter().any(|validation| validation.demands());
        Ok(Some(Self {
            handshake,
            subjects: chain
                .as_ref()
                .map_or_else(Vec::new, |chain| chain.authorities().store().subjects()),
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

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        self.presence == Presence::Required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
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
            chain.verify(end_entity, intermediates, now, Purpose::Client)?;
        }
        check_contents(&self.validations, end_entity)?;
        Ok(ClientCertVerified::assertion())
    }

    handshake_methods!();
}
