//! Which policies say the same, apart from what they are for. Teams copy policies; of a thousand copies one is read.

use crate::api::BackendTrafficPolicySpec;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// A hash of what a policy says. None where that depends on whose it is: limits, and requests that fail, are counted by
/// the name of the policy, and bodies of other responses are in its namespace.
pub(super) fn hash(spec: &BackendTrafficPolicySpec) -> Option<u64> {
    if spec.rate_limit.is_some() || spec.admission_control.is_some() || !spec.response_override.is_empty() {
        return None;
    }
    let mut hasher = FxHasher::default();
    connections(spec).hash(&mut hasher);
    // What few policies have counts by its being there: whoever has the same hash is compared.
    let rest = [
        spec.bandwidth_limit.is_some(),
        spec.fault_injection.is_some(),
        spec.compression.is_some(),
        spec.compressor.is_some(),
        spec.request_buffer.is_some(),
        spec.telemetry.is_some(),
    ];
    rest.hash(&mut hasher);
    Some(hasher.finish())
}

/// Whether two policies say the same, and merge in the same way.
pub(super) fn is_alike(one: &BackendTrafficPolicySpec, other: &BackendTrafficPolicySpec) -> bool {
    connections(one) == connections(other) && requests(one) == requests(other)
}

/// What they say of connections and retries.
fn connections(spec: &BackendTrafficPolicySpec) -> impl PartialEq + Hash + '_ {
    (
        &spec.load_balancer,
        &spec.retry,
        &spec.proxy_protocol,
        &spec.tcp_keepalive,
        &spec.health_check,
        &spec.circuit_breaker,
        &spec.timeout,
        &spec.connection,
        &spec.dns,
        &spec.http2,
    )
}

/// All else, and how they merge. Every field is named, so that a new one is not forgotten.
fn requests(spec: &BackendTrafficPolicySpec) -> impl PartialEq + '_ {
    let BackendTrafficPolicySpec {
        target_ref: _,
        target_refs: _,
        target_selectors: _,
        load_balancer: _,
        retry: _,
        proxy_protocol: _,
        tcp_keepalive: _,
        health_check: _,
        circuit_breaker: _,
        timeout: _,
        connection: _,
        dns: _,
        http2: _,
        merge_type,
        rate_limit,
        bandwidth_limit,
        fault_injection,
        admission_control,
        use_client_protocol,
        compression,
        compressor,
        response_override,
        http_upgrade,
        request_buffer,
        telemetry,
        routing_type,
    } = spec;
    let ways = (merge_type, use_client_protocol, routing_type, http_upgrade, telemetry);
    let limits = (
        rate_limit,
        bandwidth_limit,
        fault_injection,
        admission_control,
        request_buffer,
    );
    (ways, limits, compression, compressor, response_override)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::typed::typed;
    use serde_json::{Value, json};

    /// A value for each field of the spec.
    fn full() -> Value {
        json!({
            "targetRefs": [{"kind": "HTTPRoute", "name": "one"}],
            "mergeType": "JSONMerge",
            "bandwidthLimit": {"request": {"limit": {"value": "1Mi", "unit": "Second"}}},
            "faultInjection": {"abort": {"httpStatus": 503, "percentage": 3.0}},
            "admissionControl": {"samplingWindow": "10s"},
            "useClientProtocol": true,
            "compression": [{"type": "Gzip"}],
            "compressor": [{"type": "Brotli"}],
            "httpUpgrade": [{"type": "websocket"}],
            "requestBuffer": {"limit": "1Mi"},
            "telemetry": {"metrics": {"routeStatName": "x"}},
            "routingType": "Service",
            "loadBalancer": {"type": "Random"},
            "retry": {"numRetries": 3},
            "proxyProtocol": {"version": "V1"},
            "tcpKeepalive": {"probes": 3},
            "healthCheck": {"panicThreshold": 30},
            "circuitBreaker": {"maxConnections": 7},
            "timeout": {"http": {"requestTimeout": "3s"}},
            "connection": {"bufferLimit": "32Ki"},
            "dns": {"lookupFamily": "IPv4"},
            "http2": {"maxConcurrentStreams": 9}
        })
    }

    fn spec(value: &Value) -> BackendTrafficPolicySpec {
        typed(value).expect("a spec")
    }

    #[test]
    fn every_field_counts_but_the_targets() {
        let all = full();
        let with = spec(&all);
        for field in all.as_object().expect("an object").keys() {
            let mut less = all.clone();
            less.as_object_mut().expect("an object").remove(field);
            assert_ne!(spec(&less), with, "{field} isn't read");
            assert_eq!(is_alike(&with, &spec(&less)), field == "targetRefs", "{field}");
        }
    }

    #[test]
    fn what_depends_on_whose_it_is_has_no_hash() {
        let limits = json!({"rateLimit": {"local": {"rules": [{"limit": {"requests": 1, "unit": "Second"}}]}}});
        let others = json!({"responseOverride": [{"match": {"statusCodes": [{"value": 404}]}, "response": {}}]});
        let refusals = json!({"admissionControl": {"samplingWindow": "10s"}});
        assert_eq!([limits, others, refusals].map(|it| hash(&spec(&it))), [None; 3]);
        assert!(hash(&spec(&json!({"retry": {"numRetries": 3}}))).is_some());
    }
}
