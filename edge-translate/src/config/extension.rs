//! Extension services: other programs that change the translation.

use serde::{Deserialize, Serialize};

use crate::api::text::{DurationText, Quantity, is_default, open_enum};
use crate::api::{CustomKind, CustomRole, FqdnEndpoint, Fraction, IpEndpoint, SecretRef, Text, UnixSocket};

/// An extension service and what it may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionManager {
    /// Name, unique among several.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Text>,
    /// Kinds usable as filters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resources: Box<[GroupVersionKind]>,
    /// Kinds usable as policies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy_resources: Box<[GroupVersionKind]>,
    /// Kinds usable as backends.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_resources: Box<[GroupVersionKind]>,
    /// When it is called; required.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hooks: Option<ExtensionHooks>,
    /// Its address; required.
    #[serde(default, skip_serializing_if = "is_default")]
    pub service: Option<Box<ExtensionService>>,
    /// Goes on without it when it fails.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fail_open: bool,
    /// Largest message; 4 MB when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_message_size: Option<Quantity>,
}

/// A kind of resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupVersionKind {
    /// API group.
    pub group: Text,
    /// Version.
    pub version: Text,
    /// Kind.
    pub kind: Text,
}

impl GroupVersionKind {
    /// Whether objects of a kind, at whatever version, are meant.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        *self.group == *group && *self.kind == *kind
    }
}

/// All kinds that services are shown objects of, sorted, each once.
pub fn custom_kinds<'a>(managers: impl IntoIterator<Item = &'a ExtensionManager>) -> Vec<CustomKind> {
    let of = |list: &'a [GroupVersionKind], role| {
        list.iter().map(move |named| CustomKind {
            group: named.group.clone(),
            version: named.version.clone(),
            kind: named.kind.clone(),
            role,
        })
    };
    let all = managers.into_iter().flat_map(|manager| {
        of(&manager.resources, CustomRole::Resource)
            .chain(of(&manager.policy_resources, CustomRole::Policy))
            .chain(of(&manager.backend_resources, CustomRole::Resource))
    });
    let mut all: Vec<CustomKind> = all.collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// When an extension service is called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionHooks {
    /// While resources for proxies are made.
    #[serde(default, skip_serializing_if = "is_default")]
    pub xds_translator: Option<XdsHooks>,
}

/// When an extension service is called during translation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct XdsHooks {
    /// Before.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pre: Box<[XdsHook]>,
    /// After a resource of the kind is made.
    #[serde(default, skip_serializing_if = "is_default")]
    pub post: Box<[XdsHook]>,
    /// What the last hook is given.
    #[serde(default, skip_serializing_if = "is_default")]
    pub translation: Option<TranslationHook>,
}

open_enum! {
    /// A moment of the translation.
    pub enum XdsHook {
        VirtualHost = "VirtualHost",
        Route = "Route",
        HttpListener = "HTTPListener",
        Translation = "Translation",
        Cluster = "Cluster",
        Endpoints = "Endpoints",
    }
}

/// What the last hook is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TranslationHook {
    /// Listeners.
    #[serde(default, skip_serializing_if = "is_default")]
    pub listener: Option<HookScope>,
    /// Routes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub route: Option<HookScope>,
    /// Clusters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cluster: Option<HookScope>,
    /// Secrets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub secret: Option<HookScope>,
}

/// How much of a type a hook is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookScope {
    /// All of it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub include_all: Option<bool>,
}

/// The address of a service: exactly one of `fqdn`, `ip`, `unix` and `host`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionService {
    /// Name for TLS.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hostname: Option<Text>,
    /// By host name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fqdn: Option<FqdnEndpoint>,
    /// By address.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ip: Option<IpEndpoint>,
    /// By socket path.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unix: Option<UnixSocket>,
    /// Zone that it is in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub zone: Option<Text>,
    /// Older form of `fqdn` and `ip`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host: Option<Text>,
    /// Port of `host`.
    #[serde(default = "http_port")]
    pub port: u16,
    /// TLS towards it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: Option<Box<ExtensionTls>>,
    /// Retries.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: Option<Box<ExtensionRetry>>,
}

/// TLS towards an extension service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionTls {
    /// Trust anchors.
    pub certificate_ref: SecretRef,
    /// Client certificate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client_certificate_ref: Option<SecretRef>,
}

/// Retries of calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionRetry {
    /// How often; 4 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_attempts: Option<i32>,
    /// First wait; 0.1 s when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub initial_backoff: Option<DurationText>,
    /// Longest wait; 1 s when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_backoff: Option<DurationText>,
    /// Growth of the wait; 2 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backoff_multiplier: Option<Fraction>,
    /// gRPC codes tried again; UNAVAILABLE when empty.
    #[serde(rename = "RetryableStatusCodes", default, skip_serializing_if = "is_default")]
    pub retryable_status_codes: Box<[Text]>,
}

fn http_port() -> u16 {
    80
}
