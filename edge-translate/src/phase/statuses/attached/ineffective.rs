//! Fields of policies that are taken and have no effect.

use super::super::{of_services, target::Target};
use crate::{
    api::{
        BackendTrafficPolicySpec, Kind, Object,
        cluster_settings::HttpTimeout,
        load_balancer::{ConsistentHashType, LoadBalancerType},
        text::DurationText,
    },
    engine::reader::Reader,
    name::{ListenerId, PolicyId},
    phase::routes::bound::{Futile, Reach, says},
    status::Condition,
};
use serde_json::Value;
use std::time::Duration;

/// Longest wait for a service that decides about requests, where nothing is said.
const WAIT: Duration = Duration::from_secs(10);

/// The condition that tells of such fields; none where there are none.
pub(super) fn warning(object: &Object) -> Option<Condition> {
    let (Object::SecurityPolicy(policy) | Object::EdgeExtensionPolicy(policy)) = object else {
        return None;
    };
    let auth = &policy.spec["extAuth"];
    let told = ["grpc", "http"].into_iter().filter_map(|how| limit_of_tries(auth, how));
    let mut told: Vec<String> = told.collect();
    told.extend(of_services::of_policy(&policy.spec));
    told.extend(unsent(auth));
    (!told.is_empty()).then(|| Condition::yes("Warning", "UnsupportedField", told.join("; ")))
}

/// A proxy limits the wait for such a service over all tries, and has no limit for each of them.
fn limit_of_tries(auth: &Value, how: &str) -> Option<String> {
    let limit = &auth[how]["backendSettings"]["retry"]["perRetry"]["timeout"];
    let wait = duration(&auth["timeout"]).unwrap_or(WAIT);
    (duration(limit)? < wait).then(|| {
        format!(
            "spec.extAuth.{how}.backendSettings.retry.perRetry.timeout has no effect: spec.extAuth.timeout limits all \
             tries together"
        )
    })
}

