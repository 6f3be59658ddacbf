//! BackendTrafficPolicy: how requests are treated on their way to backends.

use crate::api::Text;
use crate::api::admission::AdmissionControl;
use crate::api::backend_telemetry::BackendTelemetry;
use crate::api::edge_proxy::RoutingType;
use crate::api::edge_proxy::telemetry::Compression;
use crate::api::fault::{BandwidthLimit, FaultInjection};
use crate::api::list::List;
use crate::api::meta::{Metadata, StatusAsRead};
use crate::api::object::Generic;
use crate::api::policy::{MergeType, PolicyTargets, TargetRef, TargetSelector};
use crate::api::rate_limit::RateLimit;
use crate::api::response::ResponseOverride;
use crate::api::shape::cluster_settings;
use crate::api::text::{Quantity, is_default};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// How requests are treated on their way to backends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTrafficPolicy {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(default)]
    pub spec: BackendTrafficPolicySpec,
    /// What is written where that can't be read; the spec is empty then.
    #[serde(skip)]
    pub unread: Option<Box<Unread>>,
    /// Status as read.
    #[serde(default, skip_serializing_if = "StatusAsRead::is_absent")]
    pub status: StatusAsRead,
}

/// A spec that can't be read. It is kept as it was written: a policy may be what keeps requests from a backend, so what
/// it is for must not be open for a slip in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Unread {
    /// As written.
    pub spec: Value,
    /// What can't be read of it, and why.
    pub why: Arc<str>,
}

impl BackendTrafficPolicy {
    /// One whose spec can't be read.
    pub(crate) fn unread(written: Generic, why: Arc<str>) -> Self {
        Self {
            metadata: written.metadata,
            spec: BackendTrafficPolicySpec::default(),
            unread: Some(Box::new(Unread {
                spec: written.spec,
                why,
            })),
            status: written.status,
        }
    }
}

cluster_settings! {
    /// What a BackendTrafficPolicy asks for.
    pub struct BackendTrafficPolicySpec {
        /// Older form of a single target.
        #[serde(default, skip_serializing_if = "is_default")]
        pub target_ref: Option<Box<TargetRef>>,
        /// What it is for, by name.
        #[serde(default, skip_serializing_if = "is_default")]
        pub target_refs: Box<[TargetRef]>,
        /// What it is for, by labels.
        #[serde(default, skip_serializing_if = "is_default")]
        pub target_selectors: Box<[TargetSelector]>,
        /// Merges into the policy of the parent; the most specific policy stands alone when absent.
        #[serde(default, skip_serializing_if = "is_default")]
        pub merge_type: Option<MergeType>,
        /// How many requests are let through.
        #[serde(default, skip_serializing_if = "is_default")]
        pub rate_limit: Option<Box<RateLimit>>,
        /// How many bytes are let through.
        #[serde(default, skip_serializing_if = "is_default")]
        pub bandwidth_limit: Option<Box<BandwidthLimit>>,
        /// Failures on purpose.
        #[serde(default, skip_serializing_if = "is_default")]
        pub fault_injection: Option<Box<FaultInjection>>,
        /// Refuses requests while too few succeed.
        #[serde(default, skip_serializing_if = "is_default")]
        pub admission_control: Option<Box<AdmissionControl>>,
        /// Speaks to backends what the client speaks.
        #[serde(default, skip_serializing_if = "is_default")]
        pub use_client_protocol: Option<bool>,
        /// Older form of `compressor`.
        #[serde(default, skip_serializing_if = "is_default")]
        pub compression: Option<Box<[Compression]>>,
        /// How responses are compressed, the best liked first.
        #[serde(default, skip_serializing_if = "is_default")]
        pub compressor: Option<Box<[Compression]>>,
        /// Other responses in place of some.
        #[serde(default, skip_serializing_if = "is_default")]
        pub response_override: List<ResponseOverride>,
        /// Upgrades that clients may ask for; websocket when absent, none with `requestBuffer`.
        #[serde(default, skip_serializing_if = "is_default")]
        pub http_upgrade: List<ProtocolUpgrade>,
        /// Reads requests whole before they go on.
        #[serde(default, skip_serializing_if = "is_default")]
        pub request_buffer: Option<RequestBuffer>,
        /// Traces and metrics.
        #[serde(default, skip_serializing_if = "is_default")]
        pub telemetry: Option<Box<BackendTelemetry>>,
        /// Where requests go: to pods, or to the address of a Service. As the EdgeProxy says when absent.
        #[serde(default, skip_serializing_if = "is_default")]
        pub routing_type: Option<RoutingType>,
    }
}

impl BackendTrafficPolicySpec {
    /// What it is for.
    pub fn targets(&self) -> PolicyTargets<'_> {
        PolicyTargets {
            single: self.target_ref.as_deref(),
            named: &self.target_refs,
            chosen: &self.target_selectors,
        }
    }
}

/// An upgrade that clients may ask for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProtocolUpgrade {
    /// Its name: `websocket`, `CONNECT` or another.
    pub r#type: Text,
    /// What becomes of CONNECT.
    #[serde(default, skip_serializing_if = "is_default")]
    pub connect: Option<ConnectUpgrade>,
}

/// What becomes of CONNECT.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectUpgrade {
    /// Sends what is in the tunnel on as TCP.
    #[serde(default, skip_serializing_if = "is_default")]
    pub terminate: bool,
}

/// Requests are read whole before they go on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestBuffer {
    /// Largest body; larger ones are answered with 413.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<Quantity>,
}
