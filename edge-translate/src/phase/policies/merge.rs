//! What two policies, or EdgeProxies, say together: the more specific one laid over that of a parent.
//!
//! Both kinds of merging take objects member by member. A list of the more specific one stands in place of the other's;
//! in a strategic merge the entries of a list whose type has a key are taken by that key.

use crate::{
    api::{BackendTrafficPolicySpec, MergeType, load_balancer::LoadBalancerType},
    load::typed::typed,
    name::Id,
};
use serde_json::{Map, Value};

/// Lists whose entries have a key, by name of the field.
const KEYED: [(&str, &str); 12] = [
    ("dynamicModules", "name"),
    ("env", "name"),
    ("imagePullSecrets", "name"),
    ("initContainers", "name"),
    ("topologySpreadConstraints", "topologyKey"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
    ("contextExtensions", "name"),
    ("weightedZones", "zone"),
    ("set", "name"),
    ("add", "name"),
    ("addIfAbsent", "name"),
];

/// Fields that say what a policy is for, and how it stands to others: never merged.
pub(super) const OWN: [&str; 4] = ["targetRef", "targetRefs", "targetSelectors", "mergeType"];

/// Fields that say the same, of which a policy has one: that of the more specific one stands in place of either.
const ALTERNATIVES: [(&str, &str); 1] = [("compressor", "compression")];

/// Members of which an object has one at most, by where it stands: what the child says, the parent says in vain
/// otherwise.
const RIVALS: [(&str, [&str; 2]); 3] = [
    ("", ["requestBuffer", "httpUpgrade"]),
    ("/faultInjection/abort", ["httpStatus", "grpcStatus"]),
    ("/loadBalancer/zoneAware", ["preferLocal", "weightedZones"]),
];

/// Members of the parent, by where they stand, that algorithms of the child can't have beside them.
const UNFIT: [(&str, &str, &[&str]); 3] = [
    (
        "/loadBalancer",
        "slowStart",
        &["Random", "ConsistentHash", "DynamicModule"],
    ),
    ("/loadBalancer", "zoneAware", &["DynamicModule"]),
    (
        "/loadBalancer/zoneAware",
        "preferLocal",
        &["ConsistentHash", "BackendUtilization"],
    ),
];

/// Whether a policy that says this of itself is laid over that of a parent.
pub(super) fn is_merge(how: &MergeType) -> bool {
    matches!(how, MergeType::StrategicMerge | MergeType::JsonMerge)
}

/// How a policy is laid over that of a parent, and over which; none where it stands alone.
pub(super) fn over(how: &Option<MergeType>, parent: Option<Id>) -> Option<(&MergeType, Id)> {
    how.as_ref().filter(|how| is_merge(how)).zip(parent)
}

/// Why a policy is invalid that says so of itself; none where it isn't.
pub(super) fn fault_of(merge_type: &Value) -> Option<String> {
    let is_known = merge_type.as_str().is_some_and(|how| is_merge(&how.into()));
    (!is_known && !merge_type.is_null()).then(|| format!("{merge_type} is not StrategicMerge or JSONMerge"))
}

/// The spec of both together; none if it can't be written down, which only a bug could bring about.
pub(super) fn merged(
    parent: &BackendTrafficPolicySpec,
    child: &BackendTrafficPolicySpec,
    how: &MergeType,
) -> Option<BackendTrafficPolicySpec> {
    let (mut base, over) = (fields(parent)?, fields(child)?);
    for (field, older) in ALTERNATIVES {
        if over.contains_key(field) || over.contains_key(older) {
            base.remove(field);
            base.remove(older);
        }
    }
    let (mut base, over) = (Value::Object(base), Value::Object(over));
    give_way(&mut base, &over);
    let (Value::Object(mut base), Value::Object(over)) = (base, over) else {
        return None;
    };
    lay(&mut base, over, how);
    typed(&Value::Object(base)).ok()
}

fn fields(spec: &BackendTrafficPolicySpec) -> Option<Map<String, Value>> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(spec) else {
        return None;
    };
    fields.retain(|field, _| !OWN.contains(&field.as_str()));
    Some(fields)
}

/// Leaves out of a parent's fields what can't stand beside those of the child: together they were what nobody may
/// write.
fn give_way(base: &mut Value, over: &Value) {
    let mut leave_out = |of: &str, member: &str| {
        if let Some(Value::Object(members)) = base.pointer_mut(of) {
            members.remove(member);
        }
    };
    for (of, [one, other]) in RIVALS {
        let says = |member: &str| over.pointer(of).is_some_and(|of| is_said(&of[member]));
        if says(one) {
            leave_out(of, other);
        }
        if says(other) {
            leave_out(of, one);
        }
    }
    let algorithm = over["loadBalancer"]["type"].as_str().unwrap_or_default();
    for (of, member, _) in UNFIT.iter().filter(|(.., by)| by.contains(&algorithm)) {
        leave_out(of, member);
    }
    if !algorithm.is_empty() && !LoadBalancerType::from(algorithm).looks_ahead() {
        leave_out("/connection/preconnect", "predictivePercent");
    }
}

fn is_said(value: &Value) -> bool {
    !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
}

/// Lays fields over those of a parent.
pub(crate) fn lay(base: &mut Map<String, Value>, over: Map<String, Value>, how: &MergeType) {
    for (field, value) in over {
        match (base.get_mut(&field), value) {
            (Some(Value::Object(below)), Value::Object(above)) => lay(below, above, how),
            (Some(Value::Array(below)), Value::Array(above)) if *how == MergeType::StrategicMerge => {
                match KEYED.iter().find(|(name, _)| *name == field) {
                    Some((_, key)) => lay_entries(below, above, key, how),
                    None => *below = above,
                }
            }
            (_, value) => {
                base.insert(field, value);
            }
        }
    }
}

