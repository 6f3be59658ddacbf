use super::*;
use serde_json::{Value, json};

fn accepted(status: Truth) -> Status {
    let condition = Condition {
        kind: "Accepted",
        status,
        reason: "R".into(),
        message: "m".into(),
    };
    Status {
        observed_generation: 7,
        body: StatusBody::Conditions(vec![condition]),
    }
}

fn times(status: &Value) -> Vec<&str> {
    status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|c| c["lastTransitionTime"].as_str())
        .collect()
}

#[test]
fn the_transition_time_moves_only_when_the_status_turns() {
    let first = merge(None, &accepted(Truth::True), Some("t1"));
    assert_eq!(times(&first), ["t1"]);
    let same = merge(Some(&first), &accepted(Truth::True), Some("t2"));
    assert_eq!(times(&same), ["t1"]);
    let turned = merge(Some(&first), &accepted(Truth::False), Some("t2"));
    assert_eq!(times(&turned), ["t2"]);
}

#[test]
fn conditions_of_others_survive_unchanged() {
    let foreign =
        json!({"type": "example.com/Seen", "status": "True", "observedGeneration": 1, "lastTransitionTime": "t0"});
    let old = json!({"conditions": [foreign], "addresses": [{"value": "10.0.0.1"}]});
    let new = merge(Some(&old), &accepted(Truth::True), None);
    assert_eq!(new["conditions"][1], foreign);
    assert_eq!(new["addresses"], old["addresses"]);
    assert_eq!(new["conditions"][0]["observedGeneration"], 7);
}

#[test]
fn entries_of_other_controllers_survive_and_count_against_the_limit() {
    let foreign: Vec<_> = (0..31)
        .map(|i| json!({"controllerName": "other", "parentRef": {"name": i.to_string()}}))
        .collect();
    let old = json!({ "parents": foreign });
    let parent = ParentStatus {
        parent: Arc::new(serde_json::from_value(json!({"name": "gw"})).unwrap()),
        conditions: vec![],
    };
    let parents = vec![parent.clone(), parent];
    let ours = Status {
        observed_generation: 1,
        body: StatusBody::Parents {
            controller_name: "us".into(),
            parents,
        },
    };
    let new = merge(Some(&old), &ours, None);
    let list = new["parents"].as_array().unwrap();
    assert_eq!(list.len(), 32);
    assert_eq!(list[..31], foreign);
    assert_eq!(list[31]["controllerName"], "us");
}

#[test]
fn entries_that_name_no_controller_make_place_for_ours() {
    let entry = ParentStatus {
        parent: Arc::new(serde_json::from_value(json!({"name": "gw"})).unwrap()),
        conditions: vec![Condition::yes("Accepted", "Accepted", "")],
    };
    let gateway = serde_json::to_value(&*entry.parent).unwrap();
    let nameless = json!({"ancestorRef": gateway, "conditions": [{
        "type": "Accepted", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    let foreign = json!({"ancestorRef": gateway, "controllerName": "other", "conditions": []});
    let old = json!({ "ancestors": [nameless, foreign, nameless] });
    let ours = |ancestors: Vec<ParentStatus>| Status {
        observed_generation: 2,
        body: StatusBody::Ancestors {
            controller_name: "us".into(),
            ancestors,
        },
    };
    let new = merge(Some(&old), &ours(vec![entry]), Some("2027-01-01T00:00:00Z"));
    let list = new["ancestors"].as_array().unwrap();
    assert_eq!((list.len(), &list[0]), (2, &foreign));
    assert_eq!(list[1]["controllerName"], "us");
    assert_eq!(times(&list[1]), ["2026-01-01T00:00:00Z"]);
    assert_eq!(
        merge(Some(&old), &ours(Vec::new()), None),
        json!({ "ancestors": [foreign] })
    );
}

#[test]
fn what_is_wrong_stays_when_ancestors_are_cut_off() {
    let ancestor = |i: usize, condition: Condition| ParentStatus {
        parent: Arc::new(serde_json::from_value(json!({"name": format!("gw{i:02}")})).unwrap()),
        conditions: vec![condition],
    };
    let mut ancestors: Vec<_> = (0..16)
        .map(|i| ancestor(i, Condition::yes("Accepted", "Accepted", "fine")))
        .collect();
    ancestors.push(ancestor(16, Condition::yes("Overridden", "Overridden", "by another")));
    ancestors.push(ancestor(17, Condition::no("Accepted", "Invalid", "broken")));
    let ours = Status {
        observed_generation: 1,
        body: StatusBody::Ancestors {
            controller_name: "us".into(),
            ancestors,
        },
    };
    let merged = merge(None, &ours, None);
    let list = merged["ancestors"].as_array().unwrap();
    let names: Vec<_> = list
        .iter()
        .map(|e| e["ancestorRef"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names[..3], ["gw17", "gw16", "gw00"]);
    assert_eq!(names.len(), 16);
    assert_eq!(list[15]["conditions"][1]["type"], "Aggregated");
}

#[test]
fn a_long_message_is_cut_at_a_character() {
    let condition = Condition::yes("Accepted", "R", "é".repeat(20000));
    assert!(condition.message.len() <= 32768);
    assert!(condition.message.ends_with(" (message truncated)."));
}

#[test]
fn errors_become_sentences() {
    assert_eq!(sentence("service a/b not found"), "Service a/b not found.");
    assert_eq!(sentence("Done."), "Done.");
    assert_eq!(sentence("a/b has no key"), "a/b has no key.");
    assert_eq!(ended("no ca found"), "no ca found.");
}
