//! Resolving a backendRef: permission, existence, port, protocol.

use super::{Compilation, Effect};
use crate::{
    api::{self, AppProtocol as OwnProtocol, BackendTarget, Kind, ServiceType},
    engine::reader::Reader,
    name::{BackendId, BackendKind, BackendPort, Id, RouteKind, Target, VariantId},
    phase::{
        backends::{
            backend_tls::BackendTls,
            endpoints::{Readiness, is_of_request},
        },
        reference::{Referent, Referrer, is_permitted},
        statuses::backend_problem,
    },
    settings::Feature,
    world::transport,
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
        BackendKind::Service => service(c, target, reference.port)?,
        BackendKind::ServiceImport => service_import(c, target, reference.port)?,
        BackendKind::Custom => {
            let at = BackendPort {
                target,
                port: reference.port.unwrap_or_default(),
                transport: c.kind.transport(),
            };
            of_services(c, at, reference.kind, &format!("{namespace}/{name}"))?
        }
        // No reference names a set.
        BackendKind::Backend | BackendKind::Set => own_backend(c, target, reference.port)?,
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
    // Nearly all routes, and these needn't run again for what they don't ask. To whom a client asks for, it speaks TLS itself.
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

fn service(c: &Compilation<'_, '_>, target: Target, port: Option<u16>) -> Result<BackendId, Problem> {
    let Some(service) = c.reader.service(target.id) else {
        return Err(not_found(c.reader, "service", target.id));
    };
    let port = specified(port)?;
    if service.spec.r#type == ServiceType::ExternalName {
        let (namespace, name) = (&service.metadata.namespace, &service.metadata.name);
        let message = format!(
            "Service {namespace}/{name} is of type ExternalName, which is not supported as a backend; \
             use an Edge Gateway Backend resource with an FQDN endpoint instead"
        );
        return Err(Problem::new("UnsupportedValue", message));
    }
    backend_at(c, target, port, &service.spec.ports)
}

