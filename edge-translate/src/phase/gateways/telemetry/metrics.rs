//! Collectors that metrics are pushed to.
//!
//! They stand in the bootstrap, which starts the proxies of a fleet anew when it changes. So they are told by names and
//! never by the pods behind these.

use super::{collector::Finder, formats};
use crate::{
    api::{
        cluster_settings::BackendRef,
        edge_proxy::telemetry::{MetricSink as Spec, MetricSinkType, OpenTelemetryMetrics, ProxyMetrics},
    },
    name::{BackendKind, BackendPort},
    phase::{
        backends::{
            asked,
            backend_tls::{BackendTls, Trust},
            defaults::TlsDefaults,
            set,
        },
        secrets::Provided,
    },
    settings::Platform,
};
use edge_ir::{MetricHost, MetricSink, MetricTls, SecretContent, ServerNaming, SubjectName, Temporality};
use std::{net::IpAddr, sync::Arc};

/// Most collectors that may be named.
const MOST: usize = 16;

/// The collectors that can be told; what is wrong with the others is a problem each.
pub(super) fn sinks(finder: &mut Finder<'_, '_>, spec: &ProxyMetrics, problems: &mut Vec<String>) -> Vec<MetricSink> {
    let mut invalid = |why: &str| {
        problems.push(format!(
            "Invalid metrics backendRefs in the referenced EdgeProxy: {why}"
        ));
    };
    if spec.sinks.len() > MOST {
        invalid(&format!("there may be at most {MOST} sinks"));
    }
    let read = |one: &Spec| sink(finder, one).map_err(|why| invalid(&why)).ok();
    spec.sinks.iter().take(MOST).filter_map(read).collect()
}

/// As many collectors as there may be.
pub(super) fn placeholders(spec: &ProxyMetrics) -> Vec<MetricSink> {
    let otlp = spec
        .sinks
        .iter()
        .take(MOST)
        .filter_map(|sink| sink.open_telemetry.as_deref());
    let somewhere = || MetricTarget {
        hosts: vec![whole("collector".into(), 1)],
        authority: "collector".into(),
        tls: None,
    };
    otlp.filter_map(|otlp| pushed(otlp, somewhere()).ok()).collect()
}

fn sink(finder: &mut Finder<'_, '_>, spec: &Spec) -> Result<MetricSink, String> {
    let otlp = match (&spec.r#type, &spec.open_telemetry) {
        (MetricSinkType::OpenTelemetry, Some(otlp)) => otlp,
        (MetricSinkType::OpenTelemetry, None) => {
            return Err("if MetricSink type is OpenTelemetry, openTelemetry field needs to be set".to_owned());
        }
        (MetricSinkType::Other(other), _) => return Err(format!("unsupported type of sink {other}")),
    };
    let backends = otlp.backends();
    if backends.single.is_some() {
        return Err("BackendRefs must be used, backendRef is not supported.".to_owned());
    }
    if backends.settings.is_some() {
        return Err("backendSettings of a collector of metrics is not supported by this version".to_owned());
    }
    let target = match (backends.listed, otlp.address()) {
        ([], Some((host, port))) => {
            let (_, authority) = finder.at_host(host, port)?;
            MetricTarget {
                hosts: vec![whole(host.into(), port)],
                authority,
                tls: None,
            }
        }
        ([], None) => return Err("host or backendRefs needs to be set".to_owned()),
        (listed, _) => at_backends(finder, listed)?,
    };
    pushed(otlp, target)
}

fn pushed(otlp: &OpenTelemetryMetrics, target: MetricTarget) -> Result<MetricSink, String> {
    let temporality = |as_deltas| match as_deltas {
        true => Temporality::Delta,
        false => Temporality::Cumulative,
    };
    Ok(MetricSink {
        hosts: target.hosts,
        authority: target.authority,
        tls: target.tls,
        headers: formats::headers(&otlp.headers)?,
        resource: formats::pairs(&otlp.resource_attributes),
        counters: temporality(otlp.report_counters_as_deltas),
        histograms: temporality(otlp.report_histograms_as_deltas),
    })
}

fn whole(host: Arc<str>, port: u16) -> MetricHost {
    MetricHost {
        host,
        port,
        weight: 1,
        priority: 0,
    }
}

/// Where metrics are sent.
struct MetricTarget {
    hosts: Vec<MetricHost>,
    authority: Arc<str>,
    tls: Option<MetricTls>,
}

