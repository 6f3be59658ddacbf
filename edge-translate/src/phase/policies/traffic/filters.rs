//! Filters by which a policy shapes requests and responses.

use super::{Problems, Sources};
use crate::{
    api::{BackendTrafficPolicySpec, text::Quantity},
    engine::reader::Reader,
    name::PolicyFilters,
    phase::policies::filter_list::FilterList,
};
use edge_ir::{FilterEffect, FilterKind, FilterSettings};
use std::sync::Arc;

mod admission;
mod bandwidth;
mod compression;
mod descriptors;
mod fault;
mod global_limit;
mod local_limit;
mod overrides;

pub(crate) use compression::compressor;

/// All of them.
pub(super) fn filters(
    reader: &Reader<'_>,
    spec: &BackendTrafficPolicySpec,
    sources: Sources<'_>,
    problems: &mut Problems,
) -> PolicyFilters {
    let mut list = FilterList::new(reader);
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
    let limits = global_limit::limits(reader, spec, sources.global_limits, problems);
    if let Some(limit) = limits.of_routes {
        list.shared(FilterKind::RateLimit, FilterEffect::GlobalRateLimit(Arc::new(limit)));
    }
    if let Some(limit) = limits.shared {
        let effect = FilterEffect::GlobalRateLimit(Arc::new(limit));
        list.part(FilterKind::RateLimit, global_limit::SHARED, effect);
    }
    for (part, bandwidth) in bandwidth::limits(spec, problems) {
        list.part(
            FilterKind::BandwidthLimit,
            part,
            FilterEffect::Bandwidth(Arc::new(bandwidth)),
        );
    }
    if let Some(admission) = admission::admission(spec, sources.admission, problems) {
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

/// What a body may have where a policy says no limit: as much as a connection buffers.
const USUAL_BODY: u32 = 32_768;

/// Bytes that a request may have which is read whole.
fn buffer(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Option<u32> {
    const AREA: &str = "RequestBuffer";
    let limit: Option<&Quantity> = spec.request_buffer.as_ref()?.limit.as_ref();
    if limit.is_none() {
        return Some(USUAL_BODY);
    }
    let bytes = problems.bytes(AREA, "limit", limit, 0..=u32::MAX)?;
    if bytes == 0 {
        problems.add(AREA, "a limit of 0 leaves no room for a body");
    }
    Some(bytes)
}
