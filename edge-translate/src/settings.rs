//! What a translation depends on besides the resources: the controller's own configuration, as data.

use crate::{
    api::{CustomKind, EdgeProxy, edge_proxy::EdgeProxySpec},
    config::{
        EdgeGateway,
        extension::{ExtensionManager, custom_kinds},
        provider::{DeployModeType, ProviderType},
    },
    phase::gateways::proxy_settings,
};
use edge_ir::{ClusterSettings, POD_ZONE, Placement, ProxySettings, StartPlace, Timeout, Unanswered};
use std::sync::Arc;

mod rate_limit;

pub use rate_limit::rate_limit_infra;

/// Settings of the controller that translation reads. The shell makes them from the EdgeGateway file; they change
/// rarely, and a change of any of them translates the whole world again.
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
    /// Beside whom the cluster objects of fleets are made.
    pub placement: Placement,
    /// Whether proxies are told how many of them are in which zone.
    pub proxy_zones: Feature,
    /// Whether kind Backend may be used.
    pub backend_api: Feature,
    /// Whether kind EdgePatchPolicy may be used.
    pub patch_api: Feature,
    /// The service that counts requests for all proxies; without one no such limit can be kept.
    pub rate_limit: Option<RateLimitSettings>,
    /// Where proxies fetch Wasm modules.
    pub modules: ModuleServer,
    /// Whether policies may bring Lua scripts.
    pub lua_api: Feature,
    /// Whether Secrets may point to servers of secrets beside the proxies.
    pub sds_api: Feature,
    /// Judges what proxies would start with; `None` accepts all. Given from outside because the bootstrap's schema is
    /// the data plane's, which this crate doesn't know. It must be pure.
    pub check_bootstrap: Option<BootstrapCheck>,
    /// Judges what an EdgeProxy says about cluster objects; `None` accepts all. Given from outside because what those
    /// objects look like is the business of whoever renders them. It must be pure.
    pub check_objects: Option<ObjectCheck>,
    /// The EdgeProxy of every fleet whose class and Gateway name none.
    pub edge_proxy: Option<Arc<EdgeProxy>>,
    /// Services that change what a fleet becomes on its way to proxies, in the order in which they are called.
    /// Translation calls nobody.
    pub extensions: Arc<[ExtensionManager]>,
}

/// Returns why proxies with such settings can't start with what they ask for.
pub type BootstrapCheck = fn(&ProxySettings, StartPlace) -> Result<(), String>;

/// Returns all that can't be used of what an EdgeProxy says about cluster objects.
pub type ObjectCheck = fn(&ClusterSettings) -> Vec<String>;

/// The service that counts requests for all proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateLimitSettings {
    /// Host and port, where it isn't the one that runs beside a cluster's controller.
    pub address: Option<(Arc<str>, u16)>,
    /// Certificates (PEM) of those who vouch for it; without, those that the proxy's system trusts. Never in clear.
    pub authorities: Option<Arc<str>>,
    /// Time for its answer; 20 ms where nothing is said.
    pub timeout: Option<Timeout>,
    /// What becomes of requests that it doesn't answer for.
    pub unanswered: Unanswered,
}

/// Where proxies fetch Wasm modules: from the controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleServer {
    /// Host and port, where it isn't the Service of a cluster's controller.
    pub address: Option<(Arc<str>, u16)>,
    /// Certificates (PEM) of those who vouch for it; without, those that the proxy's system trusts. Never in clear.
    pub authorities: Option<Arc<str>>,
}

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