fn service_import(c: &Compilation<'_, '_>, target: Target, port: Option<u16>) -> Result<BackendId, Problem> {
    let Some(import) = c.reader.service_import(target.id) else {
        return Err(not_found(c.reader, "service import", target.id));
    };
    let port = specified(port)?;
    backend_at(c, target, port, &import.spec.ports)
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

fn not_found(reader: &Reader<'_>, what: &str, id: Id) -> Problem {
    let message = format!(
        "{what} {}/{} not found",
        reader.text(id.namespace),
        reader.text(id.name)
    );
    Problem::new("BackendNotFound", message)
}

fn specified(port: Option<u16>) -> Result<u16, Problem> {
    let message = "A valid port number corresponding to a port on the Service must be specified";
    port.filter(|port| *port > 0)
        .ok_or_else(|| Problem::new("PortNotSpecified", message))
}

fn backend_at(
    c: &Compilation<'_, '_>,
    target: Target,
    port: u16,
    ports: &[api::ServicePort],
) -> Result<BackendId, Problem> {
    let wanted = c.kind.transport();
    let Some(found) = ports
        .iter()
        .find(|p| p.port == port && transport(&p.protocol) == Some(wanted))
    else {
        let (namespace, name) = (c.reader.text(target.id.namespace), c.reader.text(target.id.name));
        let protocol = match wanted {
            PortProtocol::Tcp => "TCP",
            PortProtocol::Udp => "UDP",
        };
        let kind = target.kind.kind().map_or("Service", Kind::as_str);
        let message = format!("{protocol} Port {port} not found on {kind} {namespace}/{name}");
        return Err(Problem::new("PortNotFound", message));
    };
    let at = BackendPort {
        target,
        port,
        transport: wanted,
    };
    let protocol = match found.app_protocol.as_deref() {
        _ if !c.kind.is_by_host() => AppProtocol::Http1,
        Some("kubernetes.io/h2c" | "gateway.edge/h2c" | "grpc") => AppProtocol::Http2,
        Some(secure @ ("kubernetes.io/wss" | "gateway.edge/wss")) if !is_secured(c, at) => {
            return Err(needs_tls(secure));
        }
        _ => usual_protocol(c.kind),
    };
    Ok(BackendId {
        port: at,
        protocol,
        variant: VariantId::OWN,
    })
}

/// What a backend that doesn't say is spoken to in: gRPC is HTTP/2.
fn usual_protocol(kind: RouteKind) -> AppProtocol {
    match kind {
        RouteKind::Grpc => AppProtocol::Http2,
        RouteKind::Http | RouteKind::Tls | RouteKind::Tcp | RouteKind::Udp => AppProtocol::Http1,
    }
}

/// Whether a policy puts TLS in front of the backend, or would if it could be honoured.
fn is_secured(c: &Compilation<'_, '_>, port: BackendPort) -> bool {
    !matches!(c.reader.backend_tls(port), None | Some(BackendTls::Clear))
}

/// A protocol inside TLS must never be spoken in clear.
fn needs_tls(protocol: &str) -> Problem {
    Problem::new(
        "UnsupportedProtocol",
        format!("application protocol {protocol} needs TLS to the backend, and no BackendTLSPolicy provides it"),
    )
}

/// A Backend has its ports at its endpoints, and all of these are meant, whichever port a reference names.
fn own_backend(c: &mut Compilation<'_, '_>, target: Target, port: Option<u16>) -> Result<BackendId, Problem> {
    if c.reader.settings().backend_api == Feature::Disabled {
        return Err(Problem::new(
            "UnsupportedValue",
            "Backend is disabled in Edge Gateway configuration",
        ));
    }
    let Some(backend) = c.reader.backend(target.id) else {
        return Err(not_found(c.reader, Kind::Backend.as_str(), target.id));
    };
    if let Some(problem) = backend_problem(backend, c.reader.settings()) {
        return Err(Problem::new(problem.ref_reason, problem.message));
    }
    if backend.spec.r#type == api::BackendType::DynamicResolver && c.n_references > 1 {
        return Err(Problem::new(
            "InvalidBackendRef",
            "dynamic resolver is not supported for multiple backendRefs",
        ));
    }
    if backend.spec.r#type == api::BackendType::DynamicResolver && matches!(c.kind, RouteKind::Tcp | RouteKind::Udp) {
        let message = "dynamic resolver backends take their host from requests, and streams have none";
        return Err(Problem::new("UnsupportedValue", message));
    }
    let mut ports = backend.spec.endpoints.iter().filter_map(port_of).peekable();
    if let Some(wanted) = port.filter(|wanted| ports.peek().is_some() && ports.all(|port| port != *wanted)) {
        let (namespace, name) = (&backend.metadata.namespace, &backend.metadata.name);
        let message =
            format!("backendRefs: no endpoint of Backend {namespace}/{name} has port {wanted}; all of them are used");
        c.note(Effect::FallsShort, "UnsupportedValue", message);
    }
    let at = BackendPort {
        target,
        port: 0,
        transport: c.kind.transport(),
    };
    if backend.spec.endpoints.iter().any(|e| e.unix.is_some()) {
        return Err(Problem::new(
            "UnsupportedAddressType",
            "unix domain sockets are not supported in backend references",
        ));
    }
    let mut protocol = usual_protocol(c.kind);
    for wanted in &backend.spec.app_protocols {
        match wanted {
            OwnProtocol::H2c => protocol = AppProtocol::Http2,
            OwnProtocol::Wss if !is_secured(c, at) => return Err(needs_tls(wanted.as_str())),
            OwnProtocol::Wss | OwnProtocol::Ws | OwnProtocol::Other(_) => {}
        }
    }
    Ok(BackendId {
        port: at,
        protocol,
        variant: VariantId::OWN,
    })
}

fn port_of(endpoint: &api::BackendEndpoint) -> Option<u16> {
    let ip = endpoint.ip.as_ref().map(|ip| ip.port);
    ip.or(endpoint.fqdn.as_ref().map(|fqdn| fqdn.port))
}