/// What is said of a request besides itself is a matter of gRPC.
fn unsent(auth: &Value) -> impl Iterator<Item = String> {
    let is_set = |field: &str| match &auth[field] {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    let fields = ["contextExtensions", "includeRouteMetadata"];
    let unsent = fields
        .into_iter()
        .filter(move |field| auth["http"].is_object() && is_set(field));
    unsent.map(|field| format!("spec.extAuth.{field} has no effect: a service over HTTP isn't told"))
}

fn duration(text: &Value) -> Option<Duration> {
    DurationText::from(text.as_str()?).parse().ok()
}

/// Fields of a policy that have no effect on a target, a sentence each.
pub(super) fn over(reader: &Reader<'_>, policy: PolicyId, target: Target) -> Vec<String> {
    let Some(Object::BackendTrafficPolicy(object)) = reader.object(policy.kind, policy.id) else {
        return Vec::new();
    };
    let is_of_streams = target.route().is_some_and(|route| !route.kind.is_by_host());
    let mut told = Vec::new();
    if is_of_streams || target.streams(reader).is_some() {
        let fields = of_requests(&object.spec);
        told.extend(
            fields
                .into_iter()
                .map(|field| without_effect(reader, field, target, "has no requests")),
        );
    }
    if looks_ahead_in_vain(&object.spec) {
        let (field, why) = (
            "connection.preconnect.predictivePercent",
            "isn't balanced by RoundRobin or Random",
        );
        told.push(without_effect(reader, field, target, why));
    }
    let in_vain = [
        (
            Futile::Calls,
            "healthCheck.active.grpc",
            "has backends that aren't spoken to in HTTP/2",
        ),
        (
            Futile::Names,
            "dns",
            "has backends that are found by the host of a request",
        ),
    ];
    for (what, field, why) in in_vain {
        if says(&object.spec, what) && is_in_vain(reader, policy, target, what) {
            told.push(without_effect(reader, field, target, why));
        }
    }
    told
}

/// Only balancers that know whom they choose next can be asked for connections ahead.
fn looks_ahead_in_vain(spec: &BackendTrafficPolicySpec) -> bool {
    let preconnect = spec
        .connection
        .as_ref()
        .and_then(|connection| connection.preconnect.as_ref());
    let balancer = spec.load_balancer.as_deref();
    let knows_the_next = balancer.is_some_and(|balancer| balancer.r#type.looks_ahead());
    preconnect.is_some_and(|preconnect| preconnect.predictive_percent.is_some()) && !knows_the_next
}

/// The sentence that a field has no effect on a target.
pub(super) fn without_effect(reader: &Reader<'_>, field: &str, target: Target, why: &str) -> String {
    let Target { kind, id, section } = target;
    let (namespace, name) = (reader.text(id.namespace), reader.text(id.name));
    let section = section.map(|section| ["/", &*reader.text(section)].concat());
    let section = section.unwrap_or_default();
    format!("spec.{field} has no effect where {kind} {namespace}/{name}{section} {why}")
}

/// Fields of a policy that are about requests alone.
fn of_requests(spec: &BackendTrafficPolicySpec) -> Vec<&'static str> {
    let balancer = spec.load_balancer.as_deref();
    let is_balanced = |by: &LoadBalancerType| balancer.is_some_and(|balancer| balancer.r#type == *by);
    let hash = balancer.and_then(|balancer| balancer.consistent_hash.as_deref());
    let hashes_requests = hash.is_some_and(|hash| hash.r#type != ConsistentHashType::SourceIp);
    let http = spec.timeout.as_deref().and_then(|timeout| timeout.http.as_deref());
    let limits = |is_set: fn(&HttpTimeout) -> bool| http.is_some_and(is_set);
    let fields = [
        (spec.retry.is_some(), "retry"),
        (spec.rate_limit.is_some(), "rateLimit"),
        (spec.bandwidth_limit.is_some(), "bandwidthLimit"),
        (spec.fault_injection.is_some(), "faultInjection"),
        (spec.admission_control.is_some(), "admissionControl"),
        (spec.compression.is_some(), "compression"),
        (spec.compressor.is_some(), "compressor"),
        (!spec.response_override.is_empty(), "responseOverride"),
        (!spec.http_upgrade.is_empty(), "httpUpgrade"),
        (spec.request_buffer.is_some(), "requestBuffer"),
        (
            limits(|http| http.request_timeout.is_some()),
            "timeout.http.requestTimeout",
        ),
        (
            limits(|http| http.stream_idle_timeout.is_some()),
            "timeout.http.streamIdleTimeout",
        ),
        (
            limits(|http| http.max_stream_duration.is_some()),
            "timeout.http.maxStreamDuration",
        ),
        (
            is_balanced(&LoadBalancerType::ConsistentHash) && hashes_requests,
            "loadBalancer.consistentHash",
        ),
        (
            is_balanced(&LoadBalancerType::BackendUtilization),
            "loadBalancer.backendUtilization",
        ),
        (
            balancer.is_some_and(|balancer| balancer.endpoint_override.is_some()),
            "loadBalancer.endpointOverride",
        ),
    ];
    fields
        .into_iter()
        .filter(|(is_set, _)| *is_set)
        .map(|(_, field)| field)
        .collect()
}

/// Whether a policy asks for something in vain of backends that rules of a target lead to.
fn is_in_vain(reader: &Reader<'_>, policy: PolicyId, target: Target, what: Futile) -> bool {
    if let Some(route) = target.route() {
        let reach = target.section.map_or(Reach::Route, Reach::Rule);
        let mut of_route = reader.bound(route).into_iter().flat_map(|bound| &bound.uses.in_vain);
        return of_route.any(|(of, one)| *of == policy.id && one.what == what && one.reach == reach);
    }
    let is_of = |listener: ListenerId| {
        let is_in = match (target.kind, target.section) {
            (Kind::ListenerSet, _) => listener.set == Some(target.id),
            (_, None) => listener.gateway == target.id,
            (_, Some(_)) => listener.gateway == target.id && listener.set.is_none(),
        };
        is_in && target.section.is_none_or(|section| listener.name == section)
    };
    reader
        .in_vain(policy.id)
        .any(|one| one.what == what && is_of(one.listener) && one.is_own(reader))
}