fn lay_entries(base: &mut Vec<Value>, over: Vec<Value>, key: &str, how: &MergeType) {
    for entry in over {
        let known = base.iter_mut().find(|below| below[key] == entry[key]);
        match (known, entry) {
            (Some(Value::Object(below)), Value::Object(above)) => lay(below, above, how),
            (_, entry) => base.push(entry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn both(parent: Value, child: Value, how: &MergeType) -> Value {
        let spec = |value| typed::<BackendTrafficPolicySpec>(&value).expect("a spec");
        serde_json::to_value(merged(&spec(parent), &spec(child), how)).expect("a value")
    }

    #[test]
    fn members_are_taken_one_by_one_and_targets_not_at_all() {
        for how in [MergeType::StrategicMerge, MergeType::JsonMerge] {
            let merged = both(
                json!({"targetRefs": [{"kind": "Gateway", "name": "g"}],
                       "timeout": {"tcp": {"connectTimeout": "1s"}, "http": {"requestTimeout": "2s"}}}),
                json!({"mergeType": how, "timeout": {"http": {"requestTimeout": "3s"}}, "useClientProtocol": true}),
                &how,
            );
            let expected = json!({"timeout": {"tcp": {"connectTimeout": "1s"}, "http": {"requestTimeout": "3s"}},
                                  "useClientProtocol": true});
            assert_eq!(merged, expected);
        }
    }

    #[test]
    fn entries_with_a_key_are_merged_by_it_in_a_strategic_merge_alone() {
        let zones = |zones: Value| json!({"loadBalancer": {"type": "Random", "zoneAware": {"weightedZones": zones}}});
        let (parent, child) = (
            json!([{"zone": "a", "weight": 1}, {"zone": "b", "weight": 1}]),
            json!([{"zone": "b", "weight": 9}]),
        );
        let by_key = json!([{"zone": "a", "weight": 1}, {"zone": "b", "weight": 9}]);
        for (how, expected) in [
            (MergeType::StrategicMerge, by_key),
            (MergeType::JsonMerge, child.clone()),
        ] {
            assert_eq!(both(zones(parent.clone()), zones(child.clone()), &how), zones(expected));
        }
    }

    #[test]
    fn what_cant_stand_beside_the_childs_gives_way() {
        let sound = |parent: Value, child: Value, expected: &[(&str, Value)]| {
            for how in [MergeType::StrategicMerge, MergeType::JsonMerge] {
                let merged = both(parent.clone(), child.clone(), &how);
                for (place, value) in expected {
                    assert_eq!(
                        merged.pointer(place).unwrap_or(&Value::Null),
                        value,
                        "{place} of {merged}"
                    );
                }
            }
        };
        let balanced = |of_type: &str| json!({"loadBalancer": {"type": of_type}});
        let near = json!({"loadBalancer": {"type": "RoundRobin", "slowStart": {"window": "10s"}, "zoneAware": {"preferLocal": {}}},
                          "connection": {"preconnect": {"predictivePercent": 150}}});
        let window = "/loadBalancer/slowStart/window";
        let ahead = "/connection/preconnect/predictivePercent";
        let local = "/loadBalancer/zoneAware/preferLocal";
        sound(
            near.clone(),
            balanced("Random"),
            &[(window, json!(null)), (ahead, json!(150)), (local, json!({}))],
        );
        sound(
            near.clone(),
            balanced("LeastRequest"),
            &[(window, json!("10s")), (ahead, json!(null)), (local, json!({}))],
        );
        sound(
            near,
            balanced("ConsistentHash"),
            &[(window, json!(null)), (local, json!(null))],
        );
        sound(
            json!({"faultInjection": {"abort": {"httpStatus": 500, "percentage": 5.0}}}),
            json!({"faultInjection": {"abort": {"grpcStatus": 3, "percentage": 5.0}}}),
            &[
                ("/faultInjection/abort/httpStatus", json!(null)),
                ("/faultInjection/abort/grpcStatus", json!(3)),
            ],
        );
        let upgrade = json!({"httpUpgrade": [{"type": "websocket"}]});
        let buffer = json!({"requestBuffer": {"limit": "1Ki"}});
        sound(
            upgrade.clone(),
            buffer.clone(),
            &[("/httpUpgrade/0", json!(null)), ("/requestBuffer/limit", json!("1Ki"))],
        );
        sound(buffer, upgrade, &[("/requestBuffer", json!(null))]);
    }

    #[test]
    fn what_is_written_counts_though_it_is_empty_or_off() {
        let spec = |switch: Value, codes: Value| {
            json!({"healthCheck": {"passive": {"alwaysEjectOneEndpoint": switch}},
                   "retry": {"retryOn": {"httpStatusCodes": codes}}, "httpUpgrade": []})
        };
        for how in [MergeType::StrategicMerge, MergeType::JsonMerge] {
            let merged = both(spec(json!(true), json!([500])), spec(json!(false), json!([])), &how);
            let passive = &merged["healthCheck"]["passive"];
            assert_eq!(passive["alwaysEjectOneEndpoint"], json!(false));
            assert_eq!(merged["retry"]["retryOn"], json!({"httpStatusCodes": []}));
            assert_eq!(merged["httpUpgrade"], json!([]));
        }
    }

    #[test]
    fn a_list_without_a_key_is_replaced() {
        let statuses = |codes: Value| json!({"retry": {"numRetries": 2, "retryOn": {"httpStatusCodes": codes}}});
        for how in [MergeType::StrategicMerge, MergeType::JsonMerge] {
            assert_eq!(
                both(statuses(json!([500, 502])), statuses(json!([503])), &how),
                statuses(json!([503]))
            );
        }
    }
}
