//! How a backend is spoken to inside TLS: the BackendTLSPolicy that is in force on a port, or what a Backend says of
//! itself, and whom that trusts. A policy takes the place of what a Backend says about names and trust, and of nothing
//! else.
//!
//! A policy on a port's name beats one on the whole Service; of several on the same the oldest is in force, whether it
//! can be honoured or not. A policy that can't be honoured refuses the backend: what wants TLS is never spoken to in
//! clear, and never without looking at its certificate (Gateway API v1.7.0, BackendTLSPolicy).

use super::{backend_ref, endpoints};
use crate::{
    api::{self, BackendTlsPolicy, Kind, PolicyTargetRef, SubjectAltNameType, WellKnownCa, text::Hostname},
    engine::reader::Reader,
    name::{BackendKind, BackendPort, Id, Target},
    phase::{
        authorities::{self, Unusable, Why},
        origin,
        precedence::Seniority,
        reference::{Referent, Referrer},
        secrets::{Flaw, Pointer, Provided, is_pointer},
        tls::TlsPreferences,
    },
};
use edge_ir::{Inside, Secret, SecretContent, SecretName, ServerNaming, SubjectName, TlsParameters, UpstreamTls};
use std::{cmp::Reverse, sync::Arc};

mod own;

pub(crate) use own::parameters_problem;

/// How a backend is spoken to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BackendTls {
    /// No policy covers it.
    Clear,
    /// Inside TLS.
    Tls(Arc<Trust>),
    /// A policy covers it that can't be honoured; why.
    Refused(String),
}

/// TLS settings, and the authorities they name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trust {
    /// As the cluster has it.
    pub(crate) tls: UpstreamTls,
    /// What its `authorities` name.
    pub(crate) authorities: Option<Provided>,
    /// The certificate that the backend itself asks for, by its Secret.
    pub(crate) client_certificate: Option<Id>,
    /// What the backend itself says of handshakes.
    pub(crate) asked: TlsPreferences,
    /// What is known of what it speaks.
    pub(crate) speech: Speech,
}

/// What a backend says that it speaks, as far as that matters inside TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    /// Nothing in particular.
    Any,
    /// WebSockets: upgrades of HTTP/1.1, which few servers take inside HTTP/2 (RFC 8441).
    WebSocket,
}

/// Name of the authorities that the proxy's system trusts.
const SYSTEM: &str = "system_ca_certificates";

/// Judges a backend; none when there is no such port.
pub(crate) fn backend_tls(reader: &Reader<'_>, port: BackendPort) -> Option<BackendTls> {
    match port.target.kind {
        BackendKind::Service | BackendKind::ServiceImport => {
            endpoints::port_name(reader, port)?;
        }
        BackendKind::Backend => {
            reader.backend(port.target.id)?;
        }
        // What is in a set is spoken to each by itself; how other objects are, services say.
        BackendKind::Custom | BackendKind::Set => return None,
    }
    let own = own::settings(reader, port);
    let speech = backend_ref::speech(reader, port);
    let trust = match in_force(reader, port) {
        Some(policy) => by_policy(reader, policy, speech),
        None => match &own {
            None => return Some(BackendTls::Clear),
            Some(own) => own::trust(reader, own, speech),
        },
    };
    let trust = trust.and_then(|trust| match &own {
        Some(own) => own::complete(reader, own, trust),
        None => Ok(trust),
    });
    Some(match trust {
        Ok(trust) => BackendTls::Tls(Arc::new(trust)),
        Err(message) => BackendTls::Refused(message),
    })
}

fn by_policy(reader: &Reader<'_>, policy: &BackendTlsPolicy, speech: Speech) -> Result<Trust, String> {
    let found = authorities(reader, &Holder::of_policy(policy));
    let authorities = found.authorities.ok_or_else(|| told(found.problems))?;
    Ok(Trust {
        tls: UpstreamTls {
            naming: ServerNaming::Fixed,
            server_name: (&*policy.spec.validation.hostname).into(),
            authorities: Some(authorities.source()),
            subjects: subjects(policy)?,
            client_certificate: None,
            alpn: Vec::new(),
            inside: Inside::default(),
            parameters: TlsParameters::default(),
        },
        authorities: Some(authorities),
        client_certificate: None,
        asked: TlsPreferences::default(),
        speech,
    })
}

