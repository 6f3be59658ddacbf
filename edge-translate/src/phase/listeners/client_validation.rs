//! Whether clients of HTTPS listeners must show a certificate, and whom it must be from (GEP-91): what the Gateway says
//! for the listener's port, else for all.
//!
//! Authorities that can't be used are left out, which only trusts fewer clients; a listener without any that can be
//! used doesn't serve.

use super::{
    client_traffic::{Breadth, breadth, refuse},
    finding::Finding,
    fleet::Candidate,
};
use crate::{
    api::{self, FrontendTls, FrontendTlsValidation, FrontendValidationMode, Kind, Protocol},
    engine::reader::Reader,
    phase::{
        authorities::{self, Unusable, Why},
        origin,
        reference::{Referent, Referrer},
    },
    status::sentence,
};
use edge_ir::{ClientCertificates, ClientValidation, Secret, SecretContent};
use std::sync::Arc;

/// How clients of a listener are validated, and the authorities that this names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClientTrust {
    /// As the chain has it.
    pub(crate) validation: Arc<ClientValidation>,
    /// What its `authorities` name.
    pub(crate) authorities: Option<Arc<Secret>>,
}

/// What is wrong with the references to authorities, and what is left.
struct Resolved {
    bundle: String,
    problems: Vec<Problem>,
}

struct Problem {
    reason: &'static str,
    message: String,
}

/// What listeners without any authority that can be used say.
const NONE_LEFT: &str = "NoValidCACertificate";

/// Resolves whom a listener trusts, and says on it what can't be used.
pub(crate) fn check(reader: &Reader<'_>, candidate: &mut Candidate) {
    if candidate.spec().protocol != Protocol::Https {
        return;
    }
    let holder = candidate.holder.clone();
    let gateway = holder.gateway();
    let Some((validation, section)) = of_port(gateway, candidate.spec().port) else {
        return;
    };
    let Resolved { bundle, problems } = resolve(reader, gateway, validation);
    let reason = reason(&problems);
    let messages: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
    let message = format!(
        "Listener has invalid caCertificateRef for frontend TLS validation: {}",
        messages.join(" ")
    );
    if bundle.is_empty() {
        candidate.findings.extend([
            Finding::accepted(NONE_LEFT, message.clone()),
            Finding::resolved_refs(reason, message.clone()),
            Finding::programmed(reason, message),
        ]);
        return;
    }
    if !problems.is_empty() {
        let finding = Finding::resolved_refs(reason, message);
        candidate.findings.push(finding.that_leaves_it_serving());
    }
    candidate.clients = Some(Arc::new(trust(gateway, validation, &section, bundle)));
}

/// Who brings a ListenerSet doesn't decide whom the Gateway wants certificates from: its owner asks for them at each
/// listener, those of others too (GEP-91).
pub(super) fn keep_validation(candidate: &mut Candidate) {
    let asks = |trust: &Arc<ClientTrust>| trust.validation.certificates == ClientCertificates::Verified;
    let is_told = candidate.clients.as_ref().is_some_and(asks);
    let of_set = candidate.id.set.is_some() && breadth(candidate) == Some(Breadth::Part);
    if !is_told || !of_set || candidate.traffic.tls.clients.is_none() {
        return;
    }
    let why = "TLS: the Gateway says whose certificates clients must show (spec.tls.frontend), and clientValidation of a \
               policy for a ListenerSet can't replace that.";
    refuse(candidate, why.into());
    let mut traffic = (*candidate.traffic).clone();
    traffic.tls.clients = None;
    candidate.traffic = Arc::new(traffic);
}

/// What is wrong with any reference of a Gateway to authorities of clients: one sentence a place.
pub(super) fn problems(reader: &Reader<'_>, gateway: &api::Gateway) -> Vec<String> {
    let Some(frontend) = frontend(gateway) else {
        return Vec::new();
    };
    let default = frontend.default.validation.as_ref().map(|v| ("default frontend", v));
    let ports = frontend.per_port.iter().filter_map(|p| p.tls.validation.as_ref());
    let places = default.into_iter().chain(ports.map(|v| ("frontend", v)));
    let said = |(place, validation)| {
        let problems = resolve(reader, gateway, validation).problems;
        let messages: Vec<String> = problems.into_iter().map(|p| p.message).collect();
        (!messages.is_empty()).then(|| format!("Failed to get {place} CA certs for gateway: {}", messages.join(" ")))
    };
    places.filter_map(said).collect()
}

