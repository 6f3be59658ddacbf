//! EdgeGateway: the configuration file of the controller.
//!
//! It has no `spec`: fields stand at the top. Unlike in resources, an unknown field is an error here, because a
//! mistyped setting must not be silent. Watching the file and restarting what a change affects is the shell's part.

pub mod check;
pub mod extension;
pub mod parse;
pub mod provider;
pub mod service;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::api::edge_proxy::LogLevel;
use crate::api::text::{is_default, open_enum};
use crate::api::{EdgeProxySpec, Text};
use crate::config::extension::ExtensionManager;
use crate::config::provider::{InfrastructureProvider, Provider};
use crate::config::service::{Admin, RateLimit, Telemetry, XdsServer};

pub use crate::config::parse::{Remarks, parse, parse_and_judge};

/// The controller's name unless the file gives another.
pub const DEFAULT_CONTROLLER_NAME: &str = "gateway.edge/gatewayclass-controller";

/// The configuration of the controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeGateway {
    /// Which GatewayClasses it serves.
    #[serde(default)]
    pub gateway: GatewaySettings,
    /// Where resources come from and where proxies run.
    #[serde(default)]
    pub provider: Provider,
    /// Another place for `provider.custom.infrastructure`; `parse` moves it there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub infrastructure: Option<InfrastructureProvider>,
    /// Log levels of the controller.
    #[serde(default)]
    pub logging: Logging,
    /// The admin endpoint.
    #[serde(default)]
    pub admin: Admin,
    /// Metrics and traces of the controller.
    #[serde(default, skip_serializing_if = "is_default")]
    pub telemetry: Option<Box<Telemetry>>,
    /// The configuration server for proxies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub xds_server: Option<XdsServer>,
    /// The global rate limit service.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rate_limit: Option<Box<RateLimit>>,
    /// One extension service.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extension_manager: Option<Box<ExtensionManager>>,
    /// Several extension services.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extension_managers: Option<Box<[ExtensionManager]>>,
    /// Kinds and features that are off by default.
    #[serde(default)]
    pub extension_apis: ExtensionApis,
    /// Experimental Gateway API kinds.
    #[serde(rename = "gatewayAPI", default, skip_serializing_if = "is_default")]
    pub gateway_api: Option<GatewayApiSettings>,
    /// Switches for behaviour in transition.
    #[serde(default, skip_serializing_if = "is_default")]
    pub runtime_flags: Option<RuntimeFlags>,
    /// Settings that every fleet starts from.
    #[serde(default, skip_serializing_if = "is_default")]
    pub edge_proxy: Option<Box<EdgeProxySpec>>,
}

/// Which GatewayClasses the controller serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySettings {
    /// Those that name this.
    #[serde(default = "controller_name")]
    pub controller_name: Text,
}

/// Log levels of the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Logging {
    /// Level by component; `default` is the base.
    #[serde(default = "info")]
    pub level: BTreeMap<Text, LogLevel>,
    /// Form of the lines.
    #[serde(default, skip_serializing_if = "is_default")]
    pub encoder: Option<LogEncoder>,
}

open_enum! {
    /// Form of log lines.
    pub enum LogEncoder {
        Text = "Text",
        Json = "JSON",
    }
}

/// Kinds and features that are off by default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionApis {
    /// Reads EdgePatchPolicy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enable_edge_patch_policy: bool,
    /// Reads Backend.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enable_backend: bool,
    /// Older opposite of `enableLua`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub disable_lua: Option<bool>,
    /// Takes Lua policies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enable_lua: Option<bool>,
    /// Secrets may point to a secret server.
    #[serde(rename = "enableSDSSecretRef", default, skip_serializing_if = "is_default")]
    pub enable_sds_secret_ref: bool,
}

/// Experimental Gateway API kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayApiSettings {
    /// Kinds that are read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enabled: Box<[Text]>,
}

/// Switches for behaviour in transition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeFlags {
    /// Switched on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enabled: Box<[Text]>,
    /// Switched off.
    #[serde(default, skip_serializing_if = "is_default")]
    pub disabled: Box<[Text]>,
}

fn controller_name() -> Text {
    DEFAULT_CONTROLLER_NAME.into()
}

fn info() -> BTreeMap<Text, LogLevel> {
    BTreeMap::from([("default".into(), LogLevel::Info)])
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            controller_name: controller_name(),
        }
    }
}

impl Default for Logging {
    fn default() -> Self {
        Self {
            level: info(),
            encoder: None,
        }
    }
}

impl EdgeGateway {
    /// Every extension service, by whichever field it was given.
    pub fn extensions(&self) -> impl Iterator<Item = &ExtensionManager> {
        self.extension_manager
            .iter()
            .map(|one| &**one)
            .chain(self.extension_managers.iter().flatten())
    }
}

#[cfg(test)]
mod tests;
