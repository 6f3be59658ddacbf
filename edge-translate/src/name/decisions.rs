//! The numbers of what policies decide, and what is found out once for many: of a thousand copies of a policy one is
//! read.

use super::{
    Context, ContextId, Extension, ExtensionId, FilterSettingsId, InstanceId, ModuleId, Placement, PlacementId,
    PolicyInstance, Security, SecurityId, Surroundings, Traffic, TrafficId, Variant, VariantId,
    alike::Alike,
    numbered::{Numbered, NumberedFromNone, TableRef},
    table::Table,
};
use crate::{
    api::{BackendTrafficPolicy, Generic},
    fact::WantedModule,
    lua,
};
use edge_ir::{FilterSettings, RouteFilter, RouteFilters, UpstreamSettings};
use sha2::{Digest, Sha256};
use std::sync::Arc;

#[cfg(test)]
mod tests;

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
    /// Scripts, each text read once.
    scripts: Table<Arc<str>, Arc<lua::Text>>,
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
            scripts,
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
            + scripts.len()
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
            scripts,
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
        scripts.settle();
        modules.0.settle();
    }

    /// A script, read.
    pub(crate) fn script(&self, code: &Arc<str>) -> Arc<lua::Text> {
        self.scripts
            .get_or_make(Arc::clone(code), || Arc::new(lua::Text::read(code)))
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
    pub(crate) fn context(&self, id: ContextId) -> TableRef<'_, Context> {
        self.contexts.value(id.0)
    }

    /// The number of an instance that policies ask for.
    pub(crate) fn instance_id(&self, instance: PolicyInstance) -> InstanceId {
        InstanceId(self.instances.number(Some(instance)))
    }

    /// The instance behind a number.
    pub(crate) fn instance(&self, id: InstanceId) -> TableRef<'_, Option<PolicyInstance>> {
        self.instances.value(id.0)
    }

    /// The number of what policies extend requests by.
    pub(crate) fn extension_id(&self, extension: Extension) -> ExtensionId {
        ExtensionId(self.extensions.number(extension))
    }

    /// What policies extend requests by.
    pub(crate) fn extension(&self, id: ExtensionId) -> TableRef<'_, Extension> {
        self.extensions.value(id.0)
    }

    /// The number of what a policy says of security.
    pub(crate) fn security_id(&self, security: Security) -> SecurityId {
        SecurityId(self.security.number(security))
    }

    /// What a policy says of security.
    pub(crate) fn security(&self, id: SecurityId) -> TableRef<'_, Security> {
        self.security.value(id.0)
    }

    /// The number of what a policy says of traffic.
    pub(crate) fn traffic_id(&self, traffic: Traffic) -> TrafficId {
        TrafficId(self.traffic.number(traffic))
    }

    /// What a policy says of traffic.
    pub(crate) fn traffic(&self, id: TrafficId) -> TableRef<'_, Traffic> {
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
                upstream: UpstreamSettings::with_http1(&traffic.upstream, around.http1),
                stat_name: around.stat_name.clone(),
            })
        })
    }

    /// The variant behind a number.
    pub(crate) fn variant(&self, id: VariantId) -> TableRef<'_, Variant> {
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
    pub(crate) fn placement(&self, id: PlacementId) -> TableRef<'_, Placement> {
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
    pub(crate) fn filter_settings(&self, id: FilterSettingsId) -> TableRef<'_, FilterSettings> {
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
