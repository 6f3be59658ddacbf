//! What this version reads and doesn't honour: the one list.
//!
//! Each entry says what happens instead, and leaves the list when its translation arrives. Loading warns of each place,
//! and the paths stay with the object ([`Metadata::unsupported`](crate::api::Metadata)), so that its status says the
//! same where its kind has one. A field that is refused with a condition of its own (a listener's filters) is honoured
//! in this sense: nobody can take it for working. So are the policies whose
//! status says that they have no effect.
//!
//! A test walks all types: a field that is neither here nor in the test's list of what is honoured fails it.

/// Per type, fields and what happens instead.
const FIELDS: &[(&str, &[(&str, &str)])] = &[
    ("BackendTlsPolicySpec", &[("options", "no option is known")]),
    (
        "GatewayAddress",
        &[("routability", "the address is what the platform gives")],
    ),
    (
        "GatewaySpec",
        &[("defaultScope", "only routes that name the Gateway attach")],
    ),
    ("GrpcRouteSpec", &[("useDefaultGateways", NO_DEFAULTS)]),
    ("HttpRouteSpec", &[("useDefaultGateways", NO_DEFAULTS)]),
    ("ListenerTls", &[("options", "no option is known")]),
    ("StreamRouteSpec", &[("useDefaultGateways", NO_DEFAULTS)]),
    ("TlsRouteSpec", &[("useDefaultGateways", NO_DEFAULTS)]),
];

const NO_DEFAULTS: &str = "the route attaches to the parents that it names";

/// Fields of a type that are not honoured, each with what happens instead.
pub(crate) fn fields_of(owner: &str) -> &'static [(&'static str, &'static str)] {
    // Asked for every struct of every object. Nearly all differ in length already, which a search by order wouldn't
    // see.
    let entry = FIELDS.iter().find(|(name, _)| *name == owner);
    entry.map_or(&[], |(_, fields)| fields)
}

/// The words for a field.
pub(crate) fn field(path: &str, instead: &str) -> String {
    format!("{path} is not supported by this version: {instead}")
}

#[cfg(test)]
mod tests;
