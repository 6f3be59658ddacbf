//! Filters by which a policy shapes requests and responses.

use super::{Problems, Sources};
use crate::{
    api::{BackendTrafficPolicySpec, text::Quantity},
    engine::reader::Reader,
    name::{FilterKey, FilterOwner, PolicyFilters},
};
use edge_ir::{FilterEffect, FilterId, FilterKind, FilterSettings, RouteFilter};
use std::sync::Arc;

mod admission;
mod bandwidth;
mod compression;
mod descriptors;
mod fault;
mod local_limit;
mod overrides;

/// All of them.
pub(super) fn filters(
    reader: &Reader<'_>,
    spec: &BackendTrafficPolicySpec,
    sources: Sources<'_>,
    problems: &mut Problems,
) -> PolicyFilters {
    let mut list = List::new(reader);
    if let Some(fault) = fault::fault(spec, problems) {
        list.shared(FilterKind::Fault, FilterEffect::Fault(Arc::new(fault)));
    }
    let overrides = overrides::overrides(reader, spec, &sources.overrides.namespace, problems);
    if !overrides.is_empty() {
        list.shared(FilterKind::CustomResponse, FilterEffect::Override(overrides.into()));
    }
    if let Some(limit) = buffer(spec, problems) {
        list.shared(FilterKind::Buffer, FilterEffect::Buffer(limit));
    }
    let limits = local_limit::limits(spec, sources.limits, problems);
    if let Some(limit) = limits.of_routes {
        list.shared(FilterKind::LocalRateLimit, FilterEffect::RateLimit(Arc::new(limit)));
    }
    if let Some(limit) = limits.shared {
        list.set(FilterKind::LocalRateLimit, FilterSettings::RateLimit(Arc::new(limit)));
    }
    for (part, bandwidth) in bandwidth::limits(spec, problems) {
        list.part(
            FilterKind::BandwidthLimit,
            part,
            FilterEffect::Bandwidth(Arc::new(bandwidth)),
        );
    }
    if let Some(admission) = admission::admission(spec, problems) {
        list.set(
            FilterKind::AdmissionControl,
            FilterSettings::Admission(Arc::new(admission)),
        );
    }
    for compressor in compression::compressors(spec, problems) {
        list.set(FilterKind::Compressor, FilterSettings::Compressor(compressor));
    }
    list.finish()
}

/// Filters in the making.
struct List<'a, 'r> {
    reader: &'r Reader<'a>,
    effects: Vec<RouteFilter>,
    instances: Vec<FilterKey>,
}

impl<'a, 'r> List<'a, 'r> {
    fn new(reader: &'r Reader<'a>) -> Self {
        Self {
            reader,
            effects: Vec::new(),
            instances: Vec::new(),
        }
    }

    /// Adds what the instance that all routes share does for the routes of the policy.
    fn shared(&mut self, kind: FilterKind, effect: FilterEffect) {
        self.add(FilterKey::shared(kind), effect);
    }

    /// Adds what one of several instances that all routes share does for the routes of the policy.
    fn part(&mut self, kind: FilterKind, part: &'static str, effect: FilterEffect) {
        let owner = Some(FilterOwner::Part(part));
        self.add(FilterKey { kind, owner }, effect);
    }

    /// Adds an instance that does what it is set to.
    fn set(&mut self, kind: FilterKind, settings: FilterSettings) {
        let owner = Some(FilterOwner::Settings(self.reader.filter_settings_id(settings)));
        self.add(FilterKey { kind, owner }, FilterEffect::On);
    }

    fn add(&mut self, key: FilterKey, effect: FilterEffect) {
        let id: FilterId = self.reader.filter_id(key);
        self.instances.push(key);
        self.effects.push(RouteFilter { id, effect });
    }

    fn finish(mut self) -> PolicyFilters {
        self.effects.sort_by(|a, b| a.id.cmp(&b.id));
        self.effects.dedup_by(|a, b| a.id == b.id);
        PolicyFilters {
            effects: self.effects.into(),
            instances: self.instances.into(),
        }
    }
}

/// What a body may have where a policy says no limit: as much as a connection buffers.
const USUAL_BODY: u32 = 32_768;

/// Bytes that a request may have which is read whole.
fn buffer(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Option<u32> {
    let limit: Option<&Quantity> = spec.request_buffer.as_ref()?.limit.as_ref();
    if limit.is_none() {
        return Some(USUAL_BODY);
    }
    problems.bytes("RequestBuffer", "limit", limit, 1..=u32::MAX)
}
