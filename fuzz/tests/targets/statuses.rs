//! Our status over what others have written: theirs stays, whatever it is.

use bolero::check;
use edge_translate::status::{Status, merge};
use fuzz::{WORLD, translate};
use serde_json::Value;
use std::sync::Arc;

/// A policy, for its status is a list of ancestors.
const POLICY: &str = "---
apiVersion: gateway.edge/v1alpha1
kind: SecurityPolicy
metadata: {name: p, namespace: default}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}]
  cors: {allowOrigins: [\"https://a.example.com\"]}
";
const NOW: &str = "2026-01-02T03:04:05Z";

/// Lists that controllers share, and where each entry says whose it is.
const SHARED: [&str; 2] = ["parents", "ancestors"];
const OURS: &str = "gateway.edge/gatewayclass-controller";

/// Any JSON as the status that an object has: merging again changes nothing, and what isn't ours stands there as it
/// was.
#[test]
fn merging() {
    let statuses = statuses();
    check!().with_iterations(5000).for_each(|bytes: &[u8]| {
        let Some((choice, text)) = bytes.split_first() else {
            return;
        };
        let Ok(existing) = serde_json::from_slice::<Value>(text) else {
            return;
        };
        let ours = &statuses[usize::from(*choice) % statuses.len()];
        let merged = merge(Some(&existing), ours, Some(NOW));
        assert_eq!(merge(Some(&merged), ours, Some(NOW)), merged, "again, over {existing}");
        let Some(before) = existing.as_object() else { return };
        for (field, value) in before {
            let now = &merged[field];
            if SHARED.contains(&&**field) {
                let (theirs, kept) = (of_others(field, value), of_others(field, now));
                assert!(now == value || theirs == kept, "{field} of {existing} became {now}");
            } else if !["conditions", "listeners", "supportedFeatures", "attachedListenerSets"].contains(&&**field) {
                assert_eq!(now, value, "{field} of {existing}");
            }
        }
    });
}

fn of_others<'v>(list: &str, entries: &'v Value) -> Vec<&'v Value> {
    let entries = entries.as_array().into_iter().flatten();
    let is_of_others = |entry: &&Value| match entry.get("controllerName") {
        Some(name) => name != OURS,
        // Nobody but an EdgeProxy has such an ancestor, which is what we wrote before the name had a place there.
        None => list != "ancestors",
    };
    entries.filter(is_of_others).collect()
}

/// A status of each shape.
fn statuses() -> Vec<Arc<Status>> {
    let translation = translate(&format!("{WORLD}{POLICY}"));
    let statuses: Vec<_> = translation
        .statuses
        .into_iter()
        .filter_map(|(_, status)| status)
        .collect();
    assert!(statuses.len() >= 4, "{statuses:?}");
    statuses
}
