//! Whether an object that exists is as it was asked for.

use serde_json::Value;

/// Whether everything that is wanted stands in what there is. What there is besides, the API server's defaults and what
/// others have added, isn't looked at; that something isn't wanted any more tells the mark of the revision.
pub(super) fn covers(existing: &Value, wanted: &Value) -> bool {
    match (existing, wanted) {
        (Value::Object(existing), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| existing.get(key).is_some_and(|existing| covers(existing, wanted))),
        (Value::Array(existing), Value::Array(wanted)) => {
            existing.len() >= wanted.len()
                && wanted
                    .iter()
                    .zip(existing)
                    .all(|(wanted, existing)| covers(existing, wanted))
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
}
