//! What a translation depends on besides the resources: the controller's own configuration, as data.

use crate::config::{EdgeGateway, provider::ProviderType};
use edge_ir::BootstrapPatch;
use std::sync::Arc;

/// Settings of the controller that translation reads. ClusterParts by the shell from the EdgeGateway file; they change rarely,
/// and a change of any of them translates the whole world again.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name that a GatewayClass binds to.
    pub controller_name: Arc<str>,
    /// Namespace of the controller: home of its own secrets and, by default, of fleets.
    pub controller_namespace: Arc<str>,
    /// DNS domain of the platform.
    pub dns_domain: Arc<str>,
    /// What the fleets run on.
    pub platform: Platform,
    /// Whether kind Backend may be used.
    pub backend_api: Feature,
    /// Judges a change to the default bootstrap; `None` accepts all. Given from outside because the bootstrap's schema
    /// is the data plane's, which this crate doesn't know. It must be pure.
    pub check_bootstrap: Option<BootstrapCheck>,
}

/// Returns why a bootstrap customisation can't be used.
pub type BootstrapCheck = fn(&BootstrapPatch) -> Result<(), String>;

/// What fleets run on; decides ports and which backend addresses are sensible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Platform {
    /// Pods: ports below 1024 are shifted by 10000, loopback backends are refused.
    #[default]
    Cluster,
    /// Processes on the controller's machine: ports stay, loopback backends are welcome.
    Host,
}

/// A part of the product that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Usable.
    Enabled,
    /// Refused with a condition that says so.
    Disabled,
}

impl Settings {
    /// What a controller with this configuration file translates by: one rule for the controller and for offline use.
    pub fn of(config: &EdgeGateway, check_bootstrap: Option<BootstrapCheck>) -> Self {
        Self {
            controller_name: (*config.gateway.controller_name).into(),
            platform: match config.provider.r#type {
                // Standalone: proxies are processes of one machine.
                ProviderType::Custom => Platform::Host,
                _ => Platform::Cluster,
            },
            backend_api: match config.extension_apis.enable_backend {
                true => Feature::Enabled,
                false => Feature::Disabled,
            },
            check_bootstrap,
            ..Self::default()
        }
    }

    /// Whether translation comes out the same; the bootstrap check is taken to be the same function.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let Self {
            controller_name,
            controller_namespace,
            dns_domain,
            platform,
            backend_api,
            check_bootstrap,
        } = self;
        *controller_name == other.controller_name
            && *controller_namespace == other.controller_namespace
            && *dns_domain == other.dns_domain
            && *platform == other.platform
            && *backend_api == other.backend_api
            && check_bootstrap.is_some() == other.check_bootstrap.is_some()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            controller_name: "gateway.edge/gatewayclass-controller".into(),
            controller_namespace: "edge-gateway-system".into(),
            dns_domain: "cluster.local".into(),
            platform: Platform::Cluster,
            backend_api: Feature::Enabled,
            check_bootstrap: None,
        }
    }
}
