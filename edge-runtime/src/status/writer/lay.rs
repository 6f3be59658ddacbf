//! What has to be written so that an object carries our status: pure.
//!
//! Lists of a status are shared with other controllers and written whole, so what others wrote goes back as it is, with
//! the version of the object as a precondition (Gateway API: `parents` and `ancestors` are atomic lists).

use crate::{state::ObservedStatus, status::book::Effective};
use edge_translate::{
    api::{Kind, ObjectKey},
    status::{Status, StatusBody, merge},
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What is to be written of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Needed {
    /// A JSON merge patch.
    pub(super) patch: Value,
    pub(super) says: Says,
    pub(super) part: Part,
}

/// What of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Its status.
    Status,
    /// What is in its metadata.
    Metadata,
}

/// What of a status is news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// Something that nobody should wait for.
    Facts,
    /// How many routes or sets are attached, and nothing else.
    Counts,
}

/// What has to be written of the status, or nothing if the object carries ours already.
pub(super) fn needed(
    key: &ObjectKey,
    effective: Option<&Effective>,
    seen: &ObservedStatus,
    controller: &Arc<str>,
    now: &str,
) -> Option<Needed> {
    let existing: Option<Value> = seen.status.as_ref().and_then(|text| serde_json::from_str(text).ok());
    let spoken = effective.filter(|effective| !matches!(effective.status.body, StatusBody::Unattached(_)));
    let mut wanted = match spoken {
        Some(Effective { status, addresses }) => {
            let mut wanted = merge(existing.as_ref(), status, Some(now));
            match addresses {
                Some(addresses) => wanted["addresses"] = addresses.clone(),
                None if key.kind == Kind::Gateway => keep_programmed(&mut wanted, existing.as_ref()),
                None => {}
            }
            wanted
        }
        None => merge(existing.as_ref(), &Status::silence(key.kind, controller)?, Some(now)),
    };
    // Lists that there weren't and that stay empty are nothing to write about.
    if spoken.is_none() && existing.is_none() {
        return None;
    }
    let (mut before, mut after) = (existing.as_ref().map(ordered).unwrap_or_default(), ordered(&wanted));
    if before == after {
        return None;
    }
    forget_counts(&mut before);
    forget_counts(&mut after);
    let says = match before == after {
        true => Says::Counts,
        false => Says::Facts,
    };
    // A merge patch keeps what it doesn't name.
    if let (Some(wanted), Some(Value::Object(existing))) = (wanted.as_object_mut(), &existing) {
        for field in existing.keys() {
            wanted.entry(field.clone()).or_insert(Value::Null);
        }
    }
    let patch = json!({ "metadata": { "resourceVersion": &*seen.version }, "status": wanted });
    Some(Needed {
        patch,
        says,
        part: Part::Status,
    })
}

/// The same without the counts of a Gateway or a ListenerSet.
fn forget_counts(status: &mut Value) {
    let listeners = status.get_mut("listeners").and_then(Value::as_array_mut);
    for listener in listeners.into_iter().flatten().filter_map(Value::as_object_mut) {
        listener.remove("attachedRoutes");
    }
    if let Some(status) = status.as_object_mut() {
        status.remove("attachedListenerSets");
    }
}

/// Nobody knows how the proxies of a Gateway are: what was said before stays, as if nobody had looked.
fn keep_programmed(wanted: &mut Value, existing: Option<&Value>) {
    let is_programmed = |condition: &&Value| condition["type"] == "Programmed";
    let conditions = existing.and_then(|status| status["conditions"].as_array());
    let known = conditions.into_iter().flatten().find(is_programmed);
    if let (Some(known), Some(conditions)) = (known, wanted["conditions"].as_array_mut())
        && !conditions.iter().any(|condition| is_programmed(&condition))
    {
        conditions.push(known.clone());
    }
}

