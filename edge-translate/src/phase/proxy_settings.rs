//! What an EdgeProxy asks for: whether it makes sense, and what of it a fleet's infrastructure needs.

use crate::{api::EdgeProxy, settings::Settings};
use edge_ir::ProxySettings;

/// Why an EdgeProxy can't be used, for people.
pub(crate) type ProxyProblem = String;

/// Whether a parametersRef names an EdgeProxy.
pub(crate) fn check_reference(group: &str, kind: &str) -> Result<(), ProxyProblem> {
    if group != "gateway.edge" || kind != "EdgeProxy" {
        return Err(format!(
            "unsupported parametersRef {group}/{kind}, only gateway.edge/EdgeProxy is supported"
        ));
    }
    Ok(())
}

/// Whether the settings make sense.
pub(crate) fn check(_proxy: &EdgeProxy, _settings: &Settings) -> Result<(), ProxyProblem> {
    Ok(())
}

/// Routes stay in the order of their source.
pub(crate) fn preserves_route_order(_proxy: &EdgeProxy) -> bool {
    false
}

/// Nothing is logged of requests.
pub(crate) fn disables_access_log(_proxy: &EdgeProxy) -> bool {
    false
}

/// What of an EdgeProxy the infrastructure needs.
pub(crate) fn proxy_settings(proxy: Option<&EdgeProxy>) -> ProxySettings {
    ProxySettings {
        ip_family: super::infra::ip_family(proxy),
        prometheus: true,
        ..ProxySettings::default()
    }
}
