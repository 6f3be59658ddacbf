//! What a SecurityPolicy says: read once for each policy and interned, so that ten thousand routes under a Gateway's
//! policy share one number.
//!
//! Whatever can't be read, isn't known or can't be honoured makes the policy invalid as a whole, with a sentence for
//! each field; what it covers is closed then. The object is kept as it was written (`world/policies` finds its targets
//! in that), so that no slip makes a guard disappear.

use super::{
    filter_list::FilterList,
    merge,
    traffic::Problems,
    written::{homed, is_free, merged, own_fields, owner},
};
use crate::{
    api::{Generic, Kind, MergeType, Object, security::SecuritySettings},
    engine::reader::{Reader, Reading},
    load::typed::typed_fields,
    name::{BackendId, BackendPort, Id, Security, SecurityId, Streams},
    phase::{
        backends::asked,
        gateways::filter_order::{self, ReadTooEarly},
        header::{WHOSE_FRAMING, is_framing},
        precedence::Seniority,
        routes::is_token,
    },
    status::ended,
};
use edge_ir::{
    AccessCondition, AccessRules, FilterEffect, FilterKind, GeoCondition, GeoFact, PortProtocol, RouteFilter,
};
use rustc_hash::FxHasher;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    hash::{Hash, Hasher},
    sync::Arc,
};

mod authorization;
mod browsers;
mod clear_text;
mod credentials;
mod ext_auth;
mod fetching;
mod geoip;
mod key_set;
mod lent;
pub(crate) mod oidc;
pub(crate) mod signing;
mod tokens;

pub(crate) use clear_text::asked_in_clear;

const KIND: Kind = Kind::SecurityPolicy;

/// What a policy says, or why nobody knows that.
pub(crate) type Settled = Result<SecurityId, Unsettled>;

/// Why nobody knows what a policy says. What it covers is closed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Unsettled {
    /// It is invalid.
    Invalid(Arc<str>),
    /// It needs what is still being fetched.
    Waiting(Arc<str>),
}

/// A policy, read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SecurityPolicy {
    /// Age and name, which decide between policies for the same.
    pub(crate) seniority: Seniority,
    /// How it merges into that of a parent; it stands alone where this is absent.
    pub(crate) merge: Option<MergeType>,
    /// What it says by itself.
    pub(crate) settled: Settled,
    /// Backends that it asks, sorted: what a BackendTLSPolicy may be for.
    pub(crate) asked: Box<[BackendPort]>,
}

/// Reads a policy; none when it doesn't exist.
pub(crate) fn policy(reader: &Reader<'_>, id: Id) -> Option<SecurityPolicy> {
    let object = object(reader, id)?;
    let (settled, mut asked) = alone(reader, object);
    asked.sort_unstable();
    asked.dedup();
    Some(SecurityPolicy {
        seniority: Seniority::of(&object.metadata),
        merge: object.spec["mergeType"].as_str().map(MergeType::from),
        settled,
        asked: asked.into(),
    })
}

/// What a policy says by itself. One that refers to nothing says the same wherever it stands, so that of a thousand
/// copies one is read.
fn alone(reader: &Reader<'_>, object: &Arc<Generic>) -> (Settled, Vec<BackendPort>) {
    let hash = hash_of(own_fields(object));
    let is_alike = |other: &Generic| own_fields(object).eq(own_fields(other)) && has_same_merge(object, other);
    if let Some(known) = reader.security_alike(hash, is_alike) {
        return (Ok(known), Vec::new());
    }
    let (owner, merge_type) = (owner(KIND, object), &object.spec["mergeType"]);
    if !is_free(object) {
        return settle(reader, &owner, merge_type, &homed(object));
    }
    let (read, (settled, asked)) = reader.reading(|| settle(reader, &owner, merge_type, own_fields(object)));
    if let (Reading::Nothing, Ok(security)) = (read, &settled) {
        reader.keep_security(hash, object, *security);
    }
    (settled, asked)
}

/// A merge of a kind that nobody knows makes a policy invalid.
fn has_same_merge(one: &Generic, other: &Generic) -> bool {
    one.spec["mergeType"] == other.spec["mergeType"]
}

fn hash_of<'a>(fields: impl Iterator<Item = (&'a String, &'a Value)>) -> u64 {
    let mut hasher = FxHasher::default();
    fields.for_each(|field| field.hash(&mut hasher));
    hasher.finish()
}

/// What a policy says under that of a parent, if it merges with one.
pub(crate) fn under(reader: &Reader<'_>, policy: Id, parent: Option<Id>) -> Option<Settled> {
    let own = reader.security_policy(policy)?;
    let Some((how, parent)) = merge::over(&own.merge, parent) else {
        return Some(own.settled.clone());
    };
    let (above, below) = (object(reader, policy)?, object(reader, parent)?);
    let (both, owner) = merged(KIND, above, below, how);
    let mut problems = Problems::default();
    lent::check(reader, &above.metadata.namespace, &homed(below), &both, &mut problems);
    if !problems.is_empty() {
        return Some(Err(Unsettled::Invalid(problems.joined())));
    }
    Some(settle(reader, &owner, &Value::Null, &both).0)
}

