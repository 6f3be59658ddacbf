//! What extensions of the proxy may do and load.

use crate::edge_proxy::LuaValidation;
use crate::values::values;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How Lua scripts are checked.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.strictValidation) || !has(self.validationType) || self.validationType == 'Strict'", "strictValidation can only be set when validationType is Strict"))]
pub struct LuaValidationConfig {
    /// How strictly scripts are checked.
    #[schemars(extend("default" = "Strict"))]
    pub validation_type: Option<LuaValidation>,
    /// What scripts may touch while they are checked.
    pub strict_validation: Option<StrictValidation>,
}

/// What Lua scripts may touch while they are checked.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct StrictValidation {
    /// Files that scripts may open; none when absent.
    #[schemars(length(max = 64), inner(length(min = 1, max = 4096)))]
    #[x_kube(validation = ("self.all(p, p.trim() != '')", "allowedPaths entries must not be blank or whitespace-only"))]
    #[x_kube(validation = ("self.all(p, !p.matches('^/+$'))", "allowedPaths entries must not be the filesystem root"))]
    pub allowed_paths: Option<Vec<String>>,
    /// Environment variables that scripts may read; none when absent.
    #[schemars(length(max = 64), inner(length(min = 1, max = 256)))]
    #[x_kube(validation = ("self.all(e, e.trim() != '')", "allowedEnvVars entries must not be blank or whitespace-only"))]
    pub allowed_env_vars: Option<Vec<String>>,
}

/// A native module that policies may name.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicModuleEntry {
    /// Name that policies use.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"))]
    pub name: String,
    /// Where the module comes from.
    pub source: DynamicModuleSource,
    /// Never unloads it.
    #[schemars(extend("default" = false))]
    pub do_not_close: Option<bool>,
    /// Makes its symbols visible to other modules.
    #[schemars(extend("default" = false))]
    pub load_globally: Option<bool>,
}

/// Where a native module comes from.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.remote) == (self.type == 'Remote')", "If type is Remote, remote field needs to be set."))]
#[x_kube(validation = ("self.type != 'Local' || has(self.local)", "If type is Local, local field needs to be set."))]
#[x_kube(validation = ("self.type != 'Remote' || !has(self.local)", "If type is Remote, local field must not be set."))]
pub struct DynamicModuleSource {
    /// Which member is set.
    #[schemars(extend("default" = "Local"))]
    pub r#type: Option<DynamicModuleSourceType>,
    /// A file in the container of the proxy.
    pub local: Option<LocalDynamicModuleSource>,
    /// A download.
    pub remote: Option<RemoteDynamicModuleSource>,
}

/// A module in the container of the proxy.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalDynamicModuleSource {
    /// Absolute path of the file.
    #[schemars(length(min = 1, max = 4096))]
    pub path: String,
}

/// A module that is downloaded.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoteDynamicModuleSource {
    /// From where.
    #[schemars(length(min = 1, max = 4096), regex(pattern = r"^https?://[^/?#]+(?:[/?#].*)?$"))]
    pub url: String,
    /// SHA-256 of the file in hexadecimal digits.
    #[schemars(regex(pattern = r"^[a-f0-9]{64}$"))]
    pub sha256: String,
}

/// Databases that turn addresses into places.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeProxyGeoIp {
    /// Who made the databases.
    pub provider: GeoIpProvider,
}

/// A maker of such databases.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.type != 'MaxMind' || has(self.maxMind)", "maxMind must be set when type is MaxMind"))]
pub struct GeoIpProvider {
    /// Which member is set.
    pub r#type: GeoIpProviderType,
    /// Databases in the format of MaxMind.
    pub max_mind: Option<GeoIpMaxMind>,
}

/// Databases in the format of MaxMind, at least one.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.cityDbSource) || has(self.countryDbSource) || has(self.asnDbSource) || has(self.ispDbSource) || has(self.anonymousIpDbSource)", "at least one MaxMind database source must be specified"))]
pub struct GeoIpMaxMind {
    /// Cities.
    pub city_db_source: Option<GeoIpDbSource>,
    /// Countries.
    pub country_db_source: Option<GeoIpDbSource>,
    /// Autonomous systems.
    pub asn_db_source: Option<GeoIpDbSource>,
    /// Providers.
    pub isp_db_source: Option<GeoIpDbSource>,
    /// Anonymisers.
    pub anonymous_ip_db_source: Option<GeoIpDbSource>,
}

/// Where a database is.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GeoIpDbSource {
    /// A file in the container of the proxy.
    pub local: LocalGeoIpDbSource,
}

/// A database in the container of the proxy.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalGeoIpDbSource {
    /// Path of the file, which ends in `.mmdb`.
    #[schemars(regex(pattern = r"^.*\.mmdb$"))]
    pub path: String,
}

values! {
    /// Values of `DynamicModuleSourceType`.
    pub enum DynamicModuleSourceType {
        Local = "Local",
        Remote = "Remote",
    }
}

values! {
    /// Values of `GeoIPProviderType`.
    pub enum GeoIpProviderType {
        MaxMind = "MaxMind",
    }
}
