//! What is wrong with a Backend by itself: nothing goes there then, whoever refers to it.

use super::backend_tls::parameters_problem;
use crate::{
    api::{Backend, BackendEndpoint, BackendType, text::is_dns_subdomain},
    own_host,
    settings::{Platform, Settings},
};
use std::net::IpAddr;

/// Why a Backend can't be used.
pub(crate) struct BackendProblem {
    /// Reason of `ResolvedRefs` on routes that refer to it.
    pub(crate) ref_reason: &'static str,
    /// For people.
    pub(crate) message: String,
}

/// What is wrong with a Backend by itself.
pub(crate) fn backend_problem(backend: &Backend, settings: &Settings) -> Option<BackendProblem> {
    let problem = |ref_reason, message: String| Some(BackendProblem { ref_reason, message });
    let spec = &backend.spec;
    if spec.r#type == BackendType::DynamicResolver && !spec.endpoints.is_empty() {
        return problem(
            "InvalidBackendRef",
            "DynamicResolver type cannot have endpoints specified".into(),
        );
    }
    if let Some(message) = spec.endpoints.iter().find_map(|e| endpoint_error(e, settings.platform)) {
        return problem("InvalidAddress", message);
    }
    let tls = spec.tls.as_deref()?;
    let has_authority = !tls.ca_certificate_refs.is_empty() || tls.well_known_ca_certificates.is_some();
    if !tls.insecure_skip_verify && !has_authority {
        let message = "must specify either CACertificateRefs or WellKnownCACertificates when InsecureSkipVerify is unset or false";
        return problem("InvalidBackendRef", message.into());
    }
    if tls.insecure_skip_verify && has_authority {
        let message =
            "must not contain either CACertificateRefs or WellKnownCACertificates when InsecureSkipVerify is enabled";
        return problem("InvalidBackendRef", message.into());
    }
    if !tls.ca_certificate_refs.is_empty() && tls.well_known_ca_certificates.is_some() {
        let message = "must not contain both CACertificateRefs and WellKnownCACertificates";
        return problem("InvalidBackendRef", message.into());
    }
    if tls.auto_sni_from_endpoint_hostname {
        let nameless = |e: &BackendEndpoint| e.fqdn.is_none() && e.hostname.is_none();
        if spec.r#type == BackendType::DynamicResolver {
            let message = "DynamicResolver type cannot use autoSNIFromEndpointHostname";
            return problem("InvalidBackendRef", message.into());
        }
        if spec.endpoints.iter().any(nameless) {
            let message = "when autoSNIFromEndpointHostname is enabled, IP and Unix endpoints must define a hostname";
            return problem("InvalidBackendRef", message.into());
        }
    }
    let message = parameters_problem(&backend.metadata.namespace, tls)?;
    problem("InvalidBackendTLS", message)
}

fn endpoint_error(endpoint: &BackendEndpoint, platform: Platform) -> Option<String> {
    if let Some(name) = endpoint.hostname.as_deref().filter(|name| !is_dns_subdomain(name)) {
        return Some(format!("hostname {name} is not a valid FQDN"));
    }
    if endpoint.port() == Some(0) {
        return Some("port 0 is no port of an endpoint: write a number from 1 to 65535".into());
    }
    if let Some(ip) = &endpoint.ip {
        let text = &ip.address;
        return match text.parse::<IpAddr>() {
            Err(_) => Some(format!("IP address {text} is invalid")),
            Ok(ip) => own_host::address_flaw(ip, platform).map(|flaw| format!("IP address {text} {flaw}")),
        };
    }
    let host = endpoint.fqdn.as_ref()?.relative();
    if host.parse::<IpAddr>().is_ok() {
        Some(format!("hostname {host} is an IP address"))
    } else if !is_dns_subdomain(host) {
        Some(format!("hostname {host} is not a valid FQDN"))
    } else if platform == Platform::Cluster && !host.contains('.') {
        Some(format!(
            "hostname {host} should be a domain with at least two segments separated by dots"
        ))
    } else {
        own_host::name_flaw(host, platform).map(|flaw| format!("hostname {host} {flaw}"))
    }
}