/// Why there is nothing to trust.
fn told(problems: Vec<AuthorityProblem>) -> String {
    let messages: Vec<String> = problems.into_iter().map(|p| p.message).collect();
    messages.join("; ")
}

/// The policy that decides about a port.
fn in_force<'a>(reader: &Reader<'a>, port: BackendPort) -> Option<&'a BackendTlsPolicy> {
    let name = endpoints::port_name(reader, port);
    let policies = reader.tls_policies(port.target).filter_map(|id| {
        let policy = &**reader.backend_tls_policy(id)?;
        let covering = policy
            .spec
            .target_refs
            .iter()
            .filter(|t| target_of(reader, policy, t) == Some(port.target) && covers(port.target.kind, t, name));
        let specific = covering.map(|t| t.section_name.is_some()).max()?;
        Some((specific, Reverse(Seniority::of(&policy.metadata)), policy))
    });
    let best = policies.max_by(|(a, older, _), (b, other, _)| (a, older).cmp(&(b, other)))?;
    Some(best.2)
}

/// The backend that a policy points at; none for kinds that can't be backends.
pub(crate) fn target_of(reader: &Reader<'_>, policy: &BackendTlsPolicy, target: &PolicyTargetRef) -> Option<Target> {
    Some(Target {
        kind: BackendKind::of(&target.group, &target.kind)?,
        id: reader.id(&policy.metadata.namespace, &target.name),
    })
}

/// Whether a target reference covers a port. Kind Backend has no ports to choose from, so that whatever section is
/// named there, all of it is covered. The name of a port without one is empty, which no section is.
pub(crate) fn covers(kind: BackendKind, target: &PolicyTargetRef, port_name: Option<&str>) -> bool {
    match &target.section_name {
        None => true,
        Some(section) => {
            kind == BackendKind::Backend || port_name.is_some_and(|name| !name.is_empty() && name == &**section)
        }
    }
}

/// Names of which one must be in the certificate: the alternative names, else the host name.
fn subjects(policy: &BackendTlsPolicy) -> Result<Vec<SubjectName>, String> {
    let validation = &policy.spec.validation;
    let host = |name: &str| match Hostname::parse(name) {
        Ok(_) => Ok(SubjectName::Dns(name.into())),
        Err(_) => Err(format!("\"{name}\" is not a host name")),
    };
    // It is asked for in the handshake in any case.
    if !matches!(Hostname::parse(&validation.hostname), Ok(Hostname::Exact(_))) {
        return Err(format!("\"{}\" is not a host name", validation.hostname));
    }
    if validation.subject_alt_names.is_empty() {
        return Ok(vec![host(&validation.hostname)?]);
    }
    let one = |name: &api::SubjectAltName| match (&name.r#type, name.hostname.as_deref(), name.uri.as_deref()) {
        (SubjectAltNameType::Hostname, Some(name), _) => host(name),
        (SubjectAltNameType::Uri, _, Some(uri)) if !uri.is_empty() => Ok(SubjectName::Uri(uri.into())),
        (kind, ..) => Err(format!("subject alternative name of type {kind} is not usable")),
    };
    validation.subject_alt_names.iter().map(one).collect()
}

/// What is wrong with a reference to authorities.
pub(crate) struct AuthorityProblem {
    /// Reason of `ResolvedRefs`.
    pub(crate) reason: &'static str,
    /// For people, without a capital or full stop.
    pub(crate) message: String,
}

/// The authorities of a policy, and what is wrong with those that are missing.
pub(crate) struct Authorities {
    /// All that can be used; none if there is nothing to trust.
    pub(crate) authorities: Option<Provided>,
    /// One entry a reference that can't be used.
    pub(crate) problems: Vec<AuthorityProblem>,
}

/// An object that says whom to trust.
pub(crate) struct Holder<'a> {
    /// Its kind.
    pub(crate) kind: Kind,
    /// Namespace and name.
    pub(crate) metadata: &'a api::Metadata,
    /// What it refers to.
    pub(crate) references: &'a [api::LocalObjectRef],
    /// Or what exists already.
    pub(crate) well_known: Option<&'a WellKnownCa>,
}

impl<'a> Holder<'a> {
    /// A policy.
    pub(crate) fn of_policy(policy: &'a BackendTlsPolicy) -> Self {
        let validation = &policy.spec.validation;
        Self {
            kind: Kind::BackendTlsPolicy,
            metadata: &policy.metadata,
            references: &validation.ca_certificate_refs,
            well_known: validation.well_known_ca_certificates.as_ref(),
        }
    }
}

