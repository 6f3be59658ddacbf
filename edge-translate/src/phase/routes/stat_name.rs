//! The name under which the clusters of a rule are counted, where the fleet's EdgeProxy says one (`clusterStatName`).
//!
//! The name is part of what a context changes about a cluster. A context has it with operators; each rule fills in what
//! they stand for, so that its backends are clusters of its own.

use super::rules::{Action, Rule, Share};
use crate::{
    engine::reader::Reader,
    name::{Variant, VariantId},
};

/// The clusters of a rule, which are counted under its name if the fleet says so.
pub(super) fn of_rule(reader: &Reader<'_>, variant: VariantId, number: usize, rule: &Rule) -> VariantId {
    // What nearly every fleet has.
    if variant == VariantId::OWN {
        return variant;
    }
    let asked = reader.variant(variant);
    let (Some(name), Some(route)) = (&asked.stat_name, rule.origins.first()) else {
        return variant;
    };
    let own_name = rule.name.map(|name| reader.text(name));
    let shares = match &rule.action {
        Action::Forward(forwarding) => forwarding.shares.as_slice(),
        Action::Answer(_) => &[],
    };
    let backend = |share: &Share| {
        let id = share.backend.port.target.id;
        format!("{}/{}", reader.text(id.namespace), reader.text(id.name))
    };
    let backends: Vec<String> = shares.iter().map(backend).collect();
    let name = [
        ("%ROUTE_KIND%", &*route.kind),
        ("%ROUTE_NAMESPACE%", &*route.namespace),
        ("%ROUTE_NAME%", &*route.name),
        ("%ROUTE_RULE_NAME%", own_name.as_deref().unwrap_or("-")),
        ("%ROUTE_RULE_NUMBER%", &*number.to_string()),
        ("%BACKEND_REFS%", &*backends.join("|")),
    ]
    .into_iter()
    .fold(name.to_string(), |name, (operator, value)| {
        name.replace(operator, value)
    });
    reader.variant_id(Variant {
        stat_name: Some(name.into()),
        ..Variant::clone(&asked)
    })
}

/// The variant of what is no cluster of a rule of requests.
pub(super) fn without(reader: &Reader<'_>, variant: VariantId) -> VariantId {
    if variant == VariantId::OWN {
        return variant;
    }
    let asked = reader.variant(variant);
    match asked.stat_name {
        None => variant,
        Some(_) => reader.variant_id(Variant {
            stat_name: None,
            ..Variant::clone(&asked)
        }),
    }
}
