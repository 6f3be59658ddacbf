//! What two policies, or EdgeProxies, say together: the more specific one laid over that of a parent.
//!
//! Both kinds of merging take objects member by member. A list of the more specific one stands in place of the other's;
//! in a strategic merge the entries of a list whose type has a key are taken by that key.

use crate::{
    api::{BackendTrafficPolicySpec, MergeType},
    load::typed::typed,
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
