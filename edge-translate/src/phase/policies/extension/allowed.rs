//! What the EdgeProxy of a fleet allows extensions to do.

use crate::{
    api::edge_proxy::{DynamicModule, LuaConfig},
    engine::reader::Reader,
    name::Id,
    phase::gateways::gateway::Gateway,
};
use std::sync::Arc;

/// What the EdgeProxy of a fleet says of extensions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Allowed {
    /// How scripts are checked.
    pub(super) lua: LuaConfig,
    /// Native modules that may be loaded.
    pub(super) modules: Box<[DynamicModule]>,
}

impl Allowed {
    /// That of the fleet of a Gateway; none where the EdgeProxy says nothing of extensions, as nearly all.
    pub(crate) fn of(reader: &Reader<'_>, gateway: Id) -> Option<Arc<Self>> {
        let Gateway::Member(member) = &**reader.gateway(gateway)? else {
            return None;
        };
        let spec = &member.proxy.as_ref()?.spec;
        let older = || spec.lua_validation.clone().map(older_form);
        let allowed = Self {
            lua: spec.lua.as_deref().cloned().or_else(older).unwrap_or_default(),
            modules: spec.dynamic_modules.clone(),
        };
        (allowed != Self::default()).then(|| Arc::new(allowed))
    }
}

fn older_form(validation_type: crate::api::edge_proxy::LuaValidation) -> LuaConfig {
    LuaConfig {
        validation_type,
        ..LuaConfig::default()
    }
}
