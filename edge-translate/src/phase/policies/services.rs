//! Services that a policy asks: backends of ours, or what an address names.
//!
//! Told from the objects alone. Whether a backend can be spoken to as its own settings ask is asked where rules are bound
//! (`routes/bound`), as for the backends of routes.

use crate::{
    api::{self, BackendType, Kind, ServiceType, cluster_settings::ClusterSettings, security::ServiceRef},
    engine::reader::Reader,
    name::{BackendId, BackendKind, BackendPort, SetMember, Target, Variant, VariantId},
    phase::{
        backends::{endpoints::asked_as, set},
        policies::traffic::{self, Problems},
        reference::{Referent, Referrer, is_permitted},
        statuses::backend_problem,
    },
    settings::Feature,
    world::transport,
};
use edge_ir::{AppProtocol, PortProtocol, RetryPolicy, Timeout};
use std::{collections::BTreeSet, sync::Arc};

/// A service, and how it is asked.
pub(super) struct Service {
    pub(super) backend: BackendId,
    /// Host that it is asked as.
    pub(super) authority: Arc<str>,
    /// When it is asked again.
    pub(super) retry: Option<RetryPolicy>,
}

/// What a policy asks, and how.
pub(super) struct Asked<'a> {
    /// The kind of the policy.
    pub(super) by: Kind,
    /// What messages call the part of the policy.
    pub(super) area: &'a str,
    /// How it is spoken to, unless it says otherwise.
    pub(super) protocol: AppProtocol,
    pub(super) references: &'a [&'a ServiceRef],
    pub(super) settings: Option<&'a ClusterSettings>,
    /// Longest wait for an answer. A try has no limit of its own, so it can't have a shorter one; where this is absent,
    /// the policy's status says that such a limit has no effect.
    pub(super) wait: Option<Timeout>,
}

/// The service that references name, several of them as one; none where that is not one that can be asked.
pub(super) fn service(reader: &Reader<'_>, asked: Asked<'_>, problems: &mut Problems) -> Option<Service> {
    let area = asked.area;
    let (variant, retry) = settings(&asked, problems);
    let variant = reader.variant_id(variant);
    match backends(reader, &asked) {
        Ok((backend, authority)) => Some(Service {
            backend: BackendId { variant, ..backend },
            authority,
            retry,
        }),
        Err(problem) => {
            problems.add(area, problem);
            None
        }
    }
}

/// What is asked of the connections to a service, and when it is asked again.
pub(super) fn settings(asked: &Asked<'_>, problems: &mut Problems) -> (Variant, Option<RetryPolicy>) {
    let Some(settings) = asked.settings else {
        return Default::default();
    };
    retries(asked.area, settings, asked.wait, problems);
    traffic::of_service(settings, problems)
}

/// All references as one backend, and the host of the first.
fn backends(reader: &Reader<'_>, asked: &Asked<'_>) -> Result<(BackendId, Arc<str>), String> {
    let found = asked.references.iter().map(|named| {
        let (backend, host) = backend(reader, asked.by, named, asked.protocol)?;
        let member = SetMember {
            port: backend.port,
            weight: named.weight.unwrap_or(1),
            priority: set::priority_of(reader, backend.port, named.fallback),
        };
        Ok((backend, member, host))
    });
    let mut found = found.collect::<Result<Vec<_>, String>>()?;
    found.retain(|(_, member, _)| member.weight > 0);
    let Some((first, _, host)) = found.first() else {
        return Err(match asked.references {
            [] => "at least one of backendRefs must be set".to_owned(),
            _ => "the weight of one of backendRefs must not be 0".to_owned(),
        });
    };
    if found.len() == 1 {
        return Ok((*first, Arc::clone(host)));
    }
    if found.iter().any(|(backend, ..)| backend.protocol != first.protocol) {
        return Err("all backendRefs must speak the same protocol".to_owned());
    }
    let members: Vec<SetMember> = found.iter().map(|(_, member, _)| *member).collect();
    let kinds: BTreeSet<EndpointKind> = members
        .iter()
        .flat_map(|member| endpoint_kinds(reader, member.port))
        .collect();
    if kinds.len() > 1 {
        return Err("external service destinations having multiple endpoint types are not supported".to_owned());
    }
    let set = BackendId {
        port: reader.backend_set(members),
        ..*first
    };
    Ok((set, Arc::clone(host)))
}

/// How endpoints are named.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EndpointKind {
    Address,
    Name,
    Path,
}

/// How a backend names its endpoints, as far as its own object tells.
fn endpoint_kinds(reader: &Reader<'_>, port: BackendPort) -> BTreeSet<EndpointKind> {
    let backend = match port.target.kind {
        BackendKind::Backend => reader.backend(port.target.id),
        BackendKind::Service | BackendKind::ServiceImport | BackendKind::Custom | BackendKind::Set => None,
    };
    let Some(backend) = backend else {
        return BTreeSet::from([EndpointKind::Address]);
    };
    let kind = |endpoint: &api::BackendEndpoint| match (&endpoint.fqdn, &endpoint.ip) {
        (Some(_), _) => EndpointKind::Name,
        (None, Some(_)) => EndpointKind::Address,
        (None, None) => EndpointKind::Path,
    };
    backend.spec.endpoints.iter().map(kind).collect()
}

/// Whether a proxy knows a status, and it says that a request failed.
pub(super) fn is_of_errors(status: u16) -> bool {
    matches!(status, 400..=417 | 421..=424 | 426 | 428 | 429 | 431 | 500..=508 | 510 | 511)
}

