//! What policies decide, as values with numbers: equal decisions have equal numbers, and are compared at a glance.
//!
//! A [`Context`] is what all policies together decide for a route at a parent listener, a [`Decision`] for each rule; a
//! [`Variant`] is the part of it that enters a cluster, [`Traffic`] what a policy makes of requests. A new kind of
//! policy is a field of one or several. Number 0 is "nothing is decided", as for nearly every route: it adds to no
//! name.

use super::{
    BackendId, FilterKey, Id, OutsideService, Placement, Sym,
    placement::{hashed, is_default},
};
use edge_ir::{
    AccessRules, FilterInstance, GeoFact, Http1Upstream, LoadBalancing, RouteFilters, UpstreamSettings, ZonePreference,
};
use serde::Serialize;
use std::sync::Arc;

mod traffic;

pub(crate) use traffic::{Patience, Traffic};

/// The number of a [`Context`]; by default no policy decides anything. Its order is that of first appearance: never let
/// it decide anything that can be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ContextId(pub(super) u32);

/// The number of a [`Variant`], with an order as little to be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct VariantId(pub(super) u32);

impl VariantId {
    /// The backend as it is by itself.
    pub(crate) const OWN: Self = Self(0);
}

/// The number of a [`Traffic`], with an order as little to be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TrafficId(pub(super) u32);

/// The number of a [`Security`], with an order as little to be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SecurityId(pub(super) u32);

/// The number of an [`Extension`], with an order as little to be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ExtensionId(pub(super) u32);

/// The number of a [`PolicyInstance`], with an order as little to be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct InstanceId(pub(super) u32);

/// The number of a Wasm module that is asked for, with an order as little to be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ModuleId(pub(super) u32);

/// The number of the settings of a filter's instance, with an order as little to be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FilterSettingsId(pub(super) u32);

/// The number of a [`Placement`], with an order as little to be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PlacementId(pub(super) u32);

impl PlacementId {
    /// Addresses alone.
    pub(crate) const OWN: Self = Self(0);
}

/// What policies decide for a route at a parent listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Context {
    /// For its rules.
    pub(crate) decision: Decision,
    /// For rules that policies name, instead: by name of the rule, sorted.
    pub(crate) rules: Box<[(Sym, Decision)]>,
}

impl Context {
    /// What is decided for a rule, by its name.
    pub(crate) fn of_rule(&self, name: Option<Sym>) -> Decision {
        let own = name.and_then(|name| self.rules.iter().find(|(rule, _)| *rule == name));
        own.map_or(self.decision, |(_, decision)| *decision)
    }
}

/// What policies decide for a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Decision {
    /// What changes about the clusters of its backends.
    pub(crate) variant: VariantId,
    /// What its requests are treated to.
    pub(crate) treatment: Treatment,
    /// Who may send them.
    pub(crate) protection: Protection,
    /// What else sees them.
    pub(crate) extending: Extending,
}

/// Who may send requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Protection {
    /// Whom a policy lets.
    Policy(SecurityId),
    /// Nobody: a policy that covers them is invalid.
    Refused,
}

impl Default for Protection {
    fn default() -> Self {
        Self::Policy(SecurityId::default())
    }
}

/// What else sees requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Extending {
    /// What a policy says.
    Policy(ExtensionId),
    /// What must see them can't run: they are refused.
    Refused,
}

impl Default for Extending {
    fn default() -> Self {
        Self::Policy(ExtensionId::default())
    }
}

/// What an EdgeExtensionPolicy, or two of them merged, say where they are used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Extension {
    /// Filters for requests.
    pub(crate) filters: PolicyFilters,
    /// Backends that these ask.
    pub(crate) backends: Box<[BackendId]>,
    /// What becomes of connections whose requests nobody reads.
    pub(crate) streams: Streams,
}

/// What a SecurityPolicy, or two of them merged, say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Security {
    /// Filters for requests.
    pub(crate) filters: PolicyFilters,
    /// What databases must tell of where clients are, sorted. Where they don't, nobody is let through.
    pub(crate) places: Box<[GeoFact]>,
    /// Backends that these ask. Where one can't be asked as its own settings want, nobody is let through.
    pub(crate) backends: Box<[BackendId]>,
    /// What becomes of connections whose requests nobody reads.
    pub(crate) streams: Streams,
}