/// Follows references to authorities.
pub(crate) fn authorities(reader: &Reader<'_>, holder: &Holder<'_>) -> Authorities {
    let metadata = holder.metadata;
    if holder.references.is_empty() {
        return well_known(holder.well_known);
    }
    if let Some(found) = elsewhere(reader, holder) {
        return found;
    }
    let from = Referrer::of(holder.kind, &metadata.namespace);
    let texts = holder.references.iter().map(|reference| {
        let to = Referent {
            group: &reference.group,
            kind: &reference.kind,
            namespace: &metadata.namespace,
            name: &reference.name,
        };
        authorities::bundle(reader, from, to)
    });
    let (bundle, unusable) = authorities::join(texts);
    let problems = unusable.into_iter().map(problem).collect();
    let kind = holder.kind.as_str().to_ascii_lowercase();
    let name = format!("{kind}/{}/{}/ca.crt", metadata.namespace, metadata.name);
    let origin = origin::origin(holder.kind, Arc::clone(&metadata.namespace), Arc::clone(&metadata.name));
    let authorities = (!bundle.is_empty()).then(|| {
        Provided::Held(Arc::new(Secret {
            name: name.into(),
            content: SecretContent::Authorities {
                bundle: bundle.into(),
                revoked: None,
            },
            origins: Arc::new([origin]),
        }))
    });
    Authorities { authorities, problems }
}

/// Authorities that a server of secrets has; none where no reference is to a Secret that points to one. It names all
/// that is trusted: what else there is can't be put together with what nobody here sees.
fn elsewhere(reader: &Reader<'_>, holder: &Holder<'_>) -> Option<Authorities> {
    let secrets = holder.references.iter().filter_map(|reference| {
        let is_secret = reference.group.is_empty() && reference.kind == *"Secret";
        let id = reader.id(&holder.metadata.namespace, &reference.name);
        is_secret.then(|| reader.secret(id)).flatten()
    });
    let pointers: Vec<&api::Secret> = secrets
        .map(|secret| &**secret)
        .filter(|secret| is_pointer(secret))
        .collect();
    let (first, more) = pointers.split_first()?;
    let read = if !more.is_empty() {
        Err("multiple SDS reference secrets are not supported".to_owned())
    } else if holder.references.len() > 1 {
        Err("cannot mix SDS reference secrets with other CA certificate types".to_owned())
    } else {
        Pointer::read(reader, first).map_err(|flaw| match flaw {
            Flaw::Disabled => "SDS Secret reference is not enabled in EdgeGateway configuration".to_owned(),
            Flaw::Invalid(why) => format!("invalid SDS reference secret {}: {why}", first.metadata.name),
        })
    };
    Some(match read {
        Ok(pointer) => Authorities {
            authorities: Some(Provided::Elsewhere(Arc::new(pointer))),
            problems: Vec::new(),
        },
        Err(message) => Authorities {
            authorities: None,
            problems: vec![AuthorityProblem {
                reason: "InvalidCACertificateRef",
                message,
            }],
        },
    })
}

fn problem(unusable: Unusable<'_>) -> AuthorityProblem {
    AuthorityProblem {
        reason: match unusable.why {
            Why::Permission => "RefNotPermitted",
            Why::Kind => "InvalidKind",
            Why::Missing | Why::Unnamed | Why::Unreadable => "InvalidCACertificateRef",
        },
        message: unusable.told(),
    }
}

/// The authorities that the proxy's system trusts.
pub(crate) fn system_authorities() -> Arc<Secret> {
    Arc::new(Secret {
        name: SecretName::from(SYSTEM),
        content: SecretContent::SystemAuthorities,
        origins: Arc::default(),
    })
}

fn well_known(which: Option<&WellKnownCa>) -> Authorities {
    let message = match which {
        Some(WellKnownCa::System) => {
            return Authorities {
                authorities: Some(Provided::Held(system_authorities())),
                problems: Vec::new(),
            };
        }
        Some(other) => format!("unsupported wellKnownCACertificates {other}, only System is supported"),
        None => "must specify either caCertificateRefs or wellKnownCACertificates".to_owned(),
    };
    let reason = "InvalidCACertificateRef";
    Authorities {
        authorities: None,
        problems: vec![AuthorityProblem { reason, message }],
    }
}