fn object<'a>(reader: &Reader<'a>, id: Id) -> Option<&'a Arc<Generic>> {
    match reader.object(KIND, id)? {
        Object::SecurityPolicy(policy) => Some(policy),
        _ => None,
    }
}

/// What fields say, and the backends that are asked then.
fn settle<'a>(
    reader: &Reader<'_>,
    owner: &Arc<str>,
    merge_type: &Value,
    fields: impl IntoIterator<Item = (&'a String, &'a Value)>,
) -> (Settled, Vec<BackendPort>) {
    let mut problems = Problems::default();
    if let Some(fault) = merge::fault_of(merge_type) {
        problems.add("MergeType", fault);
    }
    let mut guards = Guards {
        filters: FilterList::new(reader),
        backends: Vec::new(),
        waits: Vec::new(),
        places: Box::default(),
    };
    let read = typed_fields::<SecuritySettings>(fields);
    let streams = match read {
        Ok(settings) => guard(reader, owner, &settings, &mut guards, &mut problems),
        Err(error) => {
            problems.add("Spec", error.under("spec"));
            Streams::Open
        }
    };
    if !problems.is_empty() {
        return (Err(Unsettled::Invalid(problems.joined())), Vec::new());
    }
    let backends = guards.backends.iter();
    let asked = backends
        .flat_map(|backend| reader.backends_behind(backend.port))
        .collect();
    if !guards.waits.is_empty() {
        return (Err(Unsettled::Waiting(guards.waits.join("\n").into())), asked);
    }
    let security = Security {
        backends: guards.backends.into(),
        filters: guards.filters.finish(),
        places: guards.places,
        streams,
    };
    (Ok(reader.security_id(security)), asked)
}

/// What stands before the backends of what a policy covers.
struct Guards<'a, 'r> {
    filters: FilterList<'a, 'r>,
    /// Services that are asked.
    backends: Vec<BackendId>,
    /// What is still being fetched, a sentence each.
    waits: Vec<String>,
    /// What databases must tell of where clients are.
    places: Box<[GeoFact]>,
}

/// Puts up all guards; says what becomes of connections.
fn guard(
    reader: &Reader<'_>,
    owner: &Arc<str>,
    settings: &SecuritySettings,
    guards: &mut Guards<'_, '_>,
    problems: &mut Problems,
) -> Streams {
    if let Some(cors) = settings.cors.as_deref() {
        let cors = browsers::cors(cors, problems);
        guards
            .filters
            .shared(FilterKind::Cors, FilterEffect::Cors(Arc::new(cors)));
    }
    if let Some(csrf) = settings.csrf.as_deref() {
        let check = browsers::site_check(csrf, problems);
        guards
            .filters
            .shared(FilterKind::Csrf, FilterEffect::SiteCheck(Arc::new(check)));
    }
    if let Some(auth) = settings.ext_auth.as_deref() {
        ext_auth::external(reader, owner, auth, guards, problems);
    }
    if let Some(auth) = settings.api_key_auth.as_deref() {
        let keys = credentials::api_keys(reader, auth, problems);
        guards
            .filters
            .shared(FilterKind::ApiKeyAuth, FilterEffect::ApiKeyAuth(Arc::new(keys)));
    }
    if let Some(auth) = settings.basic_auth.as_deref() {
        credentials::basic(reader, auth, guards, problems);
    }
    if let Some(oidc) = settings.oidc.as_deref() {
        oidc::login(reader, owner, oidc, settings.jwt.as_deref(), guards, problems);
    }
    if let Some(jwt) = settings.jwt.as_deref() {
        tokens::tokens(reader, jwt, guards, problems);
    }
    let rules = settings.authorization.as_deref().map(|authorization| {
        let rules = Arc::new(authorization::rules(authorization, settings.jwt.as_deref(), problems));
        guards
            .filters
            .shared(FilterKind::Rbac, FilterEffect::Access(Arc::clone(&rules)));
        guards.places = asked_of_places(&rules);
        if !guards.places.is_empty() {
            guards.filters.silent(FilterKind::Geoip);
        }
        rules
    });
    streams(settings, rules)
}

/// Why rules of authorization would look too early where filters are ordered otherwise than usual; none where they
/// don't. What denies by a fact that isn't there yet would let everybody in.
pub(super) fn fault_of_order(security: &Security, early: ReadTooEarly) -> Option<Arc<str>> {
    let reads_tokens = || {
        let mut effects = security.filters.effects.iter();
        effects.any(|filter| matches!(&filter.effect, FilterEffect::Access(rules) if asks_for_tokens(rules)))
    };
    let (what, filter) = if early.tokens && reads_tokens() {
        ("JWT", FilterKind::JwtAuthn)
    } else if early.places && !security.places.is_empty() {
        ("clientIPGeoLocations", FilterKind::Geoip)
    } else {
        return None;
    };
    let (prefix, own, other) = (filter_order::PREFIX, FilterKind::Rbac.word(), filter.word());
    let message = format!(
        "Authorization: rules ask for {what}, and EdgeProxy.spec.filterOrder may put {prefix}{own} before {prefix}{other}."
    );
    Some(message.into())
}

