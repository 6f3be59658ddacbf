//! Resolving a backendRef: permission, existence, port, protocol.

use super::{Compilation, Effect};
use crate::{
    api::{self, BackendTarget, Kind},
    engine::reader::Reader,
    name::{BackendId, BackendKind, BackendPort, RouteKind, Target, VariantId},
    phase::{
        backends::{
            backend_ref::{Flaw, Named, exposed, external_name, named},
            backend_tls::BackendTls,
            endpoints::{Readiness, is_of_request},
        },
        reference::{Referent, Referrer, is_permitted},
    },
};
use edge_ir::{AppProtocol, PortProtocol, ServerNaming};

/// Why a reference doesn't lead to a backend.
pub(super) struct Problem {
    /// Reason of `ResolvedRefs`.
    pub(super) reason: &'static str,
    /// For people.
    pub(super) message: String,
}

impl Problem {
    pub(super) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

/// Where a reference leads.
pub(super) struct Resolved {
    /// The backend.
    pub(super) backend: BackendId,
    /// Why nothing may go there unless a context says otherwise: its own settings can't be honoured.
    pub(super) refused: Option<Problem>,
}

/// Follows a reference. Permission comes before existence.
pub(super) fn resolve(c: &mut Compilation<'_, '_>, reference: BackendTarget<'_>) -> Result<Resolved, Problem> {
    let kind = kind_of(c.reader, reference)?;
    let namespace = reference.namespace.unwrap_or(c.namespace);
    let name = reference.name;
    let from = Referrer {
        group: "gateway.networking.k8s.io",
        kind: c.kind.kind().as_str(),
        namespace: c.namespace,
    };
    let to = Referent {
        group: reference.group,
        kind: reference.kind,
        namespace,
        name,
    };
    if !is_permitted(c.reader, from, to) {
        let message = format!(
            "Backend ref to {} {namespace}/{name} not permitted by any ReferenceGrant",
            reference.kind
        );
        return Err(Problem::new("RefNotPermitted", message));
    }
    let id = match kind {
        BackendKind::Custom => {
            let name = api::custom_key_name(reference.group, reference.kind, name);
            c.reader.id(namespace, &name)
        }
        _ => c.reader.id(namespace, name),
    };
    let target = Target { kind, id };
    let backend = match kind {
        BackendKind::Custom => {
            let at = BackendPort {
                target,
                port: reference.port.unwrap_or_default(),
                transport: c.kind.transport(),
            };
            of_services(c, at, reference.kind, &format!("{namespace}/{name}"))?
        }
        _ => found(c, target, reference.port)?,
    };
    c.targets.push(backend.port);
    match c.reader.readiness(backend.port) {
        Readiness::MixedAddresses => {
            let message = match kind {
                BackendKind::Backend => {
                    "mixed FQDN and IP or Unix address type for the same backendRef is not supported"
                }
                _ => "mixed endpointslice address type for the same backendRef is not supported",
            };
            Err(Problem::new("UnsupportedAddressType", message))
        }
        Readiness::Untrusted => {
            let message = match c.reader.backend_tls(backend.port) {
                Some(BackendTls::Refused(message)) => message.clone(),
                _ => format!("TLS to {} {namespace}/{name} can't be verified", reference.kind),
            };
            let refused = Some(Problem::new("InvalidBackendTLS", message));
            Ok(Resolved { backend, refused })
        }
        Readiness::Ready | Readiness::NoEndpoints => match unnamed(c, backend.port) {
            Some(problem) => Err(problem),
            None => Ok(Resolved { backend, refused: None }),
        },
    }
}

/// Streams have no host by which a server could be asked for and verified.
fn unnamed(c: &Compilation<'_, '_>, port: BackendPort) -> Option<Problem> {
    // Nearly all routes, and these needn't run again for what they don't ask. To whom a client asks for, it speaks TLS
    // itself.
    if c.kind.is_by_host() || is_of_request(c.reader, port) {
        return None;
    }
    let Some(BackendTls::Tls(trust)) = c.reader.backend_tls(port) else {
        return None;
    };
    (trust.tls.naming == ServerNaming::OfRequest)
        .then(|| Problem::new("InvalidBackendTLS", "TLS of a stream needs `sni` in the Backend"))
}

fn kind_of(reader: &Reader<'_>, reference: BackendTarget<'_>) -> Result<BackendKind, Problem> {
    if let Some(kind) = BackendKind::of(reference.group, reference.kind) {
        return Ok(kind);
    }
    // Nearly all backends are of the kinds above, and need no look at the configuration.
    if reader
        .settings()
        .is_backend_of_services(reference.group, reference.kind)
    {
        return Ok(BackendKind::Custom);
    }
    match (reference.group, reference.kind) {
        ("" | "multicluster.x-k8s.io" | "gateway.edge", _) => Err(Problem::new(
            "InvalidKind",
            "Kind is invalid, only Service, MCS ServiceImport and Edge Gateway Backend are supported",
        )),
        _ => Err(Problem::new(
            "InvalidKind",
            "Group is invalid, only the core API group (specified by omitting the group field or setting it to an empty string), \
             multicluster.x-k8s.io and gateway.edge are supported",
        )),
    }
}

/// An object that only extension services know: they say where it is, and how it is spoken to.
fn of_services(c: &Compilation<'_, '_>, at: BackendPort, kind: &str, name: &str) -> Result<BackendId, Problem> {
    if c.reader.custom_backend(at).is_none() {
        let message = format!("custom backend {kind} {name} not found");
        return Err(Problem::new("BackendNotFound", message));
    }
    Ok(BackendId {
        port: at,
        protocol: usual_protocol(c.kind),
        variant: VariantId::OWN,
    })
}

/// A backend of our own kinds.
fn found(c: &Compilation<'_, '_>, target: Target, port: Option<u16>) -> Result<BackendId, Problem> {
    let usual = usual_protocol(c.kind);
    let reference = Named {
        target,
        port,
        transport: c.kind.transport(),
        usual,
    };
    let backend = named(c.reader, reference).map_err(|flaw| told(c, target, flaw))?;
    if target.kind == BackendKind::Backend {
        check_endpoints(c, target)?;
    }
    // What a stream carries is between client and backend, TLS included.
    if !c.kind.is_by_host() {
        return Ok(BackendId {
            protocol: usual,
            ..backend
        });
    }
    match exposed(c.reader, backend.port) {
        Some(why) => Err(Problem::new("UnsupportedProtocol", why)),
        None => Ok(backend),
    }
}

/// Says what is wrong with a reference.
fn told(c: &Compilation<'_, '_>, target: Target, flaw: Flaw) -> Problem {
    let (namespace, name) = (c.reader.text(target.id.namespace), c.reader.text(target.id.name));
    let kind = match target.kind {
        BackendKind::Service => "service",
        BackendKind::ServiceImport => "service import",
        BackendKind::Backend | BackendKind::Custom | BackendKind::Set => "Backend",
    };
    let (reason, message) = match flaw {
        Flaw::NotFound => ("BackendNotFound", format!("{kind} {namespace}/{name} not found")),
        Flaw::NoPort => {
            let message = "A valid port number corresponding to a port on the Service must be specified";
            ("PortNotSpecified", message.to_owned())
        }
        Flaw::ExternalName => ("UnsupportedValue", external_name(&namespace, &name)),
        Flaw::NoSuchPort(port) => {
            let protocol = match c.kind.transport() {
                PortProtocol::Tcp => "TCP",
                PortProtocol::Udp => "UDP",
            };
            let kind = target.kind.kind().map_or("Service", Kind::as_str);
            let message = format!("{protocol} Port {port} not found on {kind} {namespace}/{name}");
            ("PortNotFound", message)
        }
        Flaw::Disabled => {
            let message = "Backend is disabled in Edge Gateway configuration";
            ("UnsupportedValue", message.to_owned())
        }
        Flaw::Unusable(problem) => (problem.ref_reason, problem.message),
    };
    Problem::new(reason, message)
}

/// What a backend that doesn't say is spoken to in: gRPC is HTTP/2.
fn usual_protocol(kind: RouteKind) -> AppProtocol {
    match kind {
        RouteKind::Grpc => AppProtocol::Http2,
        RouteKind::Http | RouteKind::Tls | RouteKind::Tcp | RouteKind::Udp => AppProtocol::Http1,
    }
}

/// Tells of a port that no endpoint of a Backend has, in a reference that is used: it may be meant to choose among
/// them.
pub(super) fn note_port(c: &mut Compilation<'_, '_>, field: &str, reference: BackendTarget<'_>, to: &Resolved) {
    let target = to.backend.port.target;
    if target.kind != BackendKind::Backend || to.refused.is_some() {
        return;
    }
    let (Some(backend), Some(wanted)) = (c.reader.backend(target.id), reference.port) else {
        return;
    };
    let mut ports = backend.spec.endpoints.iter().filter_map(|e| e.port()).peekable();
    if ports.peek().is_some() && ports.all(|port| port != wanted) {
        let (namespace, name) = (&backend.metadata.namespace, &backend.metadata.name);
        let message =
            format!("{field}: no endpoint of Backend {namespace}/{name} has port {wanted}; all of them are used");
        c.note(Effect::FallsShort, "UnsupportedValue", message);
    }
}

/// Endpoints of a Backend that a route can't send to.
fn check_endpoints(c: &Compilation<'_, '_>, target: Target) -> Result<(), Problem> {
    let backend = c.reader.backend(target.id);
    let backend = backend.ok_or_else(|| told(c, target, Flaw::NotFound))?;
    let is_resolver = backend.spec.r#type == api::BackendType::DynamicResolver;
    let (reason, message) = if is_resolver && c.rule.n_references > 1 {
        let message = "dynamic resolver is not supported for multiple backendRefs";
        ("InvalidBackendRef", message)
    } else if is_resolver && matches!(c.kind, RouteKind::Tcp | RouteKind::Udp) {
        let message = "dynamic resolver backends take their host from requests, and streams have none";
        ("UnsupportedValue", message)
    } else if backend.spec.endpoints.iter().any(|e| e.unix.is_some()) {
        let message = "unix domain sockets are not supported in backend references";
        ("UnsupportedAddressType", message)
    } else {
        return Ok(());
    };
    Err(Problem::new(reason, message))
}
