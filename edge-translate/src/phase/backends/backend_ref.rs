//! What a reference to a backend names: whether that is there and can be used, at which port, and what is spoken to it.
//!
//! The same for whoever refers, and told from the objects alone. Who refers says in words of its own what is wrong, and
//! asks when TLS is known whether the backend speaks what belongs inside it.

use super::{
    backend_tls::{BackendTls, Speech},
    endpoints::service_port,
    problem::{BackendProblem, backend_problem},
};
use crate::{
    api::ServiceType,
    engine::reader::Reader,
    name::{BackendId, BackendKind, BackendPort, Target, VariantId},
    settings::Feature,
};
use edge_ir::{AppProtocol, PortProtocol};

/// What a reference says of a backend.
#[derive(Clone, Copy)]
pub(crate) struct Named {
    /// The object.
    pub(crate) target: Target,
    /// Its port. Services must be named with one; a Backend has its ports at its endpoints, and all of these are meant,
    /// whichever a reference names.
    pub(crate) port: Option<u16>,
    /// What the port is of.
    pub(crate) transport: PortProtocol,
    /// What is spoken where the backend doesn't say.
    pub(crate) usual: AppProtocol,
}

/// Why a reference leads nowhere.
pub(crate) enum Flaw {
    /// There is no such object.
    NotFound,
    /// It names no port, and must.
    NoPort,
    /// A Service that stands for a name.
    ExternalName,
    /// The object has no such port.
    NoSuchPort(u16),
    /// Nothing follows Backends here.
    Disabled,
    /// A Backend that nobody can use.
    Unusable(BackendProblem),
}

/// Follows a reference to an object of our own kinds.
pub(crate) fn named(reader: &Reader<'_>, named: Named) -> Result<BackendId, Flaw> {
    let Named { target, transport, .. } = named;
    let port = match target.kind {
        BackendKind::Service => {
            let service = reader.service(target.id).ok_or(Flaw::NotFound)?;
            let port = specified(named.port)?;
            match service.spec.r#type {
                ServiceType::ExternalName => return Err(Flaw::ExternalName),
                _ => port,
            }
        }
        BackendKind::ServiceImport => {
            reader.service_import(target.id).ok_or(Flaw::NotFound)?;
            specified(named.port)?
        }
        BackendKind::Backend => {
            own(reader, target)?;
            0
        }
        // No reference names a set, and services alone know what other objects are.
        BackendKind::Custom | BackendKind::Set => return Err(Flaw::NotFound),
    };
    let at = BackendPort {
        target,
        port,
        transport,
    };
    if target.kind != BackendKind::Backend && service_port(reader, at).is_none() {
        return Err(Flaw::NoSuchPort(port));
    }
    let is_http2 = |protocol| matches!(protocol, "kubernetes.io/h2c" | "gateway.edge/h2c" | "grpc");
    Ok(BackendId {
        port: at,
        protocol: match app_protocols(reader, at).any(is_http2) {
            true => AppProtocol::Http2,
            false => named.usual,
        },
        variant: VariantId::OWN,
    })
}

fn specified(port: Option<u16>) -> Result<u16, Flaw> {
    port.filter(|port| *port > 0).ok_or(Flaw::NoPort)
}

/// Looks at a Backend.
fn own(reader: &Reader<'_>, target: Target) -> Result<(), Flaw> {
    if reader.settings().backend_api == Feature::Disabled {
        return Err(Flaw::Disabled);
    }
    let backend = reader.backend(target.id).ok_or(Flaw::NotFound)?;
    match backend_problem(backend, reader.settings()) {
        Some(problem) => Err(Flaw::Unusable(problem)),
        None => Ok(()),
    }
}

/// What a backend says that it speaks.
fn app_protocols<'a>(reader: &Reader<'a>, at: BackendPort) -> impl Iterator<Item = &'a str> {
    let of_port = service_port(reader, at).and_then(|port| port.app_protocol.as_deref());
    let own = match at.target.kind {
        BackendKind::Backend => reader.backend(at.target.id),
        _ => None,
    };
    let own = own.into_iter().flat_map(|backend| &backend.spec.app_protocols);
    of_port.into_iter().chain(own.map(|protocol| protocol.as_str()))
}

/// What it says that it speaks, as far as that matters inside TLS.
pub(super) fn speech(reader: &Reader<'_>, at: BackendPort) -> Speech {
    const WEB_SOCKETS: [&str; 4] = [
        "kubernetes.io/ws",
        "kubernetes.io/wss",
        "gateway.edge/ws",
        "gateway.edge/wss",
    ];
    match app_protocols(reader, at).any(|protocol| WEB_SOCKETS.contains(&protocol)) {
        true => Speech::WebSocket,
        false => Speech::Any,
    }
}

/// Why a backend can't be spoken to in clear, where nothing puts TLS in front of it: what belongs inside TLS must never
/// be spoken without.
pub(crate) fn exposed(reader: &Reader<'_>, at: BackendPort) -> Option<String> {
    let is_secure = |protocol: &&str| matches!(*protocol, "kubernetes.io/wss" | "gateway.edge/wss");
    let protocol = app_protocols(reader, at).find(is_secure)?;
    // Where TLS is asked for and can't be honoured, that is what is told.
    let is_clear = matches!(reader.backend_tls(at), None | Some(BackendTls::Clear));
    is_clear.then(|| {
        format!("application protocol {protocol} needs TLS to the backend, and no BackendTLSPolicy provides it")
    })
}

/// What is said of a Service that stands for a name.
pub(crate) fn external_name(namespace: &str, name: &str) -> String {
    format!(
        "Service {namespace}/{name} is of type ExternalName, which is not supported as a backend; use an Edge Gateway \
         Backend resource with an FQDN endpoint instead"
    )
}
