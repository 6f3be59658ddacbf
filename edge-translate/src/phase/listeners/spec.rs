//! Whether a listener is valid by itself: protocol, TLS settings, route kinds and namespaces (not its certificates,
//! not its neighbours).

use super::finding::Finding;
use crate::{
    api::{
        FromNamespaces, Kind, Listener, ListenerTls, Protocol, TlsMode,
        text::{Hostname, check_section_name},
    },
    phase::hostname,
    status::sentence,
};

/// Group of the route kinds.
const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";

/// What a listener's own text says.
pub(crate) struct ListenerSpec {
    /// Route kinds that it takes.
    pub(crate) kinds: Vec<Kind>,
    /// What is wrong with it.
    pub(crate) findings: Vec<Finding>,
}

/// Judges a listener's own text.
pub(crate) fn check(listener: &Listener) -> ListenerSpec {
    let mut findings = Vec::new();
    let kinds = route_kinds(listener, &mut findings);
    if let Some(error) = namespaces_error(listener) {
        findings.push(Finding::programmed("Invalid", error));
    }
    if matches!(listener.protocol, Protocol::Tcp | Protocol::Udp)
        && hostname::text(listener.hostname.as_deref()) != hostname::ANY
    {
        let message = format!(
            "Listener must not have hostname set when protocol is {}.",
            listener.protocol
        );
        findings.push(Finding::programmed("Invalid", message));
    }
    findings.extend(hostname_finding(listener));
    findings.extend(identity_findings(listener));
    findings.extend(filters_finding(listener));
    if let Some(finding) = tls_finding(listener) {
        findings.push(finding);
    }
    ListenerSpec { kinds, findings }
}

/// The API server would refuse such a hostname; files are not asked.
fn hostname_finding(listener: &Listener) -> Option<Finding> {
    let name = hostname::text(listener.hostname.as_deref()).to_lowercase();
    let is_fine = name == hostname::ANY || Hostname::parse(&name).is_ok();
    (!is_fine).then(|| Finding::programmed("Invalid", format!("Hostname \"{name}\" is not a DNS name.")))
}

/// What the API server would refuse about name and port.
fn identity_findings(listener: &Listener) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = check_section_name(&listener.name) {
        findings.push(Finding::programmed("Invalid", sentence(&error.to_string())));
    }
    if listener.port == 0 {
        let message = "Port 0 is no port to listen on: write a number from 1 to 65535.";
        findings.push(Finding::programmed("Invalid", message));
    }
    findings
}

/// A filter of a listener may be what protects it, so that it must not serve without.
fn filters_finding(listener: &Listener) -> Option<Finding> {
    listener.filters.as_ref().filter(|f| !f.requests.is_empty())?;
    let message = "Filters of a listener are not supported by this version: the listener doesn't serve without them.";
    Some(Finding::accepted("UnsupportedValue", message))
}

/// Kinds that a protocol carries.
fn kinds_of(protocol: &Protocol, tls: Option<&ListenerTls>) -> &'static [Kind] {
    match protocol {
        Protocol::Http | Protocol::Https => &[Kind::HttpRoute, Kind::GrpcRoute],
        Protocol::Tls if tls.is_some_and(|t| t.mode == TlsMode::Passthrough) => &[Kind::TlsRoute],
        Protocol::Tls => &[Kind::TcpRoute, Kind::TlsRoute],
        Protocol::Tcp => &[Kind::TcpRoute],
        Protocol::Udp => &[Kind::UdpRoute],
        Protocol::Other(_) => &[],
    }
}

/// The kinds that a listener takes: those of its protocol, narrowed by `allowedRoutes.kinds`.
fn route_kinds(listener: &Listener, findings: &mut Vec<Finding>) -> Vec<Kind> {
    let supported = kinds_of(&listener.protocol, listener.tls.as_deref());
    if supported.is_empty() {
        let message = format!(
            "Protocol {} is unsupported, must be HTTP, HTTPS, TLS, TCP or UDP{}.",
            listener.protocol,
            match Protocol::from(&*listener.protocol.as_str().to_ascii_uppercase()) {
                Protocol::Other(_) => String::new(),
                meant => format!(": write {meant}"),
            }
        );
        findings.push(Finding::accepted("UnsupportedProtocol", message));
        return Vec::new();
    }
    if listener.allowed_routes.kinds.is_empty() {
        return supported.to_vec();
    }
    let mut kinds = Vec::new();
    for wanted in &listener.allowed_routes.kinds {
        if wanted.group != GATEWAY_GROUP {
            let message = format!("Group is not supported, group must be {GATEWAY_GROUP}");
            findings.push(Finding::resolved_refs("InvalidRouteKinds", message));
            continue;
        }
        match supported.iter().find(|k| k.as_str() == wanted.kind.as_str()) {
            Some(kind) if kinds.contains(kind) => {}
            Some(kind) => kinds.push(*kind),
            None => {
                let names: Vec<_> = supported.iter().map(|k| k.as_str()).collect();
                let message = format!(
                    "{} is not supported, kind must be one of [{}]",
                    wanted.kind,
                    names.join(" ")
                );
                findings.push(Finding::resolved_refs("InvalidRouteKinds", message));
            }
        }
    }
    kinds
}

fn namespaces_error(listener: &Listener) -> Option<String> {
    let namespaces = &listener.allowed_routes.namespaces;
    if namespaces.from != FromNamespaces::Selector {
        return None;
    }
    let Some(selector) = &namespaces.selector else {
        return Some(
            "The allowedRoutes.namespaces.selector field must be specified when allowedRoutes.namespaces.from is set to \"Selector\"."
                .into(),
        );
    };
    let error = selector.fault()?;
    Some(format!(
        "The allowedRoutes.namespaces.selector could not be parsed: {error}."
    ))
}

/// What is wrong with the TLS settings, before any certificate is looked at.
fn tls_finding(listener: &Listener) -> Option<Finding> {
    let invalid = |message: String| Some(Finding::programmed("Invalid", message));
    let protocol = &listener.protocol;
    match (protocol, &listener.tls) {
        (Protocol::Http | Protocol::Tcp | Protocol::Udp, Some(_)) => {
            invalid(format!("Listener must not have TLS set when protocol is {protocol}."))
        }
        (Protocol::Https | Protocol::Tls, None) => {
            invalid(format!("Listener must have TLS set when protocol is {protocol}."))
        }
        (Protocol::Https | Protocol::Tls, Some(tls)) if matches!(tls.mode, TlsMode::Other(_)) => invalid(format!(
            "TLS mode {} is unknown, must be Terminate or Passthrough.",
            tls.mode
        )),
        (Protocol::Https, Some(tls)) if tls.mode == TlsMode::Passthrough => Some(Finding::programmed(
            "UnsupportedTLSMode",
            "TLS Passthrough mode is not supported, TLS mode must be Terminate.",
        )),
        (Protocol::Https, Some(tls)) if tls.certificate_refs.is_empty() => {
            invalid("Listener must have at least 1 TLS certificate ref".into())
        }
        (Protocol::Tls, Some(tls)) => match (&tls.mode, tls.certificate_refs.is_empty()) {
            (TlsMode::Passthrough, false) => {
                invalid("Listener must not have TLS certificate refs set for TLS mode Passthrough.".into())
            }
            (TlsMode::Terminate, true) => {
                invalid("Listener must have TLS certificate refs set for TLS mode Terminate.".into())
            }
            _ => None,
        },
        _ => None,
    }
}
