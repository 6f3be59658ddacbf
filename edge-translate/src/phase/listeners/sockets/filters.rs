//! What instances of filters do by themselves, for the routes that use them.

use crate::{
    api::Kind,
    engine::reader::Reader,
    name::{FilterKey, FilterOwner},
    phase::routes::credential::{self, Credential},
};
use edge_ir::{FilterSettings, Secret};
use std::sync::Arc;

/// The settings of an instance.
pub(super) fn settings(reader: &Reader<'_>, key: FilterKey) -> FilterSettings {
    match key.owner {
        Some(FilterOwner::Header(name)) => FilterSettings::UserHeader(reader.text(name)),
        Some(FilterOwner::Settings(settings)) => FilterSettings::clone(&reader.filter_settings(settings)),
        _ => credential(reader, key).map_or(FilterSettings::OfRoutes, |c| FilterSettings::Credential(c.injected)),
    }
}

/// The secret that an instance names.
pub(super) fn secret(reader: &Reader<'_>, key: FilterKey) -> Option<Arc<Secret>> {
    credential(reader, key).map(|c| c.secret)
}

fn credential(reader: &Reader<'_>, key: FilterKey) -> Option<Credential> {
    let FilterOwner::Object(Kind::HttpRouteFilter, id) = key.owner? else {
        return None;
    };
    let filter = reader.http_route_filter(id)?;
    // Without one no route uses the instance: their rules fail.
    credential::credential(reader, filter)?.ok()
}
