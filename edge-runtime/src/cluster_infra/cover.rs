//! Whether an object that exists is as it was asked for.

use serde_json::Value;

/// Lists whose members others may add to without taking it from us: server-side apply knows each by its key ("Merge
/// strategy", `x-kubernetes-list-type: map`). A list of plain values is ours as a whole, but for `finalizers`.
const SHARED_LISTS: [&str; 14] = [
    "containers",
    "env",
    "ephemeralContainers",
    "finalizers",
    "hostAliases",
    "imagePullSecrets",
    "initContainers",
    "ownerReferences",
    "ports",
    "resizePolicy",
    "secrets",
    "topologySpreadConstraints",
    "volumeMounts",
    "volumes",
];
/// Maps that are ours as a whole: with one more entry they choose something else (`x-kubernetes-map-type: atomic`).
const OWN_MAPS: [&str; 3] = ["matchLabels", "nodeSelector", "selector"];

/// Whether everything that is wanted stands in what there is. What there is besides, the API server's defaults and what
/// others have added, isn't looked at where they may add it; that something isn't wanted any more tells the mark of the
/// revision.
pub(super) fn covers(existing: &Value, wanted: &Value) -> bool {
    covers_in("", existing, wanted)
}

/// The same of a field of this name.
fn covers_in(field: &str, existing: &Value, wanted: &Value) -> bool {
    match (existing, wanted) {
        (Value::Object(existing), Value::Object(wanted)) => {
            let has_more = existing.len() > wanted.len() && OWN_MAPS.contains(&field);
            let has = |(key, wanted): (&String, &Value)| {
                existing
                    .get(key)
                    .is_some_and(|existing| covers_in(key, existing, wanted))
            };
            !has_more && wanted.iter().all(has)
        }
        (Value::Array(existing), Value::Array(wanted)) => {
            let has_all = match SHARED_LISTS.contains(&field) {
                true => existing.len() >= wanted.len(),
                false => existing.len() == wanted.len(),
            };
            let mut pairs = wanted.iter().zip(existing);
            has_all && pairs.all(|(wanted, existing)| covers_in("", existing, wanted))
        }
        (existing, wanted) => existing == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::covers;
    use serde_json::json;

    #[test]
    fn defaults_of_the_server_are_no_difference_and_changes_are() {
        let wanted = json!({"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}});
        let with_defaults =
            json!({"spec": {"ports": [{"port": 80, "nodePort": 30000}], "selector": {"a": "b"}, "x": 1}});
        assert!(covers(&with_defaults, &wanted));
        for drifted in [
            json!({"spec": {"ports": [{"port": 81}], "selector": {"a": "b"}}}),
            json!({"spec": {"ports": [], "selector": {"a": "b"}}}),
            json!({"spec": {"ports": [{"port": 80}], "selector": {}}}),
            json!({"spec": {"ports": [{"port": 80}]}}),
        ] {
            assert!(!covers(&drifted, &wanted), "{drifted}");
        }
    }

    #[test]
    fn what_others_add_is_a_difference_where_it_changes_what_is_ours() {
        let service = |selector, ranges| json!({"spec": {"selector": selector, "loadBalancerSourceRanges": ranges}});
        let wanted = service(json!({"a": "b"}), json!(["10.0.0.0/8"]));
        assert!(covers(&wanted, &wanted));
        assert!(!covers(
            &service(json!({"a": "b", "foo": "bar"}), json!(["10.0.0.0/8"])),
            &wanted
        ));
        assert!(!covers(
            &service(json!({"a": "b"}), json!(["10.0.0.0/8", "0.0.0.0/0"])),
            &wanted
        ));
        let pods = |spec| json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": spec}}});
        let wanted =
            pods(json!({"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a"}], "containers": [{"args": ["-c"]}]}));
        for drifted in [
            json!({"nodeSelector": {"a": "b", "c": "d"}, "tolerations": [{"key": "a"}], "containers": [{"args": ["-c"]}]}),
            json!({"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a"}, {"operator": "Exists"}], "containers": [{"args": ["-c"]}]}),
            json!({"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a"}], "containers": [{"args": ["-c", "-x"]}]}),
        ] {
            assert!(!covers(&pods(drifted.clone()), &wanted), "{drifted}");
        }
        // A sidecar behind ours, and what the server fills in.
        let more = json!({"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Equal"}],
            "containers": [{"args": ["-c"], "name": "x"}, {"name": "sidecar"}], "dnsPolicy": "ClusterFirst"});
        assert!(covers(&pods(more), &wanted));
    }
}