/// What a policy says of connections whose requests nobody reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Streams {
    /// Nothing: they pass.
    #[default]
    Open,
    /// Those pass that rules over their addresses let.
    Rules(Arc<AccessRules>),
    /// It asks for what nobody can check there, for this reason: they are closed.
    Closed(Arc<str>),
}

/// An instance of a filter that policies ask for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PolicyInstance {
    /// The instance.
    pub(crate) instance: FilterInstance,
    /// What it asks that is no backend of ours.
    pub(crate) outside: Vec<OutsideService>,
    /// What it names of Secrets. They are read where chains are made: an edit of one makes no other instance.
    pub(crate) secrets: Vec<SecretKey>,
}

/// A text of a Secret, that a filter names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SecretKey {
    /// The Secret.
    pub(crate) id: Id,
    /// The key that the text stands under.
    pub(crate) key: &'static str,
    /// How it is written there.
    pub(crate) form: SecretForm,
}

/// How a text stands in a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SecretForm {
    /// Every byte of it counts.
    Bytes,
    /// As a line, which a line break may end.
    Line,
    /// As bytes, of which a key is made for this alone (`policies/derived`).
    Own([u8; 16]),
}

/// What requests are treated to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Treatment {
    /// What a policy says.
    Traffic(TrafficId),
    /// A policy that covers them is invalid, and nobody knows what it would say: they are refused.
    Refused,
}

impl Default for Treatment {
    fn default() -> Self {
        Self::Traffic(TrafficId::default())
    }
}

/// The filters that a policy of any kind puts on routes. A rule's own filter of a kind stands in place of the policy's
/// (`routes/filters`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PolicyFilters {
    /// What they do for a route, sorted by id: all routes share the list.
    pub(crate) effects: RouteFilters,
    /// Instances on the chains of its listeners that these are for.
    pub(crate) instances: Arc<[FilterKey]>,
}

/// How a cluster differs from what its backend says of itself. What a policy says of the backend (a BackendTLSPolicy)
/// is the backend's own and not here: it holds for everybody, and an edit to it must not rename the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Variant {
    /// Who encrypts what goes to the backend.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) encryption: Encryption,
    /// How endpoints are chosen.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) load_balancing: LoadBalancing,
    /// What is said of its endpoints besides their addresses.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) placement: Arc<Placement>,
    /// How far those in the zone of the proxy come first; as the backend says itself where nothing is asked for.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) zone_preference: Option<ZonePreference>,
    /// What policies ask of the connections.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) upstream: Arc<UpstreamSettings>,
    /// The name under which it is counted; in a context with operators for parts of a rule, which binding fills in.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) stat_name: Option<Arc<str>>,
}

/// What the place of a route brings to the clusters of its rules, whatever policies of traffic say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Surroundings {
    /// Who encrypts what goes to backends.
    pub(crate) encryption: Encryption,
    /// What passes between the listener's clients and backends in HTTP/1.
    pub(crate) http1: Http1Upstream,
    /// The name under which clusters are counted.
    pub(crate) stat_name: Option<Arc<str>>,
}

/// What clients see of the loads that backends report in headers of responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum LoadReports {
    /// All: nobody asks for them, or they may go on.
    #[default]
    Passed,
    /// Nothing: they are for the proxy.
    Removed,
}

/// Who encrypts what goes to a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Encryption {
    /// The proxy, if the backend asks for it.
    #[default]
    Proxy,
    /// The client: the bytes are TLS already and pass as they are, whatever the backend asks for.
    Client,
    /// Nobody: what the fleet's EdgeProxy says of TLS can't be honoured, so that nothing goes where TLS is wanted.
    Nobody,
}

impl Variant {
    /// What tells its clusters from those of the backend itself: `~` and 8 hexadecimal digits. They depend on what is
    /// set and on nothing else, so that a field which this version doesn't have yet changes no name when it comes.
    pub(super) fn suffix(&self) -> String {
        hashed(self)
    }
}