/// Whether clients without a valid certificate are let in somewhere.
pub(crate) fn falls_back(gateway: &api::Gateway) -> bool {
    let Some(frontend) = frontend(gateway) else {
        return false;
    };
    let configs = frontend.per_port.iter().map(|p| &p.tls).chain([&frontend.default]);
    let mut modes = configs.filter_map(|c| c.validation.as_ref()).map(|v| &v.mode);
    modes.any(|mode| *mode == FrontendValidationMode::AllowInsecureFallback)
}

fn frontend(gateway: &api::Gateway) -> Option<&FrontendTls> {
    gateway.spec.tls.as_ref()?.frontend.as_ref()
}

/// What holds on a port, and a word for where it stands.
fn of_port(gateway: &api::Gateway, port: u16) -> Option<(&FrontendTlsValidation, String)> {
    let frontend = frontend(gateway)?;
    let own = frontend.per_port.iter().find(|p| p.port == port);
    let (config, section) = match own {
        Some(own) => (&own.tls, port.to_string()),
        None => (&frontend.default, "default".to_owned()),
    };
    Some((config.validation.as_ref()?, section))
}

fn trust(gateway: &api::Gateway, validation: &FrontendTlsValidation, section: &str, bundle: String) -> ClientTrust {
    let metadata = &gateway.metadata;
    let name = format!("gateway/{}/{}/{section}/ca.crt", metadata.namespace, metadata.name);
    let origin = origin::origin(
        Kind::Gateway,
        Arc::clone(&metadata.namespace),
        Arc::clone(&metadata.name),
    );
    let authorities = Secret {
        name: name.into(),
        content: SecretContent::Authorities {
            bundle: bundle.into(),
            revoked: None,
        },
        origins: Arc::new([origin]),
    };
    ClientTrust {
        validation: Arc::new(ClientValidation {
            authorities: Some(authorities.name.clone()),
            certificates: match validation.mode {
                FrontendValidationMode::AllowInsecureFallback => ClientCertificates::Requested,
                // An unknown mode is no reason to let anybody in.
                FrontendValidationMode::AllowValidOnly | FrontendValidationMode::Other(_) => {
                    ClientCertificates::Verified
                }
            },
            key_hashes: Vec::new(),
            certificate_hashes: Vec::new(),
            names: Vec::new(),
            revokes_leaf_alone: false,
            takes_expired: false,
        }),
        authorities: Some(Arc::new(authorities)),
    }
}

fn resolve(reader: &Reader<'_>, gateway: &api::Gateway, validation: &FrontendTlsValidation) -> Resolved {
    let own = &*gateway.metadata.namespace;
    let from = Referrer::of(Kind::Gateway, own);
    let references = validation.ca_certificate_refs.iter();
    let texts = references.map(|reference| authorities::bundle(reader, from, Referent::of_object(reference, own)));
    let (bundle, unusable) = authorities::join(texts);
    let mut problems: Vec<Problem> = unusable.into_iter().map(problem).collect();
    if validation.ca_certificate_refs.is_empty() {
        problems.push(Problem {
            reason: NONE_LEFT,
            message: "caCertificateRefs must name at least one object.".to_owned(),
        });
    }
    Resolved { bundle, problems }
}

fn problem(unusable: Unusable<'_>) -> Problem {
    Problem {
        reason: match unusable.why {
            Why::Permission => "RefNotPermitted",
            Why::Kind => "InvalidCACertificateKind",
            Why::Missing | Why::Unnamed | Why::Unreadable => "InvalidCACertificateRef",
        },
        message: sentence(&unusable.told()),
    }
}

/// The reason that all problems share.
fn reason(problems: &[Problem]) -> &'static str {
    let mut reasons = problems.iter().map(|p| p.reason);
    let first = reasons.next().unwrap_or(NONE_LEFT);
    if reasons.all(|reason| reason == first) {
        first
    } else {
        NONE_LEFT
    }
}
