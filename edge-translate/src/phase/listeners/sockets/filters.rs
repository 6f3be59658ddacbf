//! What instances of filters do by themselves, for the routes that use them, and what they need for that.

use super::outside;
use crate::{
    api::Kind,
    engine::reader::Reader,
    name::{FilterKey, FilterOwner},
    phase::{
        backends::cluster::ClusterParts,
        policies::client::{ClientTraffic, WebCalls},
        routes::credential::{self, Credential},
    },
};
use edge_ir::{FilterId, FilterInstance, FilterKind, FilterSettings, Secret};
use std::{collections::BTreeMap, sync::Arc};

/// The instances of a chain, each once: the listener's own, and those of routes, where what several ask of the same one
/// is put together.
pub(super) fn instances(
    reader: &Reader<'_>,
    keys: impl Iterator<Item = FilterKey>,
    traffic: &ClientTraffic,
) -> Vec<FilterInstance> {
    let mut used: BTreeMap<FilterId, FilterSettings> = of_listener(traffic).collect();
    for key in keys {
        let settings = settings(reader, key);
        match used.get_mut(&reader.filter_id(key)) {
            Some(known) => known.join(&settings),
            None => drop(used.insert(reader.filter_id(key), settings)),
        }
    }
    used.into_iter()
        .map(|(id, settings)| FilterInstance { id, settings })
        .collect()
}

/// What a listener has of its own, for all that it serves.
fn of_listener(traffic: &ClientTraffic) -> impl Iterator<Item = (FilterId, FilterSettings)> {
    let probe = traffic.probe.clone().map(FilterSettings::Probe);
    let edits = (!traffic.late_response.is_empty()).then(|| FilterSettings::Responses(traffic.late_response.clone()));
    let calls = (traffic.web_calls == WebCalls::All).then_some(FilterSettings::OfRoutes);
    [
        (FilterKind::HealthCheck, probe),
        (FilterKind::HeaderMutation, edits),
        (FilterKind::GrpcWeb, calls),
    ]
    .into_iter()
    .filter_map(|(kind, settings)| Some((FilterId::shared(kind), settings?)))
}

fn settings(reader: &Reader<'_>, key: FilterKey) -> FilterSettings {
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

/// The secret that an instance names.
pub(super) fn secret(reader: &Reader<'_>, key: FilterKey) -> Option<Arc<Secret>> {
    credential(reader, key).map(|c| c.secret)
}

/// Clusters of what an instance asks that is no backend.
pub(super) fn clusters(reader: &Reader<'_>, key: FilterKey) -> Vec<ClusterParts> {
    let Some(FilterOwner::Of(instance)) = key.owner else {
        return Vec::new();
    };
    let instance = reader.instance(instance);
    let asked = instance.iter().flat_map(|of| &of.outside);
    asked.map(outside::parts).collect()
}

fn credential(reader: &Reader<'_>, key: FilterKey) -> Option<Credential> {
    let FilterOwner::Object(Kind::HttpRouteFilter, id) = key.owner? else {
        return None;
    };
    let filter = reader.http_route_filter(id)?;
    // Without one no route uses the instance: their rules fail.
    credential::credential(reader, filter)?.ok()
}