fn at_backends(finder: &mut Finder<'_, '_>, listed: &[BackendRef]) -> Result<MetricTarget, String> {
    let mut hosts = Vec::new();
    let mut ports = Vec::new();
    let mut authority = None;
    for reference in listed.iter().filter(|reference| reference.weight > 0) {
        let (port, asked_as) = finder.backend(reference)?;
        authority.get_or_insert(asked_as);
        finder.named.insert(port);
        ports.push(port);
        hosts.extend(hosts_of(finder, port)?.into_iter().map(|host| MetricHost {
            weight: reference.weight,
            priority: set::priority_of(finder.reader, port, reference.fallback),
            ..host
        }));
    }
    let Some(authority) = authority else {
        return Err("no backendRef has a weight".to_owned());
    };
    let reader = finder.reader;
    if let Some(why) = ports.iter().find_map(|port| asked::refusal(reader, *port)) {
        return Err(why.into_owned());
    }
    let of_port = |port: &BackendPort| match reader.backend_tls(*port) {
        Some(BackendTls::Tls(trust)) => Some(trust),
        Some(BackendTls::Clear | BackendTls::Refused(_)) | None => None,
    };
    let trusts: Vec<_> = ports.iter().map(of_port).collect();
    let first = trusts.first().copied().flatten();
    if trusts.iter().any(|trust| *trust != first) {
        return Err("all backendRefs must be spoken to with the same TLS settings".to_owned());
    }
    let tls = match first {
        Some(trust) => Some(tls(trust, &hosts, finder.tls.as_ref().map_err(String::clone)?)?),
        None => None,
    };
    Ok(MetricTarget {
        hosts,
        authority: authority.into(),
        tls,
    })
}

/// Names and addresses of a backend.
fn hosts_of(finder: &Finder<'_, '_>, port: BackendPort) -> Result<Vec<MetricHost>, String> {
    let reader = finder.reader;
    let (settings, id) = (reader.settings(), port.target.id);
    let (namespace, name) = (reader.text(id.namespace), reader.text(id.name));
    if port.target.kind != BackendKind::Backend {
        return match settings.platform {
            Platform::Cluster => {
                let host = format!("{name}.{namespace}.svc.{}", settings.dns_domain);
                Ok(vec![whole(host.into(), port.port)])
            }
            Platform::Host => Err(format!(
                "the name of service {namespace}/{name} is known in a cluster alone: name a Backend"
            )),
        };
    }
    let endpoints = reader
        .backend(id)
        .map(|backend| &*backend.spec.endpoints)
        .unwrap_or_default();
    let host = |endpoint: &crate::api::BackendEndpoint| match (&endpoint.fqdn, &endpoint.ip) {
        (Some(fqdn), _) => Ok(whole((&*fqdn.hostname).into(), fqdn.port)),
        (None, Some(ip)) => Ok(whole((&*ip.address).into(), ip.port)),
        (None, None) => Err(format!(
            "backend {namespace}/{name} is a path, and metrics are pushed to hosts alone"
        )),
    };
    endpoints.iter().map(host).collect()
}

/// TLS as it can stand in a bootstrap, which nobody keeps secrets in.
fn tls(trust: &Trust, hosts: &[MetricHost], defaults: &TlsDefaults) -> Result<MetricTls, String> {
    if trust.client_certificate.is_some() {
        return Err("a collector of metrics can't be shown a client certificate".to_owned());
    }
    let authorities = trust
        .authorities
        .as_ref()
        .and_then(Provided::held)
        .map(|secret| &secret.content);
    let Some(authorities) = authorities else {
        return Err("TLS of a collector of metrics needs authorities to trust".to_owned());
    };
    let (server_name, subjects) = match trust.tls.naming {
        ServerNaming::Fixed => (Arc::clone(&trust.tls.server_name), trust.tls.subjects.clone()),
        // No request has a host here: it is asked for by the name that all of its hosts have.
        ServerNaming::OfRequest | ServerNaming::OfEndpoint => {
            let name = name_of_all(hosts).ok_or("TLS of a collector of metrics needs a server name: set sni")?;
            let subjects = match trust.tls.subjects.is_empty() {
                true => vec![SubjectName::Dns(Arc::clone(&name))],
                false => trust.tls.subjects.clone(),
            };
            (name, subjects)
        }
    };
    Ok(MetricTls {
        server_name,
        subjects,
        parameters: trust.asked.over(&defaults.asked).parameters(),
        authorities: match authorities {
            SecretContent::Authorities { bundle, .. } => Some(bundle.clone()),
            _ => None,
        },
    })
}

/// The name that all hosts have; addresses aren't names.
fn name_of_all(hosts: &[MetricHost]) -> Option<Arc<str>> {
    let (first, rest) = hosts.split_first()?;
    let is_name = first.host.parse::<IpAddr>().is_err();
    (is_name && rest.iter().all(|host| host.host == first.host)).then(|| Arc::clone(&first.host))
}
