//! What policies decide, as values with numbers: equal decisions have equal numbers, and are compared at a glance.
//!
//! A [`Context`] is what all policies together decide for a route at a parent listener, a [`Decision`] for each rule; a
//! [`Variant`] is the part of it that enters a cluster, [`Traffic`] what a policy makes of requests. A new kind of policy
//! is a field of one or several. Number 0 is "nothing is decided", as for nearly every route: it adds to no name.

use super::{
    BackendId, FilterKey, Id, OutsideService, Placement, Sym,
    alike::Alike,
    numbered::{Held, Numbered, NumberedFromNone},
    placement::{hashed, is_default},
    table::Table,
};
use crate::{
    api::{BackendTrafficPolicy, Generic},
    fact::WantedModule,
};
use edge_ir::{
    AccessRules, FilterInstance, FilterSettings, Http1Upstream, LoadBalancing, PlaceFact, RouteFilter, RouteFilters,
    UpstreamSettings, ZonePreference,
};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::sync::Arc;

#[cfg(test)]
mod tests;
mod traffic;

pub(crate) use traffic::{Patience, Traffic};

/// The number of a [`Context`]; by default no policy decides anything. Its order is that of first appearance: never let
/// it decide anything that can be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ContextId(u32);

/// The number of a [`Variant`], with an order as little to be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct VariantId(u32);

impl VariantId {
    /// The backend as it is by itself.
    pub(crate) const OWN: Self = Self(0);
}

/// The number of a [`Traffic`], with an order as little to be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TrafficId(u32);

/// The number of a [`Security`], with an order as little to be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SecurityId(u32);

/// The number of an [`Extension`], with an order as little to be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ExtensionId(u32);

/// The number of a [`PolicyInstance`], with an order as little to be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct InstanceId(u32);

/// The number of a Wasm module that is asked for, with an order as little to be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ModuleId(u32);

/// The number of the settings of a filter's instance, with an order as little to be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FilterSettingsId(u32);

/// The number of a [`Placement`], with an order as little to be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PlacementId(u32);

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
    pub(crate) places: Box<[PlaceFact]>,
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
    /// Where requests for a Service go, if not where the fleet's do.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) routing: Option<Routing>,
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

/// Where requests for a Service go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Routing {
    /// To its endpoints.
    Endpoints,
    /// To its own address.
    Service,
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

/// What tells an instance of a filter from others of its kind that are set to something else.
fn settings_name(settings: &FilterSettings) -> String {
    match settings {
        FilterSettings::Compressor(one) => {
            let first = if one.preferred { "/first" } else { "" };
            format!("{}/{}{first}", one.encoding.word(), one.min_length)
        }
        // Plain data, which always can be written.
        other => format!("{:.8x}", Sha256::digest(serde_json::to_vec(other).unwrap_or_default())),
    }
}

/// The numbers of all contexts and variants that there were. Like names they only grow, by each new decision, until the
/// engine begins anew.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    contexts: Numbered<Context>,
    extensions: Numbered<Extension>,
    instances: Numbered<Option<PolicyInstance>>,
    security: Numbered<Security>,
    traffic: Numbered<Traffic>,
    variants: Numbered<Variant>,
    /// What tells the clusters of a variant from those of the backend itself.
    suffixes: Table<VariantId, Arc<str>>,
    /// What a variant says of endpoints.
    placed: Table<VariantId, PlacementId>,
    /// Variants of what policies of traffic say, by what is around them.
    of_traffic: Table<(Surroundings, TrafficId), VariantId>,
    placements: Numbered<Placement>,
    filters: Numbered<FilterSettings>,
    /// What the filters of policies do together, by who brings them.
    together: Table<(SecurityId, ExtensionId, TrafficId), RouteFilters>,
    /// What policies of traffic say that depends on nothing else.
    pub(crate) traffic_alike: Alike<BackendTrafficPolicy, TrafficId>,
    /// The same of security.
    pub(crate) security_alike: Alike<Generic, SecurityId>,
    modules: NumberedFromNone<WantedModule>,
}

impl Decisions {
    /// How many numbers there are.
    pub(crate) fn len(&self) -> usize {
        let Self {
            contexts,
            extensions,
            instances,
            security,
            traffic,
            variants,
            suffixes: _,
            placed: _,
            of_traffic: _,
            placements,
            filters,
            together,
            traffic_alike,
            security_alike,
            modules,
        } = self;
        contexts.len()
            + extensions.len()
            + instances.len()
            + security.len()
            + traffic.len()
            + variants.len()
            + placements.len()
            + filters.len()
            + together.len()
            + traffic_alike.len()
            + security_alike.len()
            + modules.0.len()
    }

    /// Makes what is new as cheap to read as the rest.
    pub(crate) fn settle(&mut self) {
        let Self {
            contexts,
            extensions,
            instances,
            security,
            traffic,
            variants,
            suffixes,
            placed,
            of_traffic,
            placements,
            filters,
            together,
            traffic_alike: _,
            security_alike: _,
            modules,
        } = self;
        contexts.settle();
        extensions.settle();
        instances.settle();
        security.settle();
        traffic.settle();
        variants.settle();
        suffixes.settle();
        placed.settle();
        of_traffic.settle();
        placements.settle();
        filters.settle();
        together.settle();
        modules.0.settle();
    }

    /// The number of a Wasm module.
    pub(crate) fn module_id(&self, wanted: &Arc<WantedModule>) -> ModuleId {
        ModuleId(self.modules.0.number_of(wanted, || Arc::clone(wanted)))
    }

    /// The Wasm module behind a number.
    pub(crate) fn wanted_module(&self, id: ModuleId) -> Arc<WantedModule> {
        self.modules.0.value(id.0).share()
    }