impl Feature {
    /// Usable where a switch of the file is on.
    pub fn when(is_on: bool) -> Self {
        match is_on {
            true => Self::Enabled,
            false => Self::Disabled,
        }
    }
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
            placement: placement(config),
            proxy_zones: proxy_zones(config),
            backend_api: Feature::when(config.extension_apis.enable_backend),
            patch_api: Feature::when(config.extension_apis.enable_edge_patch_policy),
            rate_limit: config.rate_limit.as_deref().map(rate_limit::settings),
            lua_api: lua_api(config),
            sds_api: Feature::when(config.extension_apis.enable_sds_secret_ref),
            check_bootstrap,
            edge_proxy: config.edge_proxy.as_deref().map(default_proxy),
            extensions: config.extensions().cloned().collect(),
            ..Self::default()
        }
    }

    /// The same settings, with a judge of what EdgeProxies say about cluster objects.
    #[must_use]
    pub fn with_object_check(self, check: ObjectCheck) -> Self {
        Self {
            check_objects: Some(check),
            ..self
        }
    }

    /// Where proxies start.
    pub fn start_place(&self) -> StartPlace {
        match self.platform {
            Platform::Host => StartPlace::Machine,
            Platform::Cluster => StartPlace::Pod {
                placement: self.placement,
                zone: (self.proxy_zones == Feature::Enabled).then_some(POD_ZONE),
            },
        }
    }

    /// Kinds beside ours of which objects are read, for extension services.
    pub fn custom_kinds(&self) -> Arc<[CustomKind]> {
        custom_kinds(&*self.extensions).into()
    }

    /// The kind of which objects are read for extension services, if it is one.
    pub(crate) fn custom_kind(&self, group: &str, kind: &str) -> Option<CustomKind> {
        let mut kinds = custom_kinds(&*self.extensions).into_iter();
        kinds.find(|known| (&*known.group, &*known.kind) == (group, kind))
    }

    /// Whether extension services say where objects of a kind are that routes name as backends.
    pub(crate) fn is_backend_of_services(&self, group: &str, kind: &str) -> bool {
        let mut kinds = self.extensions.iter().flat_map(|manager| &manager.backend_resources);
        kinds.any(|named| named.is(group, kind))
    }

    /// Why the default EdgeProxy can't be used, if it can't.
    pub fn check_default_proxy(&self) -> Result<(), String> {
        match &self.edge_proxy {
            Some(proxy) => proxy_settings::check_of_class(proxy, self),
            None => Ok(()),
        }
    }
}

/// Scripts are taken where the file says so, in the newer form or in the older one.
fn lua_api(config: &EdgeGateway) -> Feature {
    let apis = &config.extension_apis;
    let is_enabled = apis.enable_lua.or(apis.disable_lua.map(|disabled| !disabled));
    Feature::when(is_enabled.unwrap_or_default())
}

fn placement(config: &EdgeGateway) -> Placement {
    let provider = &config.provider;
    match (&provider.r#type, &provider.cluster) {
        (ProviderType::Custom, _) | (_, None) => Placement::Controller,
        (_, Some(cluster)) => match cluster.deploy.r#type {
            DeployModeType::GatewayNamespace => Placement::Gateway,
            _ => Placement::Controller,
        },
    }
}

/// Pods are told by the topology injector. Processes of a machine are told by nobody; who does it by their bootstrap
/// may write down where the others are.
fn proxy_zones(config: &EdgeGateway) -> Feature {
    let provider = &config.provider;
    let injector = provider
        .cluster
        .as_deref()
        .and_then(|cluster| cluster.proxy_topology_injector.as_ref());
    Feature::when(injector.is_none_or(|injector| !injector.disabled))
}

fn default_proxy(spec: &EdgeProxySpec) -> Arc<EdgeProxy> {
    Arc::new(EdgeProxy {
        spec: spec.clone(),
        ..EdgeProxy::default()
    })
}

impl PartialEq for Settings {
    /// Whether translation comes out the same; the checks are taken to be the same functions.
    fn eq(&self, other: &Self) -> bool {
        let Self {
            controller_name,
            controller_namespace,
            dns_domain,
            platform,
            placement,
            proxy_zones,
            backend_api,
            patch_api,
            rate_limit,
            modules,
            lua_api,
            sds_api,
            check_bootstrap,
            check_objects,
            edge_proxy,
            extensions,
        } = self;
        *controller_name == other.controller_name
            && *controller_namespace == other.controller_namespace
            && *dns_domain == other.dns_domain
            && *platform == other.platform
            && *placement == other.placement
            && *proxy_zones == other.proxy_zones
            && *backend_api == other.backend_api
            && *patch_api == other.patch_api
            && *rate_limit == other.rate_limit
            && *modules == other.modules
            && *lua_api == other.lua_api
            && *sds_api == other.sds_api
            && check_bootstrap.is_some() == other.check_bootstrap.is_some()
            && check_objects.is_some() == other.check_objects.is_some()
            && *extensions == other.extensions
            && *edge_proxy == other.edge_proxy
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            controller_name: "gateway.edge/gatewayclass-controller".into(),
            controller_namespace: "edge-gateway-system".into(),
            dns_domain: "cluster.local".into(),
            platform: Platform::Cluster,
            placement: Placement::Controller,
            proxy_zones: Feature::Enabled,
            backend_api: Feature::Enabled,
            patch_api: Feature::Enabled,
            rate_limit: Some(RateLimitSettings::default()),
            modules: ModuleServer::default(),
            lua_api: Feature::Enabled,
            sds_api: Feature::Disabled,
            check_bootstrap: None,
            check_objects: None,
            edge_proxy: None,
            extensions: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Change, Translator,
        api::{DurationText, Kind, ObjectKey, edge_proxy::ShutdownConfig},
        load::{Limits, Source, load},
        status::StatusBody,
    };