/// The same without the order of lists, which means nothing in a status: two controllers that each put their own last
/// would write for ever.
fn ordered(status: &Value) -> Value {
    match status {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(ordered).collect();
            items.sort_by_cached_key(Value::to_string);
            Value::Array(items)
        }
        Value::Object(map) => {
            let fields = map.iter().map(|(key, value)| (key.clone(), ordered(value)));
            Value::Object(fields.collect::<Map<String, Value>>())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_translate::{
        api::ParentReference,
        status::{Condition, GatewayStatus, ListenerStatus, ParentStatus},
    };

    const NOW: &str = "2026-11-22T05:00:00Z";

    fn patch(key: &ObjectKey, effective: Option<&Effective>, seen: &ObservedStatus, now: &str) -> Option<Value> {
        needed(key, effective, seen, &ours(), now).map(|needed| needed.patch)
    }

    fn route() -> ObjectKey {
        ObjectKey::new(Kind::HttpRoute, "ns", "r")
    }

    fn ours() -> Arc<str> {
        "gateway.edge/us".into()
    }

    fn accepted() -> Effective {
        let parent: ParentReference = serde_json::from_value(json!({ "name": "gw" })).unwrap();
        Effective {
            status: Status {
                observed_generation: 3,
                body: StatusBody::Parents {
                    controller_name: ours(),
                    parents: vec![ParentStatus {
                        parent: Arc::new(parent),
                        conditions: vec![Condition::yes("Accepted", "Accepted", "Fine")],
                    }],
                },
            },
            addresses: None,
        }
    }

    fn seen(status: Option<&Value>) -> ObservedStatus {
        ObservedStatus {
            version: "7".into(),
            status: status.map(|status| status.to_string().into()),
            finalizers: None,
        }
    }

    #[test]
    fn entries_of_others_go_back_as_they_are_and_what_is_there_is_not_written_again() {
        let foreign =
            json!({ "parentRef": { "name": "other" }, "controllerName": "x/y", "conditions": [{ "odd": 1 }] });
        let before = json!({ "parents": [foreign] });
        let patched = patch(&route(), Some(&accepted()), &seen(Some(&before)), NOW).unwrap();
        assert_eq!(patched["metadata"]["resourceVersion"], "7");
        let parents = patched["status"]["parents"].as_array().unwrap();
        assert_eq!((parents.len(), &parents[0]), (2, &foreign));
        assert_eq!(parents[1]["conditions"][0]["lastTransitionTime"], NOW);
        // It comes back, and in whatever order somebody else puts it.
        let after = json!({ "parents": [parents[1], parents[0]] });
        let later = "2027-01-01T00:00:00Z";
        assert_eq!(patch(&route(), Some(&accepted()), &seen(Some(&after)), later), None);
        // Another's addition isn't ours to write about; our entry missing is.
        let theirs = json!({ "parents": [foreign, parents[1], { "parentRef": {}, "controllerName": "z" }] });
        assert_eq!(patch(&route(), Some(&accepted()), &seen(Some(&theirs)), later), None);
        assert!(patch(&route(), Some(&accepted()), &seen(Some(&before)), later).is_some());
    }

    #[test]
    fn what_is_not_known_about_the_proxies_of_a_gateway_stays_as_it_is() {
        let gateway = ObjectKey::new(Kind::Gateway, "ns", "gw");
        let body = StatusBody::Gateway(GatewayStatus {
            conditions: vec![Condition::yes("Accepted", "Accepted", "Scheduled")],
            listeners: Vec::new(),
            attached_listener_sets: 0,
            class: Arc::default(),
            asked: Vec::new(),
        });
        let status = Status {
            observed_generation: 4,
            body,
        };
        let addresses = json!([{ "type": "IPAddress", "value": "192.0.2.1" }]);
        let programmed =
            json!({ "type": "Programmed", "status": "True", "reason": "Programmed", "observedGeneration": 3 });
        let before = json!({ "conditions": [programmed], "addresses": addresses });
        let unknown = Effective {
            status: status.clone(),
            addresses: None,
        };
        let written = patch(&gateway, Some(&unknown), &seen(Some(&before)), NOW).unwrap();
        assert_eq!(written["status"]["addresses"], addresses);
        let conditions = written["status"]["conditions"].as_array().unwrap();
        assert_eq!(
            (&conditions[0]["type"], &conditions[1]),
            (&json!("Accepted"), &programmed)
        );
        // Once it is known, that is written.
        let mut known = unknown;
        known.addresses = Some(json!([]));
        let StatusBody::Gateway(gateway_status) = &mut known.status.body else {
            panic!("{known:?}")
        };
        gateway_status
            .conditions
            .push(Condition::no("Programmed", "NoResources", "gone"));
        let written = patch(&gateway, Some(&known), &seen(Some(&before)), NOW).unwrap();
        assert_eq!(written["status"]["conditions"][1]["status"], "False");
        assert_eq!(written["status"]["addresses"], json!([]));
    }

    #[test]
    fn a_count_is_told_from_facts() {
        let gateway = ObjectKey::new(Kind::Gateway, "ns", "gw");
        let of = |routes: u32, reason: &'static str| {
            let listener = ListenerStatus {
                name: "http".into(),
                supported_kinds: Vec::new(),
                attached_routes: routes,
                conditions: vec![Condition::yes("Accepted", reason, "")],
            };
            let status = Status {
                observed_generation: 4,
                body: StatusBody::Gateway(GatewayStatus {
                    conditions: Vec::new(),
                    listeners: vec![listener],
                    attached_listener_sets: 0,
                    class: Arc::default(),
                    asked: Vec::new(),
                }),
            };
            Effective {
                status,
                addresses: None,
            }
        };
        let first = needed(&gateway, Some(&of(1, "Accepted")), &seen(None), &ours(), NOW).unwrap();
        assert_eq!(first.says, Says::Facts);
        let carried = seen(Some(&first.patch["status"]));
        let says =
            |effective: &Effective| needed(&gateway, Some(effective), &carried, &ours(), NOW).map(|needed| needed.says);
        assert_eq!(says(&of(1, "Accepted")), None);
        assert_eq!(says(&of(2, "Accepted")), Some(Says::Counts));
        assert_eq!(says(&of(2, "Other")), Some(Says::Facts));
    }

    #[test]
    fn our_entries_go_with_what_we_have_to_say() {
        let foreign = json!({ "parentRef": { "name": "other" }, "controllerName": "x/y" });
        let own = json!({ "parentRef": { "name": "gw" }, "controllerName": &*ours() });
        let before = json!({ "parents": [own, foreign] });
        let patched = patch(&route(), None, &seen(Some(&before)), NOW).unwrap();
        assert_eq!(patched["status"]["parents"], json!([foreign]));
        assert_eq!(
            patch(&route(), None, &seen(Some(&json!({ "parents": [foreign] }))), NOW),
            None
        );
        assert_eq!(patch(&route(), None, &seen(None), NOW), None);
        let gateway = ObjectKey::new(Kind::Gateway, "ns", "gw");
        let others = json!({ "conditions": [{ "type": "Accepted" }] });
        assert_eq!(patch(&gateway, None, &seen(Some(&others)), NOW), None);
    }
}
