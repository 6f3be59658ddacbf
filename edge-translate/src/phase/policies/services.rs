//! Services that a policy asks: backends of ours, or what an address names.
//!
//! Told from the objects alone. Whether a backend can be spoken to as its own settings ask is asked where rules are
//! bound (`routes/bound`), as for the backends of routes.

use crate::{
    api::{
        self, Kind,
        cluster_settings::ClusterSettings,
        security::{ServiceRef, Services},
    },
    engine::reader::Reader,
    name::{BackendId, BackendKind, BackendPort, SetMember, Target, Variant},
    phase::{
        backends::{asked::asked, backend_tls::BackendTls, set},
        policies::traffic::{self, Problems},
        reference::{Referent, Referrer, is_permitted},
    },
};
use edge_ir::{AppProtocol, RetryPolicy, Timeout};
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
pub(super) struct ServiceLookup<'a> {
    /// The kind of the policy.
    pub(super) by: Kind,
    /// What messages call the part of the policy.
    pub(super) area: &'a str,
    /// How it is spoken to, unless it says otherwise.
    pub(super) protocol: AppProtocol,
    pub(super) services: Services<'a>,
    /// Longest wait for an answer. A try has no limit of its own, so it can't have a shorter one; where this is absent,
    /// the policy's status says that such a limit has no effect.
    pub(super) wait: Option<Timeout>,
}

/// The service that references name, several of them as one; none where that is not one that can be asked.
pub(super) fn service(reader: &Reader<'_>, asked: ServiceLookup<'_>, problems: &mut Problems) -> Option<Service> {
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
pub(super) fn settings(asked: &ServiceLookup<'_>, problems: &mut Problems) -> (Variant, Option<RetryPolicy>) {
    let Some(settings) = asked.services.settings else {
        return Default::default();
    };
    retries(asked.area, settings, asked.wait, problems);
    traffic::of_service(settings, problems)
}

/// All references as one backend, and the host of the first.
fn backends(reader: &Reader<'_>, asked: &ServiceLookup<'_>) -> Result<(BackendId, Arc<str>), String> {
    let found = asked.services.references.iter().map(|named| {
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
        return Err(match asked.services.references.as_slice() {
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

/// Says that the older form of naming a service isn't followed.
pub(super) fn refuse_older(area: &str, services: &Services<'_>, problems: &mut Problems) {
    if services.older.is_some() {
        problems.add(area, "BackendRefs must be used, backendRef is not supported");
    }
}

/// The status of requests that fail because a service says nothing: one that proxies know, and that says so.
pub(super) fn status_on_error(area: &str, written: Option<u16>, usual: u16, problems: &mut Problems) -> u16 {
    let status = written.unwrap_or(usual);
    if !matches!(status, 400..=417 | 421..=424 | 426 | 428 | 429 | 431 | 500..=508 | 510 | 511) {
        problems.add(
            area,
            format_args!("statusOnError {status} is not the status of an error"),
        );
    }
    status
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

/// Whether the backend that a reference names is spoken to in clear; not where nothing is sent to it.
pub(super) fn is_in_clear(reader: &Reader<'_>, by: Kind, reference: &ServiceRef) -> bool {
    let found = backend(reader, by, reference, AppProtocol::Http1);
    found.is_ok_and(|(backend, _)| matches!(reader.backend_tls(backend.port), Some(BackendTls::Clear)))
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
    let (backend, host) = asked(reader, target, reference.port, protocol)?;
    Ok((backend, host.into()))
}
