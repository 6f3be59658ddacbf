//! Another service that decides about requests.

use super::Guards;
use crate::{
    api::{
        Kind,
        security::{
            LocalRef, Services,
            ext_auth::{ContextExtension, ContextExtensionType, ExtAuth},
        },
    },
    engine::reader::Reader,
    phase::{
        header::{WHOSE_FRAMING, is_framing},
        policies::{
            services::{self, ServiceLookup},
            traffic::Problems,
        },
    },
};
use edge_ir::{
    AppProtocol, AuthPath, AuthService, ExternalAuth, FilterEffect, FilterId, FilterInstance, FilterKind,
    FilterSettings, Rerouting, RouteMetadata, SecretBytes, Timeout, Undecided,
};
use std::sync::Arc;

pub(super) const AREA: &str = "ExtAuth";
/// Longest wait for an answer where nothing is said.
const TIMEOUT: Timeout = Timeout(10_000);
/// Status of a request that nobody decides about where nothing is said.
const FORBIDDEN: u16 = 403;

/// Asks another service.
pub(super) fn external(
    reader: &Reader<'_>,
    owner: &Arc<str>,
    spec: &ExtAuth,
    guards: &mut Guards<'_, '_>,
    problems: &mut Problems,
) {
    let Some((services, how, protocol)) = asked(spec, problems) else {
        return;
    };
    // None listed is as nothing said: proxies have no word for a list of none.
    let listed = spec.headers_to_ext_auth.as_deref().filter(|names| !names.is_empty());
    let headers = listed.map(|names| {
        let names = names.iter();
        names
            .map(|name| problems.token(AREA, "headersToExtAuth", name))
            .collect()
    });
    let timeout = problems.positive(AREA, "Timeout", spec.timeout.as_ref());
    let body = spec.body_to_ext_auth.as_ref().map(|body| body.max_request_bytes);
    if body == Some(0) {
        problems.add(AREA, "maxRequestBytes must not be 0");
    }
    let status = services::status_on_error(AREA, spec.status_on_error, FORBIDDEN, problems);
    let attributes: Vec<_> = spec
        .context_extensions
        .iter()
        .filter_map(|one| attribute(reader, one, problems))
        .collect();
    let asked = ServiceLookup {
        by: Kind::SecurityPolicy,
        area: AREA,
        protocol,
        services,
        wait: None,
    };
    let Some(service) = services::service(reader, asked, problems) else {
        return;
    };
    guards.backends.push(service.backend);
    let auth = ExternalAuth {
        service: how,
        cluster: reader.cluster_name(service.backend),
        authority: service.authority,
        timeout: timeout.unwrap_or(TIMEOUT),
        retry: service.retry,
        headers,
        body,
        undecided: match spec.fail_open {
            Some(true) => Undecided::Allowed,
            Some(false) | None => Undecided::Refused(status),
        },
        routing: match spec.recompute_route {
            Some(true) => Rerouting::Again,
            Some(false) | None => Rerouting::Never,
        },
        metadata: match spec.include_route_metadata {
            Some(true) => RouteMetadata::Shown,
            Some(false) | None => RouteMetadata::Hidden,
        },
    };
    let instance = FilterInstance {
        id: FilterId {
            kind: FilterKind::ExtAuthz,
            owner: Arc::clone(owner),
        },
        settings: FilterSettings::ExternalAuth(Arc::new(auth)),
    };
    let effect = FilterEffect::ExternalAuth(attributes.into());
    guards.filters.instance(instance, Vec::new(), effect);
}

/// What is asked, how, and in which protocol.
fn asked<'a>(spec: &'a ExtAuth, problems: &mut Problems) -> Option<(Services<'a>, AuthService, AppProtocol)> {
    match (&spec.grpc, &spec.http) {
        (Some(_), Some(_)) => {
            problems.add(AREA, "only one of grpc or http can be specified");
            None
        }
        (None, None) => {
            problems.add(AREA, "one of grpc or http must be specified");
            None
        }
        (Some(grpc), None) => Some((grpc.services(), AuthService::Grpc, AppProtocol::Http2)),
        (None, Some(http)) => {
            let path = path(http.path.as_deref(), http.path_override.as_deref(), problems);
            let to_backend = http.headers_to_backend.iter();
            let to_backend = to_backend
                .map(|name| {
                    if is_framing(name) {
                        problems.add(
                            AREA,
                            format_args!("headersToBackend {name} can't be set: {WHOSE_FRAMING}"),
                        );
                    }
                    problems.token(AREA, "headersToBackend", name)
                })
                .collect();
            let how = AuthService::Http { path, to_backend };
            Some((http.services(), how, AppProtocol::Http1))
        }
    }
}

fn path(before: Option<&str>, instead: Option<&str>, problems: &mut Problems) -> AuthPath {
    if before.is_some() && instead.is_some() {
        problems.add(AREA, "only one of path or pathOverride can be specified");
    }
    for path in [before, instead].into_iter().flatten() {
        let is_path = path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic());
        if !is_path && !path.is_empty() {
            problems.add(AREA, format_args!("path {path:?} must begin with / and hold no blanks"));
        }
    }
    match instead {
        Some(path) => AuthPath::Fixed(path.into()),
        None => AuthPath::Behind(before.unwrap_or_default().into()),
    }
}

fn attribute(reader: &Reader<'_>, spec: &ContextExtension, problems: &mut Problems) -> Option<(Arc<str>, SecretBytes)> {
    let value = match (&spec.r#type, &spec.value, &spec.value_ref) {
        (ContextExtensionType::Value, Some(value), None) => value.as_bytes().to_vec(),
        (ContextExtensionType::ValueRef, None, Some(reference)) => referred(reader, reference, problems)?,
        _ => {
            problems.add(AREA, "Exactly one of value or valueRef must be set with correct type");
            return None;
        }
    };
    if std::str::from_utf8(&value).is_err() {
        problems.add(AREA, format_args!("context extension {} is not text", spec.name));
        return None;
    }
    Some(((&*spec.name).into(), SecretBytes::new(value)))
}

fn referred(reader: &Reader<'_>, reference: &LocalRef, problems: &mut Problems) -> Option<Vec<u8>> {
    let (namespace, name) = (&reference.home, &reference.name);
    let id = reader.id(namespace, name);
    let Some(key) = reference.key.as_deref() else {
        problems.add(
            AREA,
            format_args!("the reference to {} {name} names no key", reference.kind),
        );
        return None;
    };
    let (word, found) = match &*reference.kind {
        "ConfigMap" => {
            let map = reader.config_map(id);
            (
                "configmap",
                map.map(|map| map.data.get(key).map(|text| text.as_bytes().to_vec())),
            )
        }
        "Secret" => {
            let secret = reader.secret(id);
            (
                "secret",
                secret.map(|secret| secret.data.get(key).map(|bytes| bytes.expose().to_vec())),
            )
        }
        other => {
            problems.add(AREA, format_args!("{other} {name} is no ConfigMap or Secret"));
            return None;
        }
    };
    match found {
        Some(Some(value)) => Some(value),
        Some(None) => {
            problems.add(
                AREA,
                format_args!("{word} {name} in namespace {namespace} has no key {key}"),
            );
            None
        }
        None => {
            problems.add(AREA, format_args!("{word} {name} not found in namespace {namespace}"));
            None
        }
    }
}
