//! What instances of filters do by themselves, for the routes that use them, and what they need for that.

use super::{modules, outside, rate_limit};
use crate::{
    api::Kind,
    engine::reader::Reader,
    name::{FilterKey, FilterOwner},
    own_host,
    phase::{
        backends::cluster::ClusterParts,
        gateways::{
            filter_order::{self, FilterMove},
            telemetry::CountedCalls,
        },
        policies::client::{ClientTraffic, WebCalls},
        policies::secret_text,
        routes::credential::{self, Credential},
    },
};
use edge_ir::{
    FilterId, FilterInstance, FilterKind, FilterSettings, GeoDatabases, GeoFact, GeoLookup, GuardSet, HeaderMutation,
    LimitHeaders, LocalRateLimit, RateLimitService, Secret,
};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What has a say in the instances of a chain besides those who ask for them.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    /// What clients of the listener may do.
    pub(super) traffic: &'a ClientTraffic,
    /// The databases of the fleet.
    pub(super) places: Option<&'a Arc<GeoDatabases>>,
}

/// The instances of a chain, each once: the listener's own, and those of routes, where what several ask of the same one
/// is put together.
pub(super) fn instances(
    reader: &Reader<'_>,
    keys: impl Iterator<Item = FilterKey>,
    of_listener: impl Iterator<Item = (FilterId, FilterSettings)>,
    around: Around<'_>,
    moves: &[FilterMove],
) -> Vec<FilterInstance> {
    let mut used: BTreeMap<FilterId, FilterSettings> = of_listener.collect();
    for key in keys {
        let settings = match (key.kind, around.places) {
            (FilterKind::Geoip, Some(databases)) => lookup(databases, around.traffic),
            _ => in_listener(settings(reader, key), around.traffic),
        };
        match used.get_mut(&reader.filter_id(key)) {
            Some(known) => known.join(&settings),
            None => drop(used.insert(reader.filter_id(key), settings)),
        }
    }
    let usual = used.into_iter();
    let usual = usual.map(|(id, settings)| FilterInstance { id, settings }).collect();
    filter_order::apply(moves, usual)
}

/// The guards of a chain, as 8 hexadecimal digits of their names; nothing where there are none. What they are set to
/// doesn't count: a guard of that name guards, as it was told then. That goes for tokens too, of which a chain has one
/// filter that knows what routes ask by name: asked for a name that it doesn't know, it refuses (Envoy's `jwt_authn`
/// answers 403). What tells where clients are counts by all that it tells: rules over what it doesn't would let in whom
/// they deny.
pub(super) fn guards(filters: &[FilterInstance]) -> GuardSet {
    let guards = filters.iter().filter(|filter| filter.id.kind.is_guard());
    let names: BTreeSet<String> = guards.map(guard).collect();
    if names.is_empty() {
        return GuardSet::default();
    }
    let mut hash = Sha256::new();
    for name in names {
        hash.update(name);
        hash.update([0]);
    }
    format!("{:.8x}", hash.finalize()).into()
}

fn guard(filter: &FilterInstance) -> String {
    match &filter.settings {
        FilterSettings::Places(lookup) => {
            let facts: Vec<GeoFact> = lookup.databases.facts().collect();
            format!("{}/{facts:?}", filter.id)
        }
        _ => filter.id.to_string(),
    }
}

/// Looks up where the clients of a listener are.
fn lookup(databases: &Arc<GeoDatabases>, traffic: &ClientTraffic) -> FilterSettings {
    FilterSettings::Places(Arc::new(GeoLookup {
        databases: Arc::clone(databases),
        address: traffic.http.address.clone(),
    }))
}