fn asks_for_tokens(rules: &AccessRules) -> bool {
    let mut conditions = rules.rules.iter().flat_map(|rule| &rule.conditions);
    conditions.any(|condition| matches!(condition, AccessCondition::Claim(_)))
}

/// What rules ask of databases about where clients are, sorted.
fn asked_of_places(rules: &AccessRules) -> Box<[GeoFact]> {
    let conditions = rules.rules.iter().flat_map(|rule| &rule.conditions);
    let places = conditions.filter_map(|condition| match condition {
        AccessCondition::Place(places) => Some(places),
        _ => None,
    });
    let facts: BTreeSet<GeoFact> = places.flatten().flatten().map(GeoCondition::fact).collect();
    facts.into_iter().collect()
}

/// Why a policy can't be about connections themselves.
const ONLY_AUTHORIZATION: &str = "Only authorization is supported for TCP (routes/listeners).";

/// Why a policy can't be about datagrams.
const NO_CONNECTION: &str = "Authorization: datagrams have no connection that could be refused.";

/// What becomes of connections whose requests nobody reads, where they inherit a policy. Only scripts in browsers ask
/// who may send what from where, so that rules for these leave connections as they are.
fn streams(settings: &SecuritySettings, rules: Option<Arc<AccessRules>>) -> Streams {
    let SecuritySettings {
        cors: _,
        csrf: _,
        authorization: _,
        api_key_auth,
        basic_auth,
        jwt,
        oidc,
        ext_auth,
    } = settings;
    let others = [
        api_key_auth.is_some(),
        basic_auth.is_some(),
        jwt.is_some(),
        oidc.is_some(),
        ext_auth.is_some(),
    ];
    if others.contains(&true) {
        return Streams::Closed(ONLY_AUTHORIZATION.into());
    }
    let Some(rules) = rules else {
        return Streams::Open;
    };
    let unknown = rules.rules.iter().enumerate().find_map(|(i, rule)| {
        let what = rule.conditions.iter().find_map(|condition| match condition {
            AccessCondition::Client(_) => None,
            AccessCondition::Method(_) | AccessCondition::Path(_) | AccessCondition::OtherPath(_) => Some("operation"),
            AccessCondition::Header(..) => Some("headers"),
            AccessCondition::Claim(_) => Some("JWT"),
            AccessCondition::Place(_) => Some("clientIPGeoLocations"),
            AccessCondition::Expression(_) => Some("CEL"),
        })?;
        Some(format!("Authorization: rule {i}: {what} not supported for TCP."))
    });
    match unknown {
        Some(why) => Streams::Closed(why.into()),
        None => Streams::Rules(rules),
    }
}

/// Why a policy can't guard the streams that it is for; none where it can. They are closed then.
pub(crate) fn fault_of_streams(reader: &Reader<'_>, policy: Id, transport: PortProtocol) -> Option<Arc<str>> {
    let settled = reader.security_policy(policy)?.settled.clone().ok()?;
    let security = reader.security(settled);
    match &security.streams {
        Streams::Closed(why) => return Some(Arc::clone(why)),
        Streams::Rules(_) if transport == PortProtocol::Udp => return Some(NO_CONNECTION.into()),
        Streams::Open | Streams::Rules(_) => {}
    }
    let is_for_browsers = |filter: &RouteFilter| matches!(filter.id.kind, FilterKind::Cors | FilterKind::Csrf);
    let mut effects = security.filters.effects.iter();
    effects.any(is_for_browsers).then(|| ONLY_AUTHORIZATION.into())
}

/// Whether streams that inherit a policy are closed by it.
pub(crate) fn closes_streams(reader: &Reader<'_>, policy: Id, transport: PortProtocol) -> bool {
    let settled = reader.security_policy(policy).map(|policy| &policy.settled);
    settled.is_some_and(|settled| match settled {
        Ok(security) => match &reader.security(*security).streams {
            Streams::Open => false,
            Streams::Rules(_) => transport == PortProtocol::Udp,
            Streams::Closed(_) => true,
        },
        // The status says that nothing passes.
        Err(_) => false,
    })
}

/// Why a service of a policy can't be asked as its own settings want; none where it can.
pub(super) fn fault_of_backends(reader: &Reader<'_>, security: SecurityId) -> Option<Arc<str>> {
    let security = reader.security(security);
    let mut backends = security.backends.iter();
    let refused = backends.find_map(|backend| asked::refusal(reader, backend.port))?;
    Some(format!("Backend: {}", ended(refused)).into())
}

/// A header that the proxy sets.
fn header(area: &str, field: &str, name: Option<&str>, problems: &mut Problems) -> Option<Arc<str>> {
    let name = name?;
    if !is_token(name) || name.eq_ignore_ascii_case("host") {
        problems.add(area, format_args!("{field} {name:?} can't be set as a header"));
    } else if is_framing(name) {
        problems.add(area, format_args!("{field} {name} can't be set: {WHOSE_FRAMING}"));
    }
    Some(name.into())
}
