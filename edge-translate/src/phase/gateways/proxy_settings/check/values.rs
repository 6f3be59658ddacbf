//! Values of an EdgeProxy that nobody knows, and fields of it that can't stand together. An API server refuses both;
//! files bring them, and each would be taken for something that nobody asked for.

use crate::api::edge_proxy::{
    BootstrapType, DynamicModuleSourceType, EdgeProxyProviderType, EdgeProxySpec, IpFamily, LogLevel, LuaValidation,
    MergeType, ProxyBootstrap, RoutingType,
};

/// Parts of a proxy that log at levels of their own: those of the contract, and two that Envoy knows besides.
const COMPONENTS: [&str; 12] = [
    "default",
    "system",
    "upstream",
    "http",
    "connection",
    "admin",
    "client",
    "filter",
    "main",
    "router",
    "runtime",
    "misc",
];

/// What is unknown, a sentence each.
pub(super) fn unknown(spec: &EdgeProxySpec) -> Vec<String> {
    let mut errors = Vec::new();
    let mut refuse = |field: &str, value: &str, known: &[&str]| {
        errors.push(format!(
            "unsupported {field} {value}, only {} are supported",
            listed(known)
        ));
    };
    if let Some(MergeType::Other(other)) = &spec.merge_type {
        refuse("mergeType", other, MergeType::KNOWN);
    }
    if let Some(IpFamily::Other(other)) = &spec.ip_family {
        refuse("ipFamily", other, IpFamily::KNOWN);
    }
    if let Some(RoutingType::Other(other)) = &spec.routing_type {
        refuse("routingType", other, RoutingType::KNOWN);
    }
    if let Some(EdgeProxyProviderType::Other(other)) = spec.provider.as_ref().map(|provider| &provider.r#type) {
        refuse("provider type", other, EdgeProxyProviderType::KNOWN);
    }
    if let Some(LuaValidation::Other(other)) = &spec.lua_validation {
        refuse("luaValidation", other, LuaValidation::KNOWN);
    }
    if let Some(LuaValidation::Other(other)) = spec.lua.as_ref().map(|lua| &lua.validation_type) {
        refuse("lua validationType", other, LuaValidation::KNOWN);
    }
    if let Some(BootstrapType::Other(other)) = spec.bootstrap.as_ref().map(|bootstrap| &bootstrap.r#type) {
        refuse("bootstrap type", other, BootstrapType::KNOWN);
    }
    for module in &spec.dynamic_modules {
        if let DynamicModuleSourceType::Other(other) = &module.source.r#type {
            let field = format!("source type of dynamicModule {}:", module.name);
            refuse(&field, other, DynamicModuleSourceType::KNOWN);
        }
    }
    for (component, level) in &spec.logging.level {
        if !COMPONENTS.contains(&&**component) {
            refuse("component in logging level", component, &COMPONENTS);
        }
        if let LogLevel::Other(other) = level {
            refuse(&format!("logging level of {component}:"), other, LogLevel::KNOWN);
        }
    }
    errors
}

/// `a, b and c`.
fn listed(words: &[&str]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => words.concat(),
    }
}

/// What can't stand together, or means nothing by itself.
pub(super) fn contradictions(spec: &EdgeProxySpec) -> Vec<String> {
    let mut errors = Vec::new();
    if spec.lua.is_some() && spec.lua_validation.is_some() {
        errors.push("only one of luaValidation or lua may be set".to_owned());
    }
    let fits = |bootstrap: &ProxyBootstrap| match bootstrap.r#type {
        BootstrapType::JsonPatch => !bootstrap.json_patches.is_empty(),
        _ => bootstrap.value.is_some(),
    };
    if spec.bootstrap.as_deref().is_some_and(|bootstrap| !fits(bootstrap)) {
        errors.push("provided bootstrap patch doesn't match the configured patch type".to_owned());
    }
    errors
}