    /// The number of a context.
    pub(crate) fn context_id(&self, context: Context) -> ContextId {
        ContextId(self.contexts.number(context))
    }

    /// The context behind a number.
    pub(crate) fn context(&self, id: ContextId) -> Held<'_, Context> {
        self.contexts.value(id.0)
    }

    /// The number of an instance that policies ask for.
    pub(crate) fn instance_id(&self, instance: PolicyInstance) -> InstanceId {
        InstanceId(self.instances.number(Some(instance)))
    }

    /// The instance behind a number.
    pub(crate) fn instance(&self, id: InstanceId) -> Held<'_, Option<PolicyInstance>> {
        self.instances.value(id.0)
    }

    /// The number of what policies extend requests by.
    pub(crate) fn extension_id(&self, extension: Extension) -> ExtensionId {
        ExtensionId(self.extensions.number(extension))
    }

    /// What policies extend requests by.
    pub(crate) fn extension(&self, id: ExtensionId) -> Held<'_, Extension> {
        self.extensions.value(id.0)
    }

    /// The number of what a policy says of security.
    pub(crate) fn security_id(&self, security: Security) -> SecurityId {
        SecurityId(self.security.number(security))
    }

    /// What a policy says of security.
    pub(crate) fn security(&self, id: SecurityId) -> Held<'_, Security> {
        self.security.value(id.0)
    }

    /// The number of what a policy says of traffic.
    pub(crate) fn traffic_id(&self, traffic: Traffic) -> TrafficId {
        TrafficId(self.traffic.number(traffic))
    }

    /// What a policy says of traffic.
    pub(crate) fn traffic(&self, id: TrafficId) -> Held<'_, Traffic> {
        self.traffic.value(id.0)
    }

    /// What the filters of policies do together for a route, sorted by id: ten thousand routes under the same policies
    /// share one list.
    pub(crate) fn filters_of(&self, security: SecurityId, extension: ExtensionId, traffic: TrafficId) -> RouteFilters {
        self.together.get_or_make((security, extension, traffic), || {
            self.put_together(security, extension, traffic)
        })
    }

    fn put_together(&self, security: SecurityId, extension: ExtensionId, traffic: TrafficId) -> RouteFilters {
        let (security, extension, traffic) = (
            self.security(security),
            self.extension(extension),
            self.traffic(traffic),
        );
        let lists = [&security.filters, &extension.filters, &traffic.filters].map(|filters| &filters.effects);
        let mut some = lists.into_iter().filter(|list| !list.is_empty());
        match (some.next(), some.next()) {
            (None, _) => RouteFilters::default(),
            (Some(only), None) => RouteFilters::clone(only),
            _ => {
                let mut all: Vec<&RouteFilter> = lists.into_iter().flat_map(|list| list.iter()).collect();
                all.sort_by(|a, b| a.id.cmp(&b.id));
                all.into_iter().cloned().collect()
            }
        }
    }

    /// The number of a variant.
    pub(crate) fn variant_id(&self, variant: Variant) -> VariantId {
        VariantId(self.variants.number(variant))
    }

    /// The number of what a policy of traffic changes about clusters.
    pub(crate) fn variant_of(&self, around: &Surroundings, traffic: TrafficId) -> VariantId {
        self.of_traffic.get_or_make((around.clone(), traffic), || {
            let traffic = self.traffic(traffic);
            self.variant_id(Variant {
                encryption: around.encryption,
                load_balancing: traffic.load_balancing.clone(),
                placement: Arc::clone(&traffic.placement),
                zone_preference: traffic.zone_preference,
                routing: traffic.routing,
                upstream: UpstreamSettings::with_http1(&traffic.upstream, around.http1),
                stat_name: around.stat_name.clone(),
            })
        })
    }

    /// The variant behind a number.
    pub(crate) fn variant(&self, id: VariantId) -> Held<'_, Variant> {
        self.variants.value(id.0)
    }

    /// The number of what a variant says of endpoints.
    pub(crate) fn placement_of(&self, variant: VariantId) -> PlacementId {
        if variant == VariantId::OWN {
            return PlacementId::OWN;
        }
        self.placed.get_or_make(variant, || {
            let placement = Placement::clone(&self.variant(variant).placement);
            PlacementId(self.placements.number(placement))
        })
    }

    /// What is said of endpoints.
    pub(crate) fn placement(&self, id: PlacementId) -> Held<'_, Placement> {
        self.placements.value(id.0)
    }

    /// What is added to the name of a list of endpoints.
    pub(crate) fn placement_suffix(&self, id: PlacementId) -> String {
        match id {
            PlacementId::OWN => String::new(),
            id => self.placement(id).suffix(),
        }
    }

    /// The number of the settings of a filter's instance.
    pub(crate) fn filter_settings_id(&self, settings: FilterSettings) -> FilterSettingsId {
        FilterSettingsId(self.filters.number(settings))
    }

    /// The settings of a filter's instance.
    pub(crate) fn filter_settings(&self, id: FilterSettingsId) -> Held<'_, FilterSettings> {
        self.filters.value(id.0)
    }

    /// What tells an instance of a filter by its settings.
    pub(crate) fn filter_settings_name(&self, id: FilterSettingsId) -> String {
        settings_name(&self.filter_settings(id))
    }

    /// What a variant adds to the name of a cluster; none if nothing.
    pub(crate) fn suffix(&self, id: VariantId) -> Option<Arc<str>> {
        (id != VariantId::OWN).then(|| self.suffixes.get_or_make(id, || self.variant(id).suffix().into()))
    }
}
