//! Backends that proxies ask or tell by themselves: services of policies, and those who are told by telemetry. There is
//! no request that says whom they are asked as, or where they are.

use super::{
    backend_ref::{Flaw, Named, exposed, external_name, named},
    set,
};
use crate::{
    api::{Backend, BackendType},
    engine::reader::Reader,
    name::{BackendId, BackendKind, BackendPort, Target},
    phase::hostname::authority,
};
use edge_ir::{AppProtocol, PortProtocol};
use std::borrow::Cow;

/// The backend behind a reference, and the host that it is asked as.
pub(crate) fn asked(
    reader: &Reader<'_>,
    target: Target,
    port: Option<u16>,
    usual: AppProtocol,
) -> Result<(BackendId, String), String> {
    let reference = Named {
        target,
        port,
        transport: PortProtocol::Tcp,
        usual,
    };
    let found = named(reader, reference).map_err(|flaw| told(reader, target, flaw))?;
    let (namespace, name) = (reader.text(target.id.namespace), reader.text(target.id.name));
    let backend = match target.kind {
        BackendKind::Backend => reader.backend(target.id),
        _ => None,
    };
    match backend {
        Some(backend) if backend.spec.r#type == BackendType::DynamicResolver => Err(format!(
            "backend {namespace}/{name} takes its host from requests, and none leads there"
        )),
        Some(backend) => Ok((found, asked_as(backend))),
        None => Ok((found, format!("{name}.{namespace}:{}", found.port.port))),
    }
}

/// Says what is wrong with a reference.
fn told(reader: &Reader<'_>, target: Target, flaw: Flaw) -> String {
    let (namespace, name) = (reader.text(target.id.namespace), reader.text(target.id.name));
    let kind = match target.kind {
        BackendKind::Service => "service",
        BackendKind::ServiceImport => "serviceimport",
        BackendKind::Backend | BackendKind::Custom | BackendKind::Set => "backend",
    };
    match flaw {
        Flaw::NotFound => format!("{kind} {namespace}/{name} not found"),
        Flaw::NoPort => "a valid port number corresponding to a port on the Service must be specified".to_owned(),
        Flaw::ExternalName => external_name(&namespace, &name),
        Flaw::NoSuchPort(port) => format!("TCP Port {port} not found on service {namespace}/{name}"),
        Flaw::Disabled => format!(
            "resource {name} of type Backend cannot be used since Backend is disabled in Edge Gateway configuration"
        ),
        Flaw::Unusable(problem) => problem.message,
    }
}

/// Why a backend, or one of a set, can't be spoken to as it asks; none where it can.
pub(crate) fn refusal<'a>(reader: &Reader<'a>, port: BackendPort) -> Option<Cow<'a, str>> {
    if let Some(why) = set::refusal(reader, port) {
        return Some(why.into());
    }
    let mut ports = reader.backends_behind(port).into_iter();
    ports.find_map(|port| exposed(reader, port)).map(Cow::Owned)
}

/// The authority by which a Backend is asked where no request tells one: the host of the first endpoint that has one,
/// else its own name.
fn asked_as(backend: &Backend) -> String {
    let named = backend.spec.endpoints.iter().find_map(|endpoint| {
        let name = endpoint.fqdn.as_ref().map(|fqdn| authority(fqdn.relative(), fqdn.port));
        name.or_else(|| endpoint.ip.as_ref().map(|ip| authority(&ip.address, ip.port)))
    });
    let metadata = &backend.metadata;
    named.unwrap_or_else(|| format!("{}.{}", metadata.name, metadata.namespace))
}