/// Refuses what tries of the proxy's own requests can't be told.
fn retries(area: &str, settings: &ClusterSettings, wait: Option<Timeout>, problems: &mut Problems) {
    let Some(retry) = settings.retry.as_deref() else {
        return;
    };
    let limit = retry.per_retry.as_deref().and_then(|one| one.timeout.as_ref());
    let limit = problems.millis(area, "Retry timeout", limit);
    if limit.zip(wait).is_some_and(|(limit, wait)| limit.0 < wait.0) {
        problems.add(area, "Retry timeout is not supported where it is the shorter limit");
    }
    if retry
        .retry_on
        .as_deref()
        .is_some_and(|on| !on.http_status_codes.is_empty())
    {
        problems.add(area, "HTTPStatusCodes is not supported");
    }
    if retry.num_attempts_per_priority.is_some() {
        problems.add(area, "numAttemptsPerPriority is not supported here");
    }
}

/// Follows a reference. Permission comes before existence.
fn backend(
    reader: &Reader<'_>,
    by: Kind,
    reference: &ServiceRef,
    protocol: AppProtocol,
) -> Result<(BackendId, Arc<str>), String> {
    let (group, name) = (&*reference.group, &*reference.name);
    let namespace = reference.namespace.as_deref().unwrap_or(&reference.home);
    let Some(kind) = BackendKind::of(group, &reference.kind) else {
        return Err("BackendRefs only supports Service, ServiceImport, and Backend kind".to_owned());
    };
    let from = Referrer::of(by, &reference.home);
    let to = Referent {
        group,
        kind: &reference.kind,
        namespace,
        name,
    };
    if !is_permitted(reader, from, to) {
        let kind = &reference.kind;
        return Err(format!(
            "backend ref to {kind} {namespace}/{name} not permitted by any ReferenceGrant"
        ));
    }
    let target = Target {
        kind,
        id: reader.id(namespace, name),
    };
    let (port, spoken, host) = match kind {
        BackendKind::Service => {
            let service = reader.service(target.id);
            let service = service.ok_or_else(|| format!("service {namespace}/{name} not found"))?;
            if service.spec.r#type == ServiceType::ExternalName {
                return Err(format!(
                    "Service {namespace}/{name} is of type ExternalName, which is not supported as a backend; use an \
                     Edge Gateway Backend resource with an FQDN endpoint instead"
                ));
            }
            let found = port_of(reference, &service.spec.ports, namespace)?;
            (
                found.port,
                found.app_protocol.as_deref(),
                format!("{name}.{namespace}:{}", found.port),
            )
        }
        BackendKind::ServiceImport => {
            let import = reader.service_import(target.id);
            let import = import.ok_or_else(|| format!("serviceimport {namespace}/{name} not found"))?;
            let found = port_of(reference, &import.spec.ports, namespace)?;
            (
                found.port,
                found.app_protocol.as_deref(),
                format!("{name}.{namespace}:{}", found.port),
            )
        }
        // No reference names a set, and none to a service an object that isn't ours.
        BackendKind::Backend | BackendKind::Custom | BackendKind::Set => {
            let backend = own(reader, target)?;
            let mut spoken = backend.spec.app_protocols.iter().map(|protocol| protocol.as_str());
            let spoken = spoken.find(|protocol| is_http2(protocol));
            (0, spoken, asked_as(backend))
        }
    };
    let port = BackendPort {
        target,
        port,
        transport: PortProtocol::Tcp,
    };
    let protocol = match spoken.is_some_and(is_http2) {
        true => AppProtocol::Http2,
        false => protocol,
    };
    let backend = BackendId {
        port,
        protocol,
        variant: VariantId::OWN,
    };
    Ok((backend, host.into()))
}

fn is_http2(app_protocol: &str) -> bool {
    matches!(app_protocol, "kubernetes.io/h2c" | "gateway.edge/h2c" | "grpc")
}

fn port_of<'p>(
    reference: &ServiceRef,
    ports: &'p [api::ServicePort],
    namespace: &str,
) -> Result<&'p api::ServicePort, String> {
    let Some(port) = reference.port.filter(|port| *port > 0) else {
        return Err("a valid port number corresponding to a port on the Service must be specified".to_owned());
    };
    let is_it = |p: &&api::ServicePort| p.port == port && transport(&p.protocol) == Some(PortProtocol::Tcp);
    let found = ports.iter().find(is_it);
    found.ok_or_else(|| format!("TCP Port {port} not found on service {namespace}/{}", reference.name))
}

fn own<'a>(reader: &Reader<'a>, target: Target) -> Result<&'a api::Backend, String> {
    let (namespace, name) = (reader.text(target.id.namespace), reader.text(target.id.name));
    if reader.settings().backend_api == Feature::Disabled {
        return Err(format!(
            "resource {name} of type Backend cannot be used since Backend is disabled in Edge Gateway configuration"
        ));
    }
    let backend = reader.backend(target.id);
    let backend = backend.ok_or_else(|| format!("backend {namespace}/{name} not found"))?;
    if let Some(problem) = backend_problem(backend, reader.settings()) {
        return Err(problem.message);
    }
    if backend.spec.r#type == BackendType::DynamicResolver {
        return Err(format!(
            "backend {namespace}/{name} takes its host from requests, and none leads there"
        ));
    }
    Ok(backend)
}