/// What a listener has of its own, for all that it serves; with an edit that tells clients of another way in.
pub(super) fn of_listener(
    traffic: &ClientTraffic,
    alternative: Option<HeaderMutation>,
    counted: CountedCalls,
) -> impl Iterator<Item = (FilterId, FilterSettings)> {
    let probe = traffic.probe.clone().map(FilterSettings::Probe);
    let edits: Vec<HeaderMutation> = traffic.late_response.iter().cloned().chain(alternative).collect();
    let edits = (!edits.is_empty()).then_some(FilterSettings::Responses(edits));
    let calls = (traffic.web_calls == WebCalls::All).then_some(FilterSettings::OfRoutes);
    let counts = (counted == CountedCalls::All).then_some(FilterSettings::OfRoutes);
    [
        (FilterKind::HealthCheck, probe),
        (FilterKind::HeaderMutation, edits),
        (FilterKind::GrpcWeb, calls),
        (FilterKind::GrpcStats, counts),
    ]
    .into_iter()
    .filter_map(|(kind, settings)| Some((FilterId::shared(kind), settings?)))
}

/// What an instance does where the listener has a say in it.
fn in_listener(settings: FilterSettings, traffic: &ClientTraffic) -> FilterSettings {
    let told = traffic.limits;
    match settings {
        FilterSettings::RateLimit(limits) if (limits.told, told) != (LimitHeaders::Usual, LimitHeaders::Usual) => {
            let mut limits = LocalRateLimit::clone(&limits);
            if limits.told != LimitHeaders::Usual {
                // The instance speaks for its limit for other requests; a rule that says nothing is as the listener is.
                let usual = told.or(LimitHeaders::Yes);
                limits.rules.iter_mut().for_each(|rule| rule.told = rule.told.or(usual));
            }
            limits.told = limits.told.or(told);
            FilterSettings::RateLimit(Arc::new(limits))
        }
        FilterSettings::RateLimitService(service) if told != LimitHeaders::Usual => {
            let service = RateLimitService::clone(&service);
            FilterSettings::RateLimitService(Arc::new(RateLimitService { told, ..service }))
        }
        other => other,
    }
}

fn settings(reader: &Reader<'_>, key: FilterKey) -> FilterSettings {
    match key.kind {
        FilterKind::RateLimit => return rate_limit::service(reader),
        FilterKind::DynamicForwardProxy => {
            return FilterSettings::Names(own_host::named_hosts(reader.settings().platform));
        }
        _ => {}
    }
    match key.owner {
        Some(FilterOwner::Of(instance)) => {
            let of = reader.instance(instance);
            (*of)
                .as_ref()
                .map_or(FilterSettings::OfRoutes, |of| of.instance.settings.clone())
        }
        Some(FilterOwner::Settings(settings)) => FilterSettings::clone(&reader.filter_settings(settings)),
        _ => credential(reader, key).map_or(FilterSettings::OfRoutes, |c| FilterSettings::Credential(c.injected)),
    }
}

/// The secrets that an instance names.
pub(super) fn secrets(reader: &Reader<'_>, key: FilterKey) -> Vec<Arc<Secret>> {
    if let Some(FilterOwner::Of(instance)) = key.owner {
        let instance = reader.instance(instance);
        let named = instance.iter().flat_map(|of| &of.secrets);
        return named
            .filter_map(|named| secret_text::resolved(reader, *named))
            .collect();
    }
    credential(reader, key).map(|c| c.secret).into_iter().collect()
}

/// Clusters of what an instance asks that is no backend.
pub(super) fn clusters(reader: &Reader<'_>, key: FilterKey) -> Vec<ClusterParts> {
    if key.kind == FilterKind::RateLimit {
        return rate_limit::cluster(reader).into_iter().collect();
    }
    if key.kind == FilterKind::Wasm {
        return vec![modules::cluster(reader)];
    }
    let Some(FilterOwner::Of(instance)) = key.owner else {
        return Vec::new();
    };
    let instance = reader.instance(instance);
    let asked = instance.iter().flat_map(|of| &of.outside);
    asked.map(|service| outside::parts(reader, service)).collect()
}

fn credential(reader: &Reader<'_>, key: FilterKey) -> Option<Credential> {
    let FilterOwner::Object(Kind::HttpRouteFilter, id) = key.owner? else {
        return None;
    };
    let filter = reader.http_route_filter(id)?;
    // Without one no route uses the instance: their rules fail.
    credential::credential(reader, filter)?.ok()
}
