//! What a cluster lets through, the loader knows: a field that only one of them has would be lost on its way.

use super::schema::{definitions, sample};
use edge_translate::load::{Limits, Source, load};
use serde_json::{Value, json};
use std::{fs, path::Path};

/// Kinds of which translation reads the fields; of the others it takes any.
const READ: [&str; 2] = ["Backend", "EdgeProxy"];

#[test]
fn every_field_of_a_definition_is_known_to_the_loader() {
    for (kind, schema) in definitions() {
        if !READ.contains(&kind.as_str()) {
            continue;
        }
        let spec = sample(&schema);
        let object = json!({
            "apiVersion": "gateway.edge/v1alpha1", "kind": kind, "metadata": {"name": "all"}, "spec": spec,
        });
        let text = serde_yaml::to_string(&object).unwrap();
        let loaded = load(
            &Source {
                name: "all.yaml",
                text: &text,
            },
            &Limits::default(),
        );
        let odd: Vec<String> = loaded
            .findings
            .iter()
            .filter(|finding| !finding.message.contains("is not supported by this version"))
            .map(ToString::to_string)
            .collect();
        assert!(odd.is_empty(), "{odd:#?}");
        assert_eq!(loaded.objects.len(), 1, "{kind}");
    }
}

#[test]
fn what_golden_cases_hold_a_cluster_would_take() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden");
    let definitions = definitions();
    let mut met = 0;
    let mut odd = Vec::new();
    for topic in fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path()) {
        // These are about what is wrong with a text.
        if topic.ends_with("input") || topic.ends_with("inadmissible") {
            continue;
        }
        for case in fs::read_dir(&topic).unwrap().map(|entry| entry.unwrap().path()) {
            let text = fs::read_to_string(case.join("input.yaml")).unwrap();
            for document in text.split("\n---") {
                let Ok(object) = serde_yaml::from_str::<Value>(document) else {
                    continue;
                };
                if object["apiVersion"] != "gateway.edge/v1alpha1" {
                    continue;
                }
                let Some(schema) = object["kind"].as_str().and_then(|kind| definitions.get(kind)) else {
                    continue;
                };
                met += 1;
                let name = case
                    .strip_prefix(topic.parent().unwrap())
                    .unwrap()
                    .display()
                    .to_string();
                unknown(&object["spec"], schema, &format!("{name}: spec"), &mut odd);
            }
        }
    }
    assert!(met > 20, "only {met} objects of our kinds");
    odd.sort();
    assert_eq!(odd, SLIPS);
}

/// Fields that no policy has, in cases about just that.
const SLIPS: [&str; 10] = [
    "backend-traffic/unreadable-targets: spec.targetRefs.group",
    "backend-traffic/unreadable-targets: spec.targetRefs.kind",
    "backend-traffic/unreadable-targets: spec.targetRefs.name",
    "extension/unknown-field: spec.extProc.unheard",
    "extension/unknown-field: spec.unheard",
    "extension/wasm-unknown-field: spec.wasm.unheard",
    "extension/wrong-type: spec.extProc.backendRefs",
    "policy/target-unreadable: spec.targetrefs",
    "security/own-home: spec.basicAuth.users.~home",
    "security/unknown-field: spec.basicAuht",
];

/// Fields that a schema doesn't have, which a cluster would drop.
fn unknown(value: &Value, schema: &Value, path: &str, odd: &mut Vec<String>) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let inner = schema["properties"]
                    .get(name)
                    .or_else(|| schema.get("additionalProperties"));
                match inner {
                    Some(inner) => unknown(value, inner, &format!("{path}.{name}"), odd),
                    None => odd.push(format!("{path}.{name}")),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| unknown(item, &schema["items"], path, odd)),
        _ => {}
    }
}
