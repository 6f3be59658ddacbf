//! How an endpoint is chosen.

use super::Problems;
use crate::{
    api::{
        BackendTrafficPolicySpec,
        load_balancer::{
            BackendUtilization, ConsistentHash, ConsistentHashType, EndpointOverrideSource, LoadBalancerType,
            NamedField,
        },
    },
    name::LoadReports,
};
use edge_ir::{HashInput, LoadBalancing, ReportedLoad, Timeout};
use std::sync::Arc;

const AREA: &str = "LoadBalancer";

/// Largest table of Maglev that the proxy takes.
const MAX_TABLE: u64 = 5_000_011;

/// How an endpoint is chosen.
pub(super) fn balancing(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> LoadBalancing {
    let Some(balancer) = spec.load_balancer.as_deref() else {
        return LoadBalancing::default();
    };
    match (
        &balancer.r#type,
        &balancer.consistent_hash,
        &balancer.backend_utilization,
    ) {
        (LoadBalancerType::LeastRequest, ..) => LoadBalancing::LeastRequest,
        (LoadBalancerType::RoundRobin, ..) => LoadBalancing::RoundRobin,
        (LoadBalancerType::Random, ..) => LoadBalancing::Random,
        (LoadBalancerType::ConsistentHash, Some(hash), _) => {
            let size = hash.table_size;
            if !is_prime(size) {
                problems.add(AREA, format_args!("ConsistentHash: invalid TableSize value {size}"));
            }
            LoadBalancing::ConsistentHash(size)
        }
        (LoadBalancerType::BackendUtilization, _, Some(load)) => {
            LoadBalancing::ReportedLoad(Arc::new(reported(load, problems)))
        }
        (LoadBalancerType::ConsistentHash, None, _) => {
            problems.add(
                AREA,
                "If LoadBalancer type is consistentHash, consistentHash field needs to be set",
            );
            LoadBalancing::default()
        }
        (LoadBalancerType::BackendUtilization, _, None) => {
            problems.add(
                AREA,
                "If LoadBalancer type is BackendUtilization, backendUtilization field needs to be set",
            );
            LoadBalancing::default()
        }
        (other @ (LoadBalancerType::DynamicModule | LoadBalancerType::Other(_)), ..) => {
            problems.add(AREA, format_args!("type {other} is not supported by this version"));
            LoadBalancing::default()
        }
    }
}

/// Whether a number within the bounds of a table is a prime, which Maglev needs to reach every place of it.
fn is_prime(number: u64) -> bool {
    let has_divisor = || (2..).take_while(|d| d * d <= number).any(|d| number.is_multiple_of(d));
    (2..=MAX_TABLE).contains(&number) && !has_divisor()
}

fn reported(load: &BackendUtilization, problems: &mut Problems) -> ReportedLoad {
    if load.out_of_band.is_some() {
        problems.add(AREA, "backendUtilization.outOfBand is not supported by this version");
    }
    ReportedLoad {
        blackout: problems.millis(AREA, "BlackoutPeriod", load.blackout_period.as_ref()),
        expiration: problems.millis(AREA, "WeightExpirationPeriod", load.weight_expiration_period.as_ref()),
        update: problems.positive(AREA, "WeightUpdatePeriod", load.weight_update_period.as_ref()),
        error_penalty_percent: load.error_utilization_penalty_percent,
        metrics: load
            .metric_names_for_computing_utilization
            .iter()
            .map(|name| (&**name).into())
            .collect(),
    }
}

/// What clients see of the loads that endpoints report. Where the choice goes by them they end here, unless a policy
/// says otherwise.
pub(super) fn load_reports(spec: &BackendTrafficPolicySpec) -> LoadReports {
    let balancer = spec.load_balancer.as_deref();
    let balancer = balancer.filter(|balancer| balancer.r#type == LoadBalancerType::BackendUtilization);
    match balancer.and_then(|balancer| balancer.backend_utilization.as_deref()) {
        Some(load) if !load.keep_response_headers => LoadReports::Removed,
        Some(_) | None => LoadReports::Passed,
    }
}

/// How long new endpoints are spared.
pub(super) fn slow_start(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Option<Timeout> {
    let balancer = spec.load_balancer.as_deref()?;
    let window = &balancer.slow_start.as_ref()?.window;
    if matches!(
        balancer.r#type,
        LoadBalancerType::Random | LoadBalancerType::ConsistentHash
    ) {
        problems.add(
            AREA,
            "Currently SlowStart is only supported for RoundRobin, LeastRequest, and BackendUtilization load balancers",
        );
    }
    problems.positive(AREA, "SlowStart.Window", Some(window))
}

/// Headers in which a client names the endpoint.
pub(super) fn endpoint_headers(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Vec<Arc<str>> {
    let balancer = spec.load_balancer.as_deref();
    let sources = balancer.and_then(|balancer| balancer.endpoint_override.as_ref());
    let sources = sources.map(|sources| &*sources.extract_from).unwrap_or_default();
    let header = |source: &EndpointOverrideSource| match source.header.as_deref() {
        Some(name) => Some(problems.token(AREA, "header of endpointOverride", name)),
        None => {
            problems.add(AREA, "a source of endpointOverride names no header");
            None
        }
    };
    sources.iter().filter_map(header).collect()
}

/// What of a request is hashed.
pub(super) fn hash(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Vec<HashInput> {
    let balancer = spec.load_balancer.as_deref();
    let hash = balancer
        .filter(|balancer| balancer.r#type == LoadBalancerType::ConsistentHash)
        .and_then(|balancer| balancer.consistent_hash.as_deref());
    hash.map(|hash| inputs(hash, problems)).unwrap_or_default()
}

fn inputs(hash: &ConsistentHash, problems: &mut Problems) -> Vec<HashInput> {
    let wanting = |field: &str, problems: &mut Problems| {
        problems.add(
            AREA,
            format_args!(
                "If consistent hash type is {}, the {field} field must be set",
                hash.r#type
            ),
        );
        Vec::new()
    };
    let header = |field: &NamedField, problems: &mut Problems| {
        HashInput::Header(problems.token(AREA, "header of consistentHash", &field.name))
    };
    match (&hash.r#type, &hash.header, &hash.cookie) {
        (ConsistentHashType::SourceIp, ..) => vec![HashInput::SourceIp],
        (ConsistentHashType::Header, Some(field), _) => vec![header(field, problems)],
        (ConsistentHashType::Header, None, _) => wanting("header", problems),
        (ConsistentHashType::Headers, ..) if hash.headers.is_empty() => wanting("headers", problems),
        (ConsistentHashType::Headers, ..) => hash.headers.iter().map(|field| header(field, problems)).collect(),
        (ConsistentHashType::QueryParams, ..) if hash.query_params.is_empty() => wanting("queryParams", problems),
        (ConsistentHashType::QueryParams, ..) => {
            let name = |field: &NamedField| {
                if field.name.is_empty() {
                    problems.add(AREA, "a query parameter of consistentHash has no name");
                }
                HashInput::QueryParameter((&*field.name).into())
            };
            hash.query_params.iter().map(name).collect()
        }
        (ConsistentHashType::Cookie, _, Some(cookie)) => vec![HashInput::Cookie {
            name: problems.token(AREA, "cookie of consistentHash", &cookie.name),
            ttl: problems.millis(AREA, "Cookie.TTL", cookie.ttl.as_ref()),
            attributes: cookie
                .attributes
                .iter()
                .map(|(name, value)| {
                    let name = problems.token(AREA, "attribute of the cookie", name);
                    (name, problems.text(AREA, "attribute of the cookie", value))
                })
                .collect(),
        }],
        (ConsistentHashType::Cookie, _, None) => wanting("cookie", problems),
        (ConsistentHashType::Other(other), ..) => {
            problems.add(AREA, format_args!("unsupported type {other} of consistentHash"));
            Vec::new()
        }
    }
}
