//! TLS towards clients.

use super::{Problems, validation};
use crate::{
    api::{ClientTlsSettings, Metadata},
    engine::reader::Reader,
    phase::{
        listeners::client_validation::ClientTrust,
        tls::{Parameters, each_once, version},
    },
};
use edge_ir::{Resumption, TlsParameters};
use std::sync::Arc;

/// What a policy asks of TLS.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClientTls {
    /// Versions and algorithms.
    pub(crate) parameters: TlsParameters,
    /// Application protocols that are offered; none offers what the listener would.
    pub(crate) protocols: Option<Vec<Arc<str>>>,
    /// How sessions are resumed.
    pub(crate) resumption: Resumption,
    /// Which clients may connect, where the policy says so.
    pub(crate) clients: Option<Arc<ClientTrust>>,
}

/// What a policy asks of TLS.
pub(super) fn tls(
    reader: &Reader<'_>,
    policy: &Metadata,
    tls: Option<&ClientTlsSettings>,
    problems: &mut Problems,
) -> ClientTls {
    let Some(tls) = tls else {
        return ClientTls::default();
    };
    let parameters = Parameters {
        min_version: tls.min_version.as_ref(),
        max_version: tls.max_version.as_ref(),
        ciphers: &tls.ciphers,
        curves: &tls.ecdh_curves,
        signature_algorithms: &tls.signature_algorithms,
        protocols: tls.alpn_protocols.as_deref().unwrap_or_default(),
    };
    if let Some(problem) = parameters.problem() {
        problems.add("TLS", problem);
    }
    let clients = tls.client_validation.as_deref();
    ClientTls {
        parameters: parameters_of(tls),
        protocols: tls
            .alpn_protocols
            .as_deref()
            .map(|protocols| protocols.iter().map(|protocol| protocol.as_str().into()).collect()),
        resumption: resumption(tls),
        clients: clients.and_then(|clients| validation::trust(reader, policy, clients, problems)),
    }
}

fn parameters_of(tls: &ClientTlsSettings) -> TlsParameters {
    TlsParameters {
        min_version: tls.min_version.as_ref().and_then(version),
        max_version: tls.max_version.as_ref().and_then(version),
        ciphers: each_once(&tls.ciphers),
        curves: each_once(&tls.ecdh_curves),
        signature_algorithms: each_once(&tls.signature_algorithms),
    }
}

fn resumption(tls: &ClientTlsSettings) -> Resumption {
    let resumption = tls.session.as_ref().and_then(|session| session.resumption.as_ref());
    Resumption {
        tickets: resumption.is_some_and(|resumption| resumption.stateless.is_some()),
        sessions: resumption.is_some_and(|resumption| resumption.stateful.is_some()),
    }
}
