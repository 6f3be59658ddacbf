//! The name under which the clusters of a rule are counted, where the fleet's EdgeProxy says one (`clusterStatName`).
//!
//! The name is part of what a context changes about a cluster. A context has it with operators; each rule fills in what
//! they stand for, so that its backends are clusters of its own.

use super::rules::{Action, Rule, Share, Stream};
use crate::{
    engine::reader::Reader,
    name::{BackendId, Sym, Variant, VariantId},
};
use edge_ir::Origins;

/// The clusters of a rule, which are counted under its name if the fleet says so.
pub(super) fn of_rule(reader: &Reader<'_>, variant: VariantId, number: usize, rule: &Rule) -> VariantId {
    // What nearly every fleet has.
    if variant == VariantId::OWN {
        return variant;
    }
    let shares = match &rule.action {
        Action::Forward(forwarding) => forwarding.shares.as_slice(),
        Action::Answer(_) => &[],
    };
    let backends = shares.iter().map(|share: &Share| share.backend);
    filled_in(reader, variant, rule.name, number, &rule.origins, backends)
}

/// The same for the one rule of a stream.
pub(super) fn of_stream(reader: &Reader<'_>, variant: VariantId, stream: &Stream) -> VariantId {
    if variant == VariantId::OWN {
        return variant;
    }
    let backends = stream.shares.iter().map(|share| share.backend);
    filled_in(reader, variant, stream.name, 0, &stream.origins, backends)
}

/// The variant with what operators of its name stand for.
fn filled_in(
    reader: &Reader<'_>,
    variant: VariantId,
    rule: Option<Sym>,
    number: usize,
    origins: &Origins,
    backends: impl Iterator<Item = BackendId>,
) -> VariantId {
    let asked = reader.variant(variant);
    let (Some(name), Some(route)) = (&asked.stat_name, origins.first()) else {
        return variant;
    };
    let own_name = rule.map(|name| reader.text(name));
    let backends: Vec<String> = backends
        .map(|backend| {
            let id = backend.port.target.id;
            format!("{}/{}", reader.text(id.namespace), reader.text(id.name))
        })
        .collect();
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

/// The variant of what is no cluster of a rule.
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
