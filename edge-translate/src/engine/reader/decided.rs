//! What policies decide, as numbers: none of it is an input, and it changes for nobody.

use super::Reader;
use crate::{
    api::{BackendTrafficPolicy, Generic},
    lua,
    name::{
        Context, ContextId, Extension, ExtensionId, FilterSettingsId, InstanceId, PolicyInstance, Security, SecurityId,
        Surroundings, TableRef, Traffic, TrafficId, Variant, VariantId,
    },
};
use edge_ir::{FilterSettings, RouteFilters};
use std::sync::Arc;

/// What something asked while it was found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Nothing.
    Nothing,
    /// Something that may be another tomorrow.
    World,
}

impl<'a> Reader<'a> {
    /// The number of what policies decide. Numbers are no input: they change for nobody.
    pub(crate) fn context_id(&self, context: Context) -> ContextId {
        self.world.decisions().context_id(context)
    }

    /// What a number of a context stands for.
    pub(crate) fn context(&self, id: ContextId) -> TableRef<'a, Context> {
        self.world.decisions().context(id)
    }

    /// The number of an instance that policies ask for.
    pub(crate) fn instance_id(&self, instance: PolicyInstance) -> InstanceId {
        self.world.decisions().instance_id(instance)
    }

    /// The instance behind a number.
    pub(crate) fn instance(&self, id: InstanceId) -> TableRef<'a, Option<PolicyInstance>> {
        self.world.decisions().instance(id)
    }

    /// The number of what policies extend requests by.
    pub(crate) fn extension_id(&self, extension: Extension) -> ExtensionId {
        self.world.decisions().extension_id(extension)
    }

    /// What policies extend requests by.
    pub(crate) fn extension(&self, id: ExtensionId) -> TableRef<'a, Extension> {
        self.world.decisions().extension(id)
    }

    /// The number of what a policy says of security.
    pub(crate) fn security_id(&self, security: Security) -> SecurityId {
        self.world.decisions().security_id(security)
    }

    /// What a policy says of security.
    pub(crate) fn security(&self, id: SecurityId) -> TableRef<'a, Security> {
        self.world.decisions().security(id)
    }

    /// The number of what a policy says of traffic.
    pub(crate) fn traffic_id(&self, traffic: Traffic) -> TrafficId {
        self.world.decisions().traffic_id(traffic)
    }

    /// What a policy says of traffic.
    pub(crate) fn traffic(&self, id: TrafficId) -> TableRef<'a, Traffic> {
        self.world.decisions().traffic(id)
    }

    /// What the filters of policies do together for a route.
    pub(crate) fn filters_of(&self, security: SecurityId, extension: ExtensionId, traffic: TrafficId) -> RouteFilters {
        self.world.decisions().filters_of(security, extension, traffic)
    }

    /// The number of the settings of a filter's instance.
    pub(crate) fn filter_settings_id(&self, settings: FilterSettings) -> FilterSettingsId {
        self.world.decisions().filter_settings_id(settings)
    }

    /// The settings of a filter's instance.
    pub(crate) fn filter_settings(&self, id: FilterSettingsId) -> TableRef<'a, FilterSettings> {
        self.world.decisions().filter_settings(id)
    }

    /// The number of what changes about a cluster.
    pub(crate) fn variant_id(&self, variant: Variant) -> VariantId {
        self.world.decisions().variant_id(variant)
    }

    /// The number of what a policy of traffic changes about clusters.
    pub(crate) fn variant_of(&self, around: &Surroundings, traffic: TrafficId) -> VariantId {
        self.world.decisions().variant_of(around, traffic)
    }

    /// What a number of a variant stands for.
    pub(crate) fn variant(&self, id: VariantId) -> TableRef<'a, Variant> {
        self.world.decisions().variant(id)
    }

    /// A script, read: what a text holds changes for nobody.
    pub(crate) fn script(&self, code: &Arc<str>) -> Arc<lua::Text> {
        self.world.decisions().script(code)
    }

    /// Whether something asks nothing of the world while it is found out: then it is so for ever.
    pub(crate) fn reading<T>(&self, find_out: impl FnOnce() -> T) -> (Reading, T) {
        let before = self.reads.count();
        let found = find_out();
        let reading = match self.reads.count() == before {
            true => Reading::Nothing,
            false => Reading::World,
        };
        (reading, found)
    }

    /// What a policy of security says that is written like one that was read before.
    pub(crate) fn security_alike(&self, hash: u64, is_alike: impl Fn(&Generic) -> bool) -> Option<SecurityId> {
        self.world.decisions().security_alike.find(hash, is_alike)
    }

    /// Remembers what a policy of security says that asked nothing of the world.
    pub(crate) fn keep_security(&self, hash: u64, policy: &Arc<Generic>, says: SecurityId) {
        self.world.decisions().security_alike.keep(hash, policy, says);
    }

    /// What a policy of traffic says that is written like one that was read before.
    pub(crate) fn traffic_alike(
        &self,
        hash: u64,
        is_alike: impl Fn(&BackendTrafficPolicy) -> bool,
    ) -> Option<TrafficId> {
        self.world.decisions().traffic_alike.find(hash, is_alike)
    }

    /// Remembers what a policy of traffic says that asked nothing of the world.
    pub(crate) fn keep_traffic(&self, hash: u64, policy: &Arc<BackendTrafficPolicy>, says: TrafficId) {
        self.world.decisions().traffic_alike.keep(hash, policy, says);
    }
}