    const GATEWAYS: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: plain }
spec: { controllerName: gateway.edge/gatewayclass-controller }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: plain, namespace: ns }
spec: { gatewayClassName: plain, listeners: [{ name: http, protocol: HTTP, port: 80 }] }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: own, namespace: ns }
spec:
  gatewayClassName: plain
  infrastructure: { parametersRef: { group: gateway.edge, kind: EdgeProxy, name: own } }
  listeners: [{ name: http, protocol: HTTP, port: 80 }]
---
apiVersion: gateway.edge/v1alpha1
kind: EdgeProxy
metadata: { name: own, namespace: ns }
spec: { shutdown: { drainTimeout: 5s } }
";

    #[test]
    fn the_default_edge_proxy_shapes_fleets_that_name_none_and_is_followed() {
        let source = Source {
            name: "test",
            text: GATEWAYS,
        };
        let spec = |time: &str| EdgeProxySpec {
            shutdown: Some(ShutdownConfig {
                drain_timeout: Some(DurationText::from(time)),
                ..ShutdownConfig::default()
            }),
            ..EdgeProxySpec::default()
        };
        let settings = |time: &str| Settings {
            edge_proxy: Some(default_proxy(&spec(time))),
            ..Settings::default()
        };
        let mut translator = Translator::new(settings("7s"));
        for found in load(&source, &Limits::default()).objects {
            translator.apply(Change::Put(found.object));
        }
        let drains = |translator: &mut Translator| {
            let infra = translator.translate().infra;
            ["ns/plain", "ns/own"].map(|key| infra[key].proxy.drain_timeout_seconds)
        };
        assert_eq!(drains(&mut translator), [Some(7), Some(5)]);
        translator.set_settings(settings("8s"));
        assert_eq!(drains(&mut translator), [Some(8), Some(5)]);
    }

    #[test]
    fn a_default_that_merges_gateways_is_refused_where_each_has_its_proxies() {
        let source = Source {
            name: "test",
            text: GATEWAYS,
        };
        let settings = |placement| Settings {
            placement,
            edge_proxy: Some(default_proxy(&EdgeProxySpec {
                merge_gateways: true,
                ..EdgeProxySpec::default()
            })),
            ..Settings::default()
        };
        assert_eq!(settings(Placement::Controller).check_default_proxy(), Ok(()));
        let refused = "mergeGateways is not supported where proxies run in the namespaces of their Gateways";
        assert_eq!(
            settings(Placement::Gateway).check_default_proxy(),
            Err(refused.to_owned())
        );
        let mut translator = Translator::new(settings(Placement::Gateway));
        for found in load(&source, &Limits::default()).objects {
            translator.apply(Change::Put(found.object));
        }
        let translation = translator.translate();
        assert!(translation.infra.is_empty(), "{:?}", translation.infra);
        let class = ObjectKey::new(Kind::GatewayClass, "", "plain");
        let statuses = translator.statuses();
        let StatusBody::Class(class) = &statuses[&class].body else {
            panic!("{:?}", statuses[&class]);
        };
        let accepted = class.conditions.iter().find(|one| one.kind == "Accepted").unwrap();
        assert_eq!(accepted.reason, "InvalidParameters");
        assert!(accepted.message.contains(refused), "{accepted:?}");
    }
}
