//! Full quotas: an API server that is asked for what is to take an object's place counts as if both were to be there.

use super::seen::Seen;
use crate::cluster::fault::is_over_quota;
use kube::Error;
use std::collections::BTreeMap;

/// Whether an API server refuses a Service for nothing but the room of the one that goes before it is made.
pub(super) fn is_full_of(existing: &Seen, error: &Error) -> bool {
    let Error::Api(status) = error else {
        return false;
    };
    let Some([requested, used, limited]) = counts(&status.message).filter(|_| is_over_quota(status)) else {
        return false;
    };
    !requested.is_empty()
        && requested.iter().all(|(what, requested)| {
            let (Some(used), Some(limited)) = (used.get(what), limited.get(what)) else {
                return false;
            };
            used.saturating_sub(taken_by(existing, what)).saturating_add(*requested) <= *limited
        })
}

/// What is over its limit, as the API server tells it: "exceeded quota: NAME, requested: services=1, used: services=2, limited:
/// services=2" (k8s.io/apiserver, admission/plugin/resourcequota).
fn counts(message: &str) -> Option<[BTreeMap<&str, u64>; 3]> {
    let (_, counts) = message.split_once("exceeded quota: ")?.1.split_once(", requested: ")?;
    let (requested, counts) = counts.split_once(", used: ")?;
    let (used, limited) = counts.split_once(", limited: ")?;
    Some([each(requested)?, each(used)?, each(limited)?])
}

fn each(counts: &str) -> Option<BTreeMap<&str, u64>> {
    let counts = counts.split(',').map(|count| {
        let (what, number) = count.split_once('=')?;
        Some((what, number.parse().ok()?))
    });
    counts.collect()
}

/// How much of a resource a Service takes.
fn taken_by(service: &Seen, resource: &str) -> u64 {
    let spec = &service.object["spec"];
    let ports = spec["ports"].as_array().into_iter().flatten();
    match resource {
        "services" | "count/services" => 1,
        "services.loadbalancers" => u64::from(spec["type"] == "LoadBalancer"),
        "services.nodeports" => ports.map(|port| u64::from(port["nodePort"].as_u64() > Some(0))).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_infra::ObjectKind;
    use kube::core::Status;
    use serde_json::json;

    #[test]
    fn what_the_running_service_gives_back_is_room_for_the_next() {
        let existing =
            json!({"metadata": {"name": "n"}, "spec": {"type": "LoadBalancer", "ports": [{"nodePort": 30001}, {}]}});
        let existing = Seen::new(ObjectKind::Service, serde_json::from_value(existing).unwrap());
        for (counts, has_room) in [
            ("q, requested: services=1, used: services=1, limited: services=1", true),
            (
                "q, requested: services=1,services.loadbalancers=1, used: services=3,services.loadbalancers=1, \
                 limited: services=3,services.loadbalancers=1",
                true,
            ),
            // Somebody has lowered it.
            ("q, requested: services=1, used: services=3, limited: services=2", false),
            (
                "q, requested: services.nodeports=1, used: services.nodeports=4, limited: services.nodeports=4",
                true,
            ),
            // It asks for more than there was.
            (
                "q, requested: services.nodeports=2, used: services.nodeports=4, limited: services.nodeports=4",
                false,
            ),
            ("q, requested: pods=1, used: pods=1, limited: pods=1", false),
            (
                "q, requested: services=1, used: services=1k, limited: services=1k",
                false,
            ),
            ("q", false),
        ] {
            let message = format!("services \"edge-probe-\" is forbidden: exceeded quota: {counts}");
            let mut status = Status::failure(&message, "Forbidden");
            status.code = 403;
            assert_eq!(is_full_of(&existing, &Error::Api(status.boxed())), has_room, "{counts}");
        }
    }
}
